package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/userfile"
)

// Check refuses an output before the work for it is done.
func Check(path string, p Policy) error {
	_, err := p.check(path)
	return err
}

// IsStream reports whether what is at path is written into and not replaced, such as a FIFO or a device.
func IsStream(path string) bool {
	t, err := Policy{}.find(path)
	return err == nil && t.stream
}

// Planned is an output that a command is to write.
type Planned struct {
	Path   string
	Policy Policy
}

// CheckAll refuses outputs of one command that could not all be written: what Check refuses, and the same file twice. A
// character device may be named twice. made are directories that the command makes.
func CheckAll(outputs []Planned, made []string) error {
	for _, dir := range made {
		if err := checkDirectory(dir); err != nil {
			return err
		}
	}
	named := map[string]string{}
	for _, o := range outputs {
		if dir := filepath.Dir(o.Path); !userfile.Absent(dir) || !slices.ContainsFunc(made, func(m string) bool { return within(m, dir) }) {
			t, err := o.Policy.check(o.Path)
			if err != nil {
				return err
			}
			if t.info != nil && t.info.Mode()&fs.ModeCharDevice != 0 {
				continue
			}
		}
		file := realPath(o.Path)
		if i := slices.IndexFunc(made, func(m string) bool { return within(m, o.Path) }); i >= 0 {
			return refuse(o.Path, "another export makes the directory %s: name another", made[i])
		}
		if other, taken := named[file]; taken {
			return refuse(o.Path, "that is %s, which another export writes: name another", other)
		}
		named[file] = o.Path
	}
	return nil
}

// within reports whether dir is a directory that is made too when made is.
func within(made, dir string) bool { return strings.HasPrefix(realPath(made)+"/", realPath(dir)+"/") }

// realPath is a path from the root without links, as far as it exists.
func realPath(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if full, err := filepath.Abs(path); err == nil { // else the working directory is gone
		path = full
	}
	return path
}

// Same reports whether two paths are of one file, or would be if it were made.
func Same(a, b string) bool {
	first, err := os.Stat(a)
	second, failed := os.Stat(b)
	if err == nil && failed == nil {
		return os.SameFile(first, second)
	}
	return err != nil && failed != nil && realPath(a) == realPath(b)
}

// checkDirectory refuses what is there and is not a directory.
func checkDirectory(dir string) error {
	if to, _ := os.Readlink(dir); to != "" && missing(dir) {
		return refuse(dir, "it is a link to %s, which does not exist: make that directory, remove the link, or name another", to)
	}
	switch info, err := os.Stat(dir); {
	case err == nil && !info.IsDir():
		return refuse(dir, "it is not a directory: name another")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return refuse(dir, "%w: name another directory", cause(err))
	}
	return nil
}

// MakeDirectory makes a directory for outputs, and those above it.
func MakeDirectory(dir string) error {
	if err := checkDirectory(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return refuse(dir, "the directory cannot be made: %w: name another", cause(err))
	}
	return nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
