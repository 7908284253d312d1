package results

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var recorded = regexp.MustCompile(`results\.Event\{[^{}]*Kind:\s*([^\s,}]+)`)

// A literal would compile too, and docs/reference/store.md would lack the kind.
func TestEventsAreRecordedByConstants(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "third_party" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range recorded.FindAllSubmatch(text, -1) {
			seen++
			if kind := string(m[1]); strings.HasPrefix(kind, `"`) {
				t.Errorf("%s records an event of kind %s: use a constant of results/event.go", path, kind)
			}
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Fatalf("%d events found in the source (%v)", seen, err)
	}
}
