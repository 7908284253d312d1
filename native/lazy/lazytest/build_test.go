package lazytest

import (
	"path/filepath"
	"testing"
)

const (
	lazyDir  = ".."
	fakeDir  = "../../fake"
	passDir  = "../../pass"
	probeDir = "../../probe"
)

// absolute is the absolute path of a native file.
func absolute(tb testing.TB, parts ...string) string {
	tb.Helper()
	path, err := filepath.Abs(filepath.Join(parts...))
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
