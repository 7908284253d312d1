//go:build tsan

package ivmtest

import (
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

// sanitized returns the directory of what is built under a sanitizer, which fails where gcc has none.
func sanitized(t *testing.T, sanitizer string) string {
	t.Helper()
	return filepath.Join(nativetest.Build(t, "ivm", "sanitized"), "build", sanitizer)
}

// The thread sanitizer finds no data race in the library.
func TestTheLibraryHasNoDataRace(t *testing.T) {
	ivmd := filepath.Join(nativetest.Build(t, "ivm", "fixtures"), "build/ivmd")
	run(t, ivmd, filepath.Join(sanitized(t, "thread"), "threads")).must(t)
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(nativetest.Build(t, "fake"), "build/13"))
	run(t, ivmd, filepath.Join(sanitized(t, "thread"), "threads"), "gpu").must(t)
}

// The address sanitizer, that of leaks and that of undefined behaviour find nothing in the library and in ivmd.
func TestSanitizersFindNothing(t *testing.T) {
	dir := sanitized(t, "address")
	ivmd := filepath.Join(dir, "ivmd")
	run(t, ivmd, filepath.Join(dir, "calls")).must(t)
	run(t, ivmd, filepath.Join(dir, "model"), "1", "300").must(t)
	run(t, ivmd, filepath.Join(dir, "threads")).must(t)

	t.Setenv("LD_LIBRARY_PATH", filepath.Join(nativetest.Build(t, "fake"), "build/13"))
	t.Setenv("FAKE_CUDA_DEVICES", "3")
	run(t, ivmd, filepath.Join(dir, "calls"), "gpu").must(t)
	run(t, ivmd, filepath.Join(dir, "gpu"), "master").must(t)
	run(t, ivmd, filepath.Join(dir, "fill"), "gpu").must(t)
	run(t, ivmd, filepath.Join(dir, "model"), "1", "100", "cgg", "1").must(t)
}
