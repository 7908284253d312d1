package probe

import (
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

const nativeDir = "../../native/probe"

// built builds a program of native/probe with libcase in it, and returns its path.
func built(tb testing.TB, program string) string {
	tb.Helper()
	return filepath.Join(nativetest.Build(tb, "probe", program), program)
}
