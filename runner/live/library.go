package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/installation"
)

// LibraryVariable names a libcase.so to use instead of the one that
// FindLibrary would find.
const LibraryVariable = "CASERUN_LIBCASE"

// FindLibrary finds libcase.so, which jobs preload, in the places where FindBallast looks for
// its program, and has the loader try it.
func FindLibrary(ctx context.Context) (string, error) {
	path := os.Getenv(LibraryVariable)
	if path == "" {
		found, err := findNative("library libcase.so", "lazy", "libcase.so")
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
		return "", fmt.Errorf("library libcase.so: %w: %s, or correct %s", err, installation.Make("native"), LibraryVariable)
	}
	return path, tryPreload(ctx, path)
}

// libraryDirs are the values of $LIB in LD_PRELOAD for glibc's loader (ld.so(8)): on Debian, on
// Fedora and SUSE, and on Arch. The last is for a shell that expanded $LIB as a variable.
var libraryDirs = []string{"lib/x86_64-linux-gnu", "lib64", "lib", ""}

// preloadable returns a path of the library for LD_PRELOAD that glibc's loader finds and
// musl's does not, by links in the directory dir, which it makes. musl's loader ignores a
// library that it does not find. It ends a program for which it finds a library that needs
// glibc, as libcase.so does. With an error, the path is the library's own.
func preloadable(library, dir string) (string, error) {
	if library == "" {
		return "", nil
	}
	if err := link(library, dir); err != nil {
		return library, err
	}
	path := filepath.Join(dir, "$LIB", filepath.Base(library))
	if err := tryPreload(context.Background(), path); err != nil {
		return library, err
	}
	return path, nil
}

// link makes the links of preloadable.
func link(library, dir string) error {
	for _, lib := range libraryDirs {
		if err := os.MkdirAll(filepath.Join(dir, lib), 0o700); err != nil {
			return fmt.Errorf("make directory for the preloaded library: %w", err)
		}
		if err := os.Symlink(library, filepath.Join(dir, lib, filepath.Base(library))); err != nil {
			return fmt.Errorf("link the preloaded library: %w", err)
		}
	}
	return nil
}

// linked reports whether all links of preloadable are there.
func linked(library, dir string) bool {
	for _, lib := range libraryDirs {
		if to, err := os.Readlink(filepath.Join(dir, lib, filepath.Base(library))); err != nil || to != library {
			return false
		}
	}
	return true
}

// tryPreload starts a program that does nothing, with the library preloaded. The loader starts
// a program without a library that it cannot load, and says so only on standard error.
func tryPreload(ctx context.Context, path string) error {
	program, err := exec.LookPath("true")
	if err != nil {
		return fmt.Errorf("try libcase.so: %w", err)
	}
	failed := complaint(ctx, program, path)
	if failed == nil {
		return nil
	}
	if set := loaderVariables(os.Environ()); len(set) > 0 && ctx.Err() == nil {
		if other := complaint(ctx, program, ""); other != nil {
			return fmt.Errorf("a program cannot start as it should, even without %s (%w): unset what this environment asks of the loader, %s", path, other, strings.Join(set, ", "))
		}
	}
	return fmt.Errorf("library %s does not load (%w): on this machine, %s", path, failed, installation.Make("native"))
}

// complaint starts a program with a library preloaded, "" for none, and returns what it or the loader says.
func complaint(ctx context.Context, program, library string) error {
	c := exec.CommandContext(ctx, program)
	c.Env = append(os.Environ(), "LD_PRELOAD="+library, "CASE_SOCKET=", "CASE_REQUIRED=")
	var said strings.Builder
	c.Stderr = &said
	err := c.Run()
	if text := strings.TrimSpace(said.String()); text != "" {
		text, _, _ = strings.Cut(text, "\n")
		if err == nil {
			return errors.New(text)
		}
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// loaderVariables are the settings of an environment that the loader obeys, beside LD_PRELOAD.
func loaderVariables(environ []string) []string {
	var out []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if name == "GLIBC_TUNABLES" || strings.HasPrefix(name, "LD_") && name != "LD_PRELOAD" {
			out = append(out, entry)
		}
	}
	slices.Sort(out)
	return out
}
