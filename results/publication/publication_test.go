package publication

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/store/disktest"
)

// A link under a name that Write chooses is not followed, and a FIFO not waited for.
func TestWriteFollowsNoLink(t *testing.T) {
	page, err := paper.Case().Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Page, page.Tables[0].ID() + ".csv", page.Tables[0].ID() + ".svg"} {
		dir := t.TempDir()
		precious := filepath.Join(t.TempDir(), "precious")
		if err := errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.Symlink(precious, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		if err := Write(t.Context(), page, dir, true, figures.SVG); err == nil || !strings.Contains(err.Error(), name+": it exists and is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
			t.Errorf("%s: the file of others has %.20q (%v)", name, text, err)
		}
	}
	dir := t.TempDir()
	drawn := []paper.Figure{{ID: "one"}}
	if err := syscall.Mkfifo(filepath.Join(dir, "one.svg"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteFigures(t.Context(), drawn, dir, true); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// Tables of two papers have the same names: no directory has some of each.
func TestCheckRefusesFilesOfAnotherPaper(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"table-3.csv": "", "text.csv": "text.csv is of caserun paper schedgpu: name another directory"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Check(paper.Case(), dir, true); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

// few is how many bytes of each file a full disk takes here.
const few = 20

// A full disk leaves the earlier page with all its files.
func TestFullDiskKeepsTheEarlierPage(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	dir := t.TempDir()
	page, err := paper.Case().Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), page, dir, false, figures.SVG); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if err := disktest.WhileFull(t, few, func() error { return Write(t.Context(), page, dir, true, figures.SVG) }); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error %v, want one of a full disk", err)
	}
	if after := contents(t, dir); !maps.Equal(after, before) {
		t.Errorf("%d files, before were %d, or others", len(after), len(before))
	}
	if err := Write(t.Context(), page, dir, true, figures.SVG); err != nil {
		t.Error(err)
	}
	if err := Write(t.Context(), page, dir, false, figures.SVG); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want one that a page is there", err)
	}
}

// What simulated nodes have of what was measured is a file, too, which a page without it removes.
func TestWriteHasWhatIsSimulated(t *testing.T) {
	p, err := paper.Lookup("pilot")
	if err != nil {
		t.Fatal(err)
	}
	page, err := p.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, besides := range [][]paper.Beside{{{Mix: "P-fig4-bfs"}}, nil} {
		page.Besides = besides
		if err := Write(t.Context(), page, dir, true); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "simulated.csv")); (err == nil) != (besides != nil) {
			t.Errorf("with %d cells: %v", len(besides), err)
		}
	}
}
