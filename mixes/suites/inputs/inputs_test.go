package inputs

import (
	"bytes"
	"path"
	"slices"
	"testing"
)

// A command of CASE's authors finds its network in the data directory: each network that the program has is
// written there once, where the command names it.
func TestFilesHasEachNetworkOnce(t *testing.T) {
	entries, err := cfg.ReadDir("cfg")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, e := range entries {
		want = append(want, e.Name())
	}
	for _, f := range Files(1) {
		if path.Ext(f.Path) == ".txt" {
			continue
		}
		got = append(got, path.Base(f.Path))
		if !bytes.HasPrefix(f.Content, []byte("#")) && path.Ext(f.Path) == ".cfg" {
			t.Errorf("%s does not begin with the network's source", f.Path)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Files has %q, and cfg has %q", got, want)
	}
}

func TestFilesHasListsOfImages(t *testing.T) {
	for _, f := range Files(7)[:2] {
		want := map[string]int{"images-large.txt": LargeImages, "images-medium.txt": MediumImages}[f.Path]
		if got := bytes.Count(f.Content, []byte("\n")); got != want || want == 0 {
			t.Errorf("%s has %d images, want %d", f.Path, got, want)
		}
	}
}
