// Package scratch makes private temporary directories that go with this process: if it
// is killed, the next one removes them.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// prefix begins the name of every directory.
	prefix = "caserun-"
	// marker is a file in a directory of this package, made once the directory is
	// locked: other directories may have such a name too.
	marker = ".caserun-scratch"
)

// Dir is a directory that only this user can enter. Where the file system has locks, one
// on it lasts as long as this process.
type Dir struct {
	path string
	lock *os.File
}

// memory is the directory whose files are in memory.
const memory = "/dev/shm"

// Make removes what processes that have died left, and makes a directory whose name
// says what it is for.
func Make(purpose string) (*Dir, error) { return makeIn(os.TempDir(), purpose) }

// MakeInMemory is Make for files that processes share: they never go to a disk, where the
// system has such a place.
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
	if held, err := lock(path); err == nil { // without locks, as on NFS, Remove alone removes it
		d.lock = held
		if err := os.WriteFile(filepath.Join(path, marker), nil, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("mark temporary directory: %w", err), d.Remove())
		}
	}
	return d, nil
}

// Path is absolute.
func (d *Dir) Path() string { return d.path }

// Remove removes the directory with all that is in it.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		_ = d.lock.Close() // which unlocks what is not there any more
	}
	return err
}

// lock takes the lock of a directory, or fails at once with EWOULDBLOCK.
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

// removeDead removes the directories of processes of this user that have died. What
// cannot be removed stays for the next one: it is in nobody's way.
func removeDead(parent string) {
	found, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		if !ours(path) {
			continue
		}
		if f, err := lock(path); err == nil {
			_ = os.RemoveAll(path)
			_ = f.Close()
		}
	}
}

// ours reports whether the directory was made by Make, for this user.
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
