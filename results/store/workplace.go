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

// workplace is a directory beside a store for the files of a merge or a vacuum, which make a file that replaces the
// store. Only one process has it at a time. Its name is fixed, so that the next one finds what a killed one left.
// Whoever may write beside the store can put something else there, so its files are removed and renamed by the
// directory's descriptor, and nothing else in it is touched.
type workplace struct {
	doing string // such as "merge into runs.db", for errors
	out   string // the store
	path  string
	dir   *os.File
}

// The files of a workplace, each of which SQLite may have journals of. The second one replaces the store.
const (
	workFile   = "work.db"
	mergedFile = "merged.db"
)

func workplaceOf(out string) string {
	return filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".merge")
}

func openWorkplace(doing, out string) (*workplace, error) {
	w := &workplace{doing: doing, out: out, path: workplaceOf(out)}
	for {
		again, err := w.open()
		if err != nil {
			return nil, w.failed(err)
		}
		if !again {
			break
		}
	}
	if err := w.clear(); err != nil {
		return nil, errors.Join(w.failed(err), w.close())
	}
	return w, nil
}

func (w *workplace) failed(err error) error { return fmt.Errorf("%s: %w", w.doing, err) }

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
		return false, fmt.Errorf("another merge or vacuum is under way in %s: wait for it: %w", w.path, err)
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
	return fmt.Errorf("%s is there, and is not a directory that a merge or vacuum of this user made (%w): remove it if neither is under way, or use a store in another directory",
		w.path, err)
}

func (w *workplace) file(name string) string { return filepath.Join(w.path, name) }

// clear removes the files.
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

// make makes an empty file that is to replace the store, and finds out whether it can have the store's owner.
func (w *workplace) make(name string) error {
	f, err := os.OpenFile(w.file(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return w.failed(err)
	}
	return w.keepOwner(w.file(name))
}

// keepOwner gives a file beside the store the store's owner and group, if there is a store. Without that, the owner could
// not read what replaces it.
func (w *workplace) keepOwner(path string) error {
	if !exists(w.out) {
		return nil
	}
	var has, wants unix.Stat_t
	if err := errors.Join(unix.Stat(w.out, &wants), unix.Stat(path, &has)); err != nil {
		return fmt.Errorf("%s: who owns it: %w", w.doing, err)
	}
	if has.Uid == wants.Uid && has.Gid == wants.Gid {
		return nil
	}
	if err := os.Chown(path, int(wants.Uid), int(wants.Gid)); err != nil {
		return fmt.Errorf("%s: the new file could not belong to user %d and group %d as this one does: let its owner do it, or use a store of your own: %w",
			w.doing, wants.Uid, wants.Gid, err)
	}
	return nil
}

// replace gives the merged file the store's name, once it is on the disk. It replaces a file only if existing is set.
func (w *workplace) replace(existing bool) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(w.out); err == nil {
		mode = info.Mode().Perm()
	}
	path := w.file(mergedFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return w.failed(err)
	}
	if err = errors.Join(w.keepOwner(path), f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = w.publish(w.out, existing)
	}
	if err != nil {
		return w.failed(err)
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

// close removes the files, and the directory unless it has others.
func (w *workplace) close() error {
	err := w.clear()
	if gone := unix.Rmdir(w.path); gone != nil && !errors.Is(gone, unix.ENOTEMPTY) && !errors.Is(gone, unix.EEXIST) {
		err = errors.Join(err, fmt.Errorf("remove %s: %w", w.path, gone))
	}
	return errors.Join(err, w.dir.Close())
}
