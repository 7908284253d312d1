package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File is an output that has no name until Commit. So a reader finds all of it or nothing, and a full disk or an
// interruption leaves what was there. What is not replaced, such as a FIFO, is written into at once.
type File struct {
	ctx    context.Context
	name   string // as the user gave it
	target target
	policy Policy
	file   *os.File
	stop   func() bool // of a stream: its deadline
	closed bool
	done   bool // no temporary file is left
}

// Create begins an output at path. The caller must Discard the file, which does nothing after Commit. The end of ctx ends
// writing, and the wait for the reader of a FIFO. Its cause is then the error.
func Create(ctx context.Context, path string, p Policy) (*File, error) {
	t, err := p.check(path)
	if err != nil {
		return nil, err
	}
	f := &File{ctx: ctx, name: path, target: t, policy: p}
	if t.stream {
		if f.file, err = p.openStream(ctx, path, t); err != nil {
			return nil, err
		}
		f.stop = context.AfterFunc(ctx, func() { _ = f.file.SetWriteDeadline(time.Unix(0, 1)) })
		f.done = true
		return f, nil
	}
	if f.file, err = unnamed(t); err != nil {
		return nil, f.failed(cause(err))
	}
	return f, nil
}

// unnamed makes the file that is renamed to the target later. Its name is short, whatever the target's is.
func unnamed(t target) (*os.File, error) {
	mode := fs.FileMode(0o666) // less the umask
	if t.info != nil {
		mode = 0o600 // until settle: an earlier file may be secret
	}
	for {
		name := filepath.Join(filepath.Dir(t.path), fmt.Sprintf("%s%08x", Temporary, rand.Uint32()))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Temporary is how the names of files begin that are not complete. They are left only by a process that was killed.
const Temporary = ".caserun-"

// openStream opens what is not replaced. If it is a FIFO without a reader, openStream waits for one. open(2) answers
// ENXIO then, because it must not block. Standard output and error keep their place in the file, and their flags.
func (p Policy) openStream(ctx context.Context, path string, t target) (*os.File, error) {
	if t.std != nil {
		fd, err := unix.FcntlInt(t.std.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		return os.NewFile(uintptr(fd), t.std.Name()), nil
	}
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for said := false; ; {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err == nil {
			return f, nil
		}
		info, _ := os.Stat(path)
		if !errors.Is(err, syscall.ENXIO) || info == nil || info.Mode()&fs.ModeNamedPipe == 0 {
			return nil, refuse(path, "%w: name another file", cause(err))
		}
		if !said && p.Waiting != nil {
			p.Waiting(path)
		}
		said = true
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, &fs.PathError{Op: "wait for a reader of", Path: path, Err: context.Cause(ctx)}
		}
	}
}

// failed is an error of writing the file. If ctx has ended, that is why.
func (f *File) failed(err error) error {
	if f.ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.Cause(f.ctx)
	}
	return fmt.Errorf("write %s: %w", f.name, err)
}

// Write writes to the file.
func (f *File) Write(b []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	n, err := f.file.Write(b)
	if err != nil {
		err = cause(err)
	}
	return n, err
}

// Directory is where a command may keep what it makes the file from: beside the file, because its file system must have
// room anyway.
func (f *File) Directory() string {
	if f.target.stream {
		return os.TempDir()
	}
	return filepath.Dir(f.target.path)
}

// close writes the content to the disk, so that Commit cannot fail for lack of space.
func (f *File) close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	var err error
	if f.target.stream {
		f.stop()
	} else {
		err = f.settle()
	}
	if err = errors.Join(err, f.file.Close()); err != nil {
		return f.failed(cause(err))
	}
	return nil
}

// settle gives the new file the permissions of the earlier one, and its owner as far as this user may.
func (f *File) settle() error {
	if earlier := f.target.info; earlier != nil {
		if s, ok := earlier.Sys().(*syscall.Stat_t); ok && f.file.Chown(int(s.Uid), int(s.Gid)) != nil {
			_ = f.file.Chown(-1, int(s.Gid))
		}
		if err := f.file.Chmod(earlier.Mode().Perm()); err != nil {
			return err
		}
	}
	return f.file.Sync()
}

// Commit writes what is left to the disk, and gives the file its name.
func (f *File) Commit() error {
	if err := f.close(); err != nil || f.target.stream {
		return err
	}
	if f.target.info == nil {
		// Unlike a rename, a link does not replace a file that was made meanwhile.
		switch err := os.Link(f.file.Name(), f.target.path); {
		case err == nil:
			return nil // Discard removes the other name
		case errors.Is(err, fs.ErrExist):
			return f.policy.taken(f.name)
		}
	}
	err := os.Rename(f.file.Name(), f.target.path)
	if errors.Is(err, fs.ErrPermission) { // it is another user's in a sticky directory, or immutable
		return refuse(f.name, "the new file cannot take its place: %w: name another file", cause(err))
	}
	if err != nil {
		return f.failed(fmt.Errorf("the new file cannot take its place: %w", cause(err)))
	}
	f.done = true
	return nil
}

// Discard removes what was not committed.
func (f *File) Discard() error {
	if !f.closed {
		f.closed = true
		if f.stop != nil {
			f.stop()
		}
		_ = f.file.Close() // it is removed
	}
	if f.done {
		return nil
	}
	f.done = true
	return os.Remove(f.file.Name())
}

// Write writes an output at path as a whole.
func Write(ctx context.Context, path string, p Policy, write func(io.Writer) error) (err error) {
	f, err := Create(ctx, path, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Discard()) }()
	if err := write(f); err != nil {
		return f.failed(err)
	}
	return f.Commit()
}

// Set is several outputs that get their names together, when all of them are complete. The caller must Discard it.
type Set struct {
	ctx    context.Context
	policy Policy
	files  []*File
}

// NewSet begins a set of outputs.
func NewSet(ctx context.Context, p Policy) *Set { return &Set{ctx: ctx, policy: p} }

// Write adds an output.
func (s *Set) Write(path string, write func(io.Writer) error) error {
	f, err := Create(s.ctx, path, s.policy)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	if err := write(f); err != nil {
		return f.failed(err)
	}
	return f.close()
}

// Commit gives the files their names, in the order in which they were written.
func (s *Set) Commit() error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	for _, f := range s.files {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// Discard removes what was not committed.
func (s *Set) Discard() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Discard())
	}
	return err
}

// Growing is an output that has its name from the begin, because what it has so far is of use.
type Growing struct {
	*os.File
	// Made says that the file was not there before.
	Made bool
}

// Grow opens an output to which is added. Lines of an earlier one stay, if the policy takes it.
func Grow(ctx context.Context, path string, p Policy) (Growing, error) {
	t, err := p.find(path)
	if err != nil {
		return Growing{}, err
	}
	if t.stream {
		f, err := p.openStream(ctx, path, t)
		return Growing{File: f}, err
	}
	flags := os.O_WRONLY | os.O_APPEND | unix.O_NONBLOCK
	if t.info != nil {
		if err := p.mayReplace(path, t.path); err != nil {
			return Growing{}, err
		}
	} else {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(t.path, flags, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return Growing{}, p.taken(path)
	case err != nil:
		return Growing{}, refuse(path, "%w: name another file", cause(err))
	}
	return Growing{f, t.info == nil}, nil
}

// Write adds all of b, or leaves the file as it was. A pipe keeps what it has.
func (g Growing) Write(b []byte) (int, error) {
	n, err := g.File.Write(b)
	if err == nil {
		return n, nil
	}
	end, notFile := g.Seek(0, io.SeekEnd)
	if n == 0 || notFile != nil {
		return n, err
	}
	return 0, errors.Join(err, g.Truncate(end-int64(n)))
}

// End closes the output, and removes the file if it was made and is not to be kept.
func (g Growing) End(keep bool) error {
	err := g.Close()
	if g.Made && !keep {
		err = errors.Join(err, os.Remove(g.Name()))
	}
	return err
}
