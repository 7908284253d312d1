package probe

import (
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/runner/probe/probetest"
)

const nativeDir = "../../native/probe"

// compileWithLibrary builds a C program under native/probe with libcase in it.
func compileWithLibrary(tb testing.TB, out, source string) {
	tb.Helper()
	if err := probetest.Build(nativeDir, out, filepath.Join(nativeDir, source)); err != nil {
		tb.Fatal(err)
	}
}
