package probe

import (
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/runner/probe/probetest"
)

const nativeDir = "../../native/probe"

// compile builds a C program under native/probe with libcase in it.
func compile(tb testing.TB, out, source string) {
	tb.Helper()
	if err := probetest.Build(nativeDir, out, filepath.Join(nativeDir, source)); err != nil {
		tb.Fatal(err)
	}
}
