package network

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestOf(t *testing.T) {
	dir := t.TempDir()
	if kind, err := Of(dir); kind != "" || err != nil {
		t.Errorf("%s: %q, %v", dir, kind, err)
	}
	if kind, err := Of(filepath.Join(dir, "missing")); kind != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %q, %v", kind, err)
	}
}
