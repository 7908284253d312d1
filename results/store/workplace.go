package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// workplace is a directory beside a store for the files of a merge. Only one process has it at a time. Its name is
// fixed, so that a merge finds what a killed one left. Whoever may write beside the store can put something else there,
// so its files are removed and renamed by the directory's descriptor, and nothing else in it is touched.
type workplace struct {
	path string
	dir  *os.File
}

// The files of a merge, each of which SQLite may have journals of.
const (
	workFile   = "work.db"
	mergedFile = "merged.db"
)

func workplaceOf(out string) string {
	return filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".merge")
}

func openWorkplace(out string) (*workplace, error) {
	w := &workplace{path: workplaceOf(out)}
	for {
		again, err := w.open()
		if err != nil {
			return nil, fmt.Errorf("merge into %s: %w", out, err)
		}
		if !again {
			break
		}
	}
	if err := w.clear(); err != nil {
		return nil, errors.Join(fmt.Errorf("merge into %s: %w", out, err), w.close())
	}
	return w, nil
}

// open makes the directory or takes one that a killed merge left, and locks it. again: a merge that ended has removed it
// meanwhile.
func (w *workplace) open() (again bool, err error) {
	made := os.Mkdir(w.path, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return false, made
	}
	dir, err := os.OpenFile(w.path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, w.foreign(err)
	}
	defer func() {
		if again || err != nil {
			err = errors.Join(err, dir.Close())
		}
	}()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false, fmt.Errorf("another merge is under way in %s: wait for it: %w", w.path, err)
	}
	info, err := dir.Stat()
	if err != nil {
		return false, err
	}
	if made != nil { // a file system that knows no owners shows others than were asked for
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
			return false, w.foreign(errors.New("other users may write or read it"))
		}
	}
	if now, err := os.Lstat(w.path); err != nil || !os.SameFile(info, now) {
		return true, nil
	}
	w.dir = dir
	return false, nil
}

// foreign is the error of what no merge of this user made.
func (w *workplace) foreign(err error) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("%s is there, and is not a directory that a merge of this user made (%w): remove it if no merge is under way, or merge into another directory",
		w.path, err)
}

func (w *workplace) file(name string) string { return filepath.Join(w.path, name) }

// clear removes the files of a merge.
func (w *workplace) clear() error {
	for _, name := range []string{workFile, mergedFile} {
		for _, suffix := range append([]string{""}, journals...) {
			if err := unix.Unlinkat(int(w.dir.Fd()), name+suffix, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove %s: %w", w.file(name+suffix), err)
			}
		}
	}
	return nil
}

// publish gives the merged store its name. It replaces the file that has it only if replace is set.
func (w *workplace) publish(out string, replace bool) error {
	if !replace { // a file that another program made meanwhile
		// A merge that is killed between a link and its removal leaves a store with two names.
		err := unix.Renameat2(int(w.dir.Fd()), mergedFile, unix.AT_FDCWD, out, unix.RENAME_NOREPLACE)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		// The file system, such as NFS, has no such rename.
		if err := unix.Linkat(int(w.dir.Fd()), mergedFile, unix.AT_FDCWD, out, 0); err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		if exists(out) { // a file system without links
			return fs.ErrExist
		}
	}
	return unix.Renameat(int(w.dir.Fd()), mergedFile, unix.AT_FDCWD, out)
}

// close removes the files of the merge, and the directory unless it has others.
func (w *workplace) close() error {
	err := w.clear()
	if gone := unix.Rmdir(w.path); gone != nil && !errors.Is(gone, unix.ENOTEMPTY) && !errors.Is(gone, unix.EEXIST) {
		err = errors.Join(err, fmt.Errorf("remove %s: %w", w.path, gone))
	}
	return errors.Join(err, w.dir.Close())
}
