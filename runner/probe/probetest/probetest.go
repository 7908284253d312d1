// Package probetest builds and drives C programs with libcase in them, for tests.
package probetest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// Build compiles a program with the library's sources, which are under native. args are the
// program's own sources, and what else the compiler is told.
func Build(native, out string, args ...string) error {
	return BuildWithLock(native, out, "", args...)
}

// BuildWithLock does the same with another source in the place of the file lock's, if it is
// not "".
func BuildWithLock(native, out, lock string, args ...string) error {
	for _, pattern := range []string{"*.c", "shared/*.c"} {
		sources, err := filepath.Glob(filepath.Join(native, pattern))
		if err != nil || len(sources) == 0 {
			return errors.Join(err, fmt.Errorf("no sources of libcase in %s", native))
		}
		args = append(args, sources...)
	}
	if lock != "" {
		args[slices.Index(args, filepath.Join(native, "shared/lock_file.c"))] = lock
	}
	args = append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", out}, args...)
	if text, err := exec.Command("cc", append(args, "-ldl")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s, which needs a C compiler: %w\n%s", filepath.Base(out), err, text)
	}
	return nil
}
