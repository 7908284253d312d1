package mps

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A client runs as the daemon's user, so it can remove the files through which programs reach the daemon. A program that does not
// find them runs without MPS, and says nothing. The files are those that the daemon made at its start: a server adds none, and a
// second name of each is enough to put it back (H200, driver 580).

// pipes is where clients find the files.
func (d *Daemon) pipes() string { return filepath.Join(d.root, "pipe") }

// keep gives each of the files a second name. A file system that has no second names leaves them unguarded.
func (d *Daemon) keep() {
	entries, _ := os.ReadDir(d.pipes()) // the daemon answers, so they are there
	for _, e := range entries {
		path := filepath.Join(d.pipes(), e.Name())
		if info, err := os.Lstat(path); err == nil && os.Link(path, filepath.Join(d.spare.Path(), e.Name())) == nil {
			d.kept = append(d.kept, info)
		}
	}
}

// Mend puts the files back that a client has removed, replaced or locked, and reports whether there were some. After an error
// programs may not become clients.
func (d *Daemon) Mend() (mended bool, err error) {
	d.mending.Lock()
	defer d.mending.Unlock()
	if d.intact() {
		return false, nil
	}
	for _, dir := range []string{d.spare.Path(), d.root, d.pipes()} {
		info, failed := os.Lstat(dir)
		switch {
		case dir == d.spare.Path():
		case failed == nil && !info.IsDir():
			failed = errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700))
		case failed != nil:
			failed = os.MkdirAll(dir, 0o700)
		}
		err = errors.Join(err, failed, os.Chmod(dir, 0o700))
	}
	for _, kept := range d.kept {
		spare, path := filepath.Join(d.spare.Path(), kept.Name()), filepath.Join(d.pipes(), kept.Name())
		now, failed := os.Lstat(spare)
		if failed == nil && !os.SameFile(now, kept) {
			failed = &fs.PathError{Op: "link", Path: spare, Err: errors.New("it was replaced")}
		}
		if failed == nil {
			failed = errors.Join(os.Chmod(spare, kept.Mode().Perm()), os.RemoveAll(path), os.Link(spare, path))
		}
		err = errors.Join(err, failed)
	}
	return true, err
}

// intact reports whether the files are as they were.
func (d *Daemon) intact() bool {
	for _, dir := range []string{d.root, d.pipes()} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			return false
		}
	}
	for _, kept := range d.kept {
		now, err := os.Lstat(filepath.Join(d.pipes(), kept.Name()))
		if err != nil || !os.SameFile(now, kept) || now.Mode() != kept.Mode() {
			return false
		}
	}
	return true
}
