package nativetest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Calls are the functions of CUDA with the kind that native/calls/cuda.calls says.
func Calls(tb testing.TB) map[string]string {
	tb.Helper()
	if errNative != nil {
		tb.Fatal(errNative)
	}
	calls := filepath.Join(native, "calls")
	out, err := exec.Command("awk", "-v", "want=classes", "-f", filepath.Join(calls, "generate.awk"), filepath.Join(calls, "cuda.calls")).Output()
	if err != nil {
		tb.Fatalf("native/calls: %v", err)
	}
	kinds := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		kinds[fields[0]] = fields[1]
	}
	return kinds
}
