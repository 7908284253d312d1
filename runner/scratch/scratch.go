// Package scratch makes private temporary directories for this process. If the process is killed,
// the next process that uses the package removes them.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/userfile"
)

const (
	// prefix begins the name of every directory.
	prefix = "caserun-"
	// marker is a file in every directory of this package, because other directories may have
	// the prefix too. It is made once the directory is locked.
	marker = ".caserun-scratch"
)

// Dir is a directory that only this user can enter. On a file system with locks, this process
// holds a lock on the directory until it ends.
type Dir struct {
	path string
	lock *os.File
}

// memory is a directory whose files stay in memory.
const memory = "/dev/shm"

// Make removes directories of dead processes, and makes a directory whose name contains purpose.
func Make(purpose string) (*Dir, error) {
	d, err := makeIn(os.TempDir(), purpose)
	if err != nil {
		err = userfile.TemporaryError(err)
	}
	return d, err
}

// MakeInMemory is Make for files that processes share. If the system has a file system in memory,
// the files are never written to a disk.
func MakeInMemory(purpose string) (*Dir, error) {
	if unix.Access(memory, unix.W_OK|unix.X_OK) != nil {
		return Make(purpose)
	}
	return makeIn(memory, purpose)
}

func makeIn(parent, purpose string) (*Dir, error) {
	removeDead(parent)
	path, err := os.MkdirTemp(parent, prefix+purpose+"-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("make temporary directory: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("make temporary directory: %w", err)
	}
	d := &Dir{path: path}
	if held, err := lock(path); err == nil { // without locks, as on NFS, only Remove removes the directory
		d.lock = held
		if err := os.WriteFile(filepath.Join(path, marker), nil, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("mark temporary directory: %w", err), d.Remove())
		}
	}
	return d, nil
}

// Path returns the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Remove removes the directory and its content.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.path)
	if errors.Is(err, fs.ErrPermission) { // a job has locked a directory
		_ = filepath.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				_ = os.Chmod(path, 0o700) // before it is read
			}
			return nil
		})
		err = os.RemoveAll(d.path)
	}
	if d.lock != nil {
		_ = d.lock.Close() // the directory no longer exists
	}
	return err
}

// lock locks a directory. If another process holds the lock, it fails at once with EWOULDBLOCK.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeDead removes the directories of this user's dead processes. It ignores errors, because a
// leftover directory does no harm and the next process tries again.
func removeDead(parent string) {
	for _, path := range Find("", parent) {
		if f, err := lock(path); err == nil {
			_ = os.RemoveAll(path)
			_ = f.Close()
		}
	}
}

// ours reports whether this user made the directory with Make.
func ours(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Geteuid() {
		return false
	}
	_, err = os.Lstat(filepath.Join(path, marker))
	return err == nil
}

// Find has the directories in a parent that this user's processes have made for a purpose; "": for any.
func Find(purpose, parent string) (paths []string) {
	found, err := fs.Glob(os.DirFS(parent), prefix+purpose+"*")
	if err != nil {
		return nil
	}
	for _, name := range found {
		if path := filepath.Join(parent, name); ours(path) {
			paths = append(paths, path)
		}
	}
	return paths
}
