package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNotBuilt is wrapped when a native part of caserun is not there.
var ErrNotBuilt = errors.New("programs not found")

// FindBallast finds the program that holds device memory, beside the running
// executable or where make native leaves it.
func FindBallast() (string, error) { return findNative("ballast program", "ballast", "ballast") }

// findNative finds a file that make native built, beside the running executable
// or in its directory under native.
func findNative(what, dir, file string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the %s: %w", what, err)
	}
	for _, path := range []string{filepath.Join(filepath.Dir(self), file), filepath.Join("native", dir, file)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("the %s is not built (%w): run make native", what, ErrNotBuilt)
}
