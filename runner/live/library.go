package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// LibraryVariable names a libcase.so to use instead of the one that
// FindLibrary would find.
const LibraryVariable = "CASERUN_LIBCASE"

// FindLibrary finds the library that jobs are started with, as FindBallast its
// program, and has the loader try it.
func FindLibrary(ctx context.Context) (string, error) {
	path := os.Getenv(LibraryVariable)
	if path == "" {
		found, err := findNative("library libcase.so", "probe", "libcase.so")
		if err != nil {
			return "", err
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find libcase.so: %w", err)
	}
	if strings.ContainsAny(path, ": \t\n") {
		return "", fmt.Errorf("library %q: LD_PRELOAD takes no path with a space or a colon: copy it elsewhere and set %s to it", path, LibraryVariable)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("library libcase.so: %w: run make native, or correct %s", err, LibraryVariable)
	}
	return path, tryPreload(ctx, path)
}

// tryPreload starts a program that does nothing with the library: the loader
// goes on without one that it cannot load, and only says so on standard error.
func tryPreload(ctx context.Context, path string) error {
	program, err := exec.LookPath("true")
	if err != nil {
		return fmt.Errorf("try libcase.so: %w", err)
	}
	c := exec.CommandContext(ctx, program)
	c.Env = append(os.Environ(), "LD_PRELOAD="+path, "CASE_SOCKET=", "CASE_REQUIRED=")
	var said strings.Builder
	c.Stderr = &said
	err = c.Run()
	if text := strings.TrimSpace(said.String()); err == nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		return fmt.Errorf("library %s does not load (%w): run make native on this machine", path, err)
	}
	return nil
}
