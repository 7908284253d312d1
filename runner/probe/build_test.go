package probe

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/runner/probe/probetest"
)

const nativeDir = "../../native/probe"

// compile builds a C program from sources under native/probe.
func compile(tb testing.TB, out string, sources ...string) {
	tb.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		tb.Fatalf("the tests need a C compiler: %v", err)
	}
	args := []string{"-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", out}
	for _, source := range sources {
		args = append(args, filepath.Join(nativeDir, source))
	}
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", filepath.Base(out), err, text)
	}
}

// compileWithLibrary builds a C program under native/probe with libcase in it.
func compileWithLibrary(tb testing.TB, out, source string) {
	tb.Helper()
	if err := probetest.Build(nativeDir, out, filepath.Join(nativeDir, source)); err != nil {
		tb.Fatal(err)
	}
}
