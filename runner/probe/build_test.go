package probe

import (
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

const (
	nativeDir = "../../native/probe"
	lazyDir   = "../../native/lazy"
	fakeDir   = "../../native/fake"
	passDir   = "../../native/pass"
)

// built builds a program of native/probe with libcase in it, and returns its path.
func built(tb testing.TB, program string) string {
	tb.Helper()
	return filepath.Join(nativetest.Build(tb, "probe", program), program)
}

// absolute is the absolute path of a native file.
func absolute(tb testing.TB, parts ...string) string {
	tb.Helper()
	path, err := filepath.Abs(filepath.Join(parts...))
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
