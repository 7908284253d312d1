// Package probetest builds C programs with libcase in them, for tests.
package probetest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build compiles a program with the library's sources, which are under native. args are the
// program's own sources, and what else the compiler is told.
func Build(native, out string, args ...string) error { return build(native, out, nil, args) }

// BuildPoints does the same with the points at which a test stops a client (CASE_SHARED_POINTS).
func BuildPoints(native, out string, args ...string) error {
	return build(native, out, []string{"-DCASE_SHARED_POINTS"}, args)
}

func build(native, out string, flags, args []string) error {
	compiler := append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", out}, flags...)
	for _, pattern := range []string{"*.c", "shared/*.c"} {
		sources, err := filepath.Glob(filepath.Join(native, pattern))
		if err != nil || len(sources) == 0 {
			return errors.Join(err, fmt.Errorf("no sources of libcase in %s", native))
		}
		args = append(args, sources...)
	}
	if text, err := exec.Command("cc", append(append(compiler, args...), "-ldl")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s, which needs a C compiler: %w\n%s", filepath.Base(out), err, text)
	}
	return nil
}
