package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// NewFile is a file that has no name until Commit. So a reader finds all of it or
// nothing, and a full disk leaves what was there.
type NewFile struct {
	*os.File
	path      string
	mode      fs.FileMode
	overwrite bool
	flushed   bool
	done      bool // nothing is left to discard
}

// CreateFile begins a file at path, whose directory must exist. It refuses a path that
// exists, unless overwrite is set. Then it replaces the file and keeps its permissions. Of a
// link it replaces the target, or makes the target if it is missing. The caller must
// Discard the file, which does nothing after Commit.
func CreateFile(path string, overwrite bool) (*NewFile, error) {
	if err := vacant(path, overwrite); err != nil {
		return nil, err
	}
	path, err := behindLinks(path)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &NewFile{File: f, path: path, mode: mode, overwrite: overwrite}, nil
}

// behindLinks is the path that links lead to, whether it exists or not.
func behindLinks(path string) (string, error) {
	at := path
	for range 40 { // more is a loop, to Linux too
		to, _ := os.Readlink(at)
		if to == "" {
			return at, nil // no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(at) + "/" + to // not Join: after a link, .. is not what the text says
		}
		at = to
	}
	return "", fmt.Errorf("write %s: %w", path, syscall.ELOOP)
}

// vacant refuses a path that exists, so that a caller can check it before it works.
func vacant(path string, overwrite bool) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("write: %w", err)
	case info.IsDir():
		return fmt.Errorf("write %s: it is a directory: name a file", path)
	case !overwrite:
		return taken(path)
	}
	return nil
}

func taken(path string) error {
	return fmt.Errorf("write %s: %w: name another, or replace it with --force", path, fs.ErrExist)
}

// CheckChosen refuses to write a file under a name that the program chose, in a directory that a user named, if what is
// there is not a file. Behind a link would be a file that nobody named, and a FIFO may have no reader.
func CheckChosen(path string) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write %s: it exists and is not a regular file: remove it, or name another directory", path)
	}
	return nil
}

// Flush writes the content to the disk, so that Commit cannot fail for lack of space.
func (f *NewFile) Flush() error {
	if f.flushed {
		return nil
	}
	if err := errors.Join(f.Chmod(f.mode), f.Sync(), f.Close()); err != nil {
		return writing(f.path, err)
	}
	f.flushed = true
	return nil
}

// Commit flushes the file and gives it its name.
func (f *NewFile) Commit() error {
	if err := f.Flush(); err != nil {
		return err
	}
	if !f.overwrite {
		// Unlike a rename, a link does not replace a file that was made meanwhile.
		switch err := os.Link(f.Name(), f.path); {
		case err == nil:
			return nil // Discard removes the other name
		case errors.Is(err, fs.ErrExist):
			return taken(f.path)
		}
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	f.done = true
	return nil
}

// Discard removes a file that was not committed.
func (f *NewFile) Discard() error {
	if f.done {
		return nil
	}
	f.done = true
	if !f.flushed {
		_ = f.Close() // it is to be removed
	}
	return os.Remove(f.Name())
}

// WriteFile writes a whole file, or leaves what was there. A file that stdout or stderr
// leads to is appended to. A path that is not a file otherwise, such as a pipe, is written
// as it is. The end of ctx ends the wait for a pipe's reader, and its cause is then the
// error.
func WriteFile(ctx context.Context, path string, overwrite bool, write func(io.Writer) error) (err error) {
	for _, open := range []*os.File{os.Stdout, os.Stderr} {
		if LeadsTo(path, open) {
			return writing(path, write(open))
		}
	}
	if writtenAsItIs(path) {
		return writeInto(ctx, path, write)
	}
	f, err := CreateFile(path, overwrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Discard()) }()
	if err := write(f); err != nil {
		return writing(path, err)
	}
	return f.Commit()
}

func writeInto(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := openToWrite(ctx, path)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(0, 1)) })
	defer stop()
	err = errors.Join(write(f), f.Close())
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return writing(path, err)
}

// openToWrite opens what is at path. If it is a FIFO without a reader, openToWrite waits for
// one. open(2) answers ENXIO then, because it must not block.
func openToWrite(ctx context.Context, path string) (*os.File, error) {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if info, _ := os.Stat(path); !errors.Is(err, syscall.ENXIO) || info == nil || info.Mode()&fs.ModeNamedPipe == 0 {
			return f, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, &fs.PathError{Op: "wait for a reader of", Path: path, Err: context.Cause(ctx)}
		}
	}
}

// writing adds to an error, if there is one, what was being written.
func writing(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write %s: %w", path, err)
}
