package live

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/caserun/caserun/installation"
)

// FindBallast finds the program that holds device memory.
func FindBallast() (string, error) { return findNative("ballast program", "ballast", "ballast") }

// findSlow finds the program that holds SMs.
func findSlow() (string, error) { return findNative("program of --slow", "ballast", "slow") }

// findSwapArea finds the program that makes host memory for device memory to move to.
func findSwapArea() (string, error) { return findNative("swap area program", "ballast", "swaparea") }

// FindSwapRate finds the program that measures what moving memory costs.
func FindSwapRate() (string, error) { return findNative("swap rate program", "ballast", "swaprate") }

// FindCheckpoint finds the program that checkpoints processes.
func FindCheckpoint() (string, error) {
	return findNative("checkpoint program", "ballast", "checkpoint")
}

// findNative finds a file that make native built in a folder of native.
func findNative(what, dir, file string) (string, error) {
	path, found, err := installation.Find(filepath.Join("native", dir), file, func(i fs.FileInfo) bool { return i.Mode().IsRegular() })
	switch {
	case err != nil:
		return "", fmt.Errorf("find the %s: %w", what, err)
	case !found:
		return "", fmt.Errorf("the %s is not built (programs not found): %s", what, installation.Make("native"))
	}
	return path, nil
}
