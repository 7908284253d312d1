package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/userfile"
)

// CheckTargets refuses a set of files that exports could not all write, before any of them
// is written: a file that exists, unless overwrite is set; a file whose directory is
// missing; the same file twice. made are directories that the exports make.
func CheckTargets(paths, made []string, overwrite bool) error {
	willBe := func(dir string) bool {
		return slices.ContainsFunc(made, func(m string) bool { return m != "" && strings.HasPrefix(absolute(m)+"/", absolute(dir)+"/") })
	}
	named := map[string]string{}
	for _, path := range paths {
		if writtenAsItIs(path) {
			continue
		}
		if err := vacant(path, overwrite); err != nil {
			return err
		}
		if err := userfile.CheckDirectory(path); err != nil && !willBe(filepath.Dir(path)) {
			return fmt.Errorf("write %s: %w", path, err)
		}
		file, err := behindLinks(path)
		if err != nil {
			return err
		}
		if real, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
			file = filepath.Join(real, filepath.Base(file))
		}
		file = absolute(file)
		if other, taken := named[file]; taken {
			return fmt.Errorf("write %s: that is %s, which another export writes: name another", path, other)
		}
		named[file] = path
	}
	return nil
}

// absolute is a path from the root, or the path itself if the working directory is gone.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// writtenAsItIs reports whether WriteFile writes into what is at path, instead of
// replacing it.
func writtenAsItIs(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return false
	}
	return !info.Mode().IsRegular() || LeadsTo(path, os.Stdout) || LeadsTo(path, os.Stderr)
}

// LeadsTo reports whether path is a name of an open file, such as /dev/stdout of
// os.Stdout.
func LeadsTo(path string, open *os.File) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	its, err := open.Stat()
	return err == nil && os.SameFile(info, its)
}
