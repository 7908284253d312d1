// Package output writes files that a user names, or that have names of the program's in a directory that a user
// names: the whole file, or nothing (docs/reference/exports.md#where-outputs-go).
package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/userfile"
)

// Policy says what an output does with a regular file that is there. The zero Policy refuses it.
type Policy struct {
	Force    bool // replace it
	HasForce bool // the command has a flag --force, which a refusal names
	// Own, if not nil, replaces it if it is an earlier output of the same kind, such as "a page of caserun report".
	Own *Kind
	// Named says that the program named the file, in a directory that a user named. Then nothing but a regular file is
	// written: a link may lead to a file that the user has not named.
	Named bool
	// Waiting, if not nil, is called before the wait for the reader of a FIFO.
	Waiting func(path string)
}

// Chosen is the policy of files whose names the program chooses, of a command that has a flag --force.
func Chosen(force bool) Policy { return Policy{Force: force, HasForce: true, Named: true} }

// Kind is a kind of output, known by its first bytes. An empty file is of every kind.
type Kind struct {
	Name string // such as "a page of caserun report"
	Is   func(begin []byte) bool
}

// beginBytes is how much of a file a Kind sees.
const beginBytes = 1024

// Refusal is the error of an output that cannot be where the user wants it.
type Refusal struct{ err error }

func (e *Refusal) Error() string { return e.err.Error() }

func (e *Refusal) Unwrap() error { return e.err }

func refuse(path, format string, args ...any) error {
	return &Refusal{fmt.Errorf("write %s: %w", path, fmt.Errorf(format, args...))}
}

// target is where a path leads to.
type target struct {
	path string      // without links, of a regular file
	info fs.FileInfo // nil: there is nothing
	// stream says that the file is not replaced but written into: a FIFO, a character device, or a file that is open
	// already and has a name in /proc.
	stream bool
	std    *os.File // standard output or error, if that is what the path leads to
}

// find finds out where a path leads to, and refuses a path to which no output can go.
func (p Policy) find(path string) (target, error) {
	info, err := os.Stat(path)
	if missing(path) {
		if err := cmp.Or(userfile.CheckLink(path), userfile.CheckDirectory(path)); err != nil {
			return target{}, refuse(path, "%w", err)
		}
		return target{path: path}, nil
	}
	if err != nil {
		return target{}, refuse(path, "%w: name another file", cause(err))
	}
	if p.Named {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			return target{}, refuse(path, "it exists and is not a regular file: remove it, or name another directory")
		}
	}
	for _, std := range []*os.File{os.Stdout, os.Stderr} {
		if LeadsTo(path, std) && !p.Named {
			return target{path, info, true, std}, nil
		}
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
	case mode&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0:
		return target{path: path, info: info, stream: true}, nil
	default:
		return target{}, refuse(path, "%s", kindOf(mode))
	}
	file, open, err := behindLinks(path)
	if err != nil {
		return target{}, refuse(path, "%w", err)
	}
	return target{path: file, info: info, stream: open}, nil
}

// check is find, and refuses a file that is not to be replaced or cannot be made.
func (p Policy) check(path string) (target, error) {
	t, err := p.find(path)
	if err != nil || t.stream {
		return t, err
	}
	if t.info != nil {
		if err := p.mayReplace(path, t.path); err != nil {
			return t, err
		}
	}
	dir := filepath.Dir(t.path)
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return t, refuse(path, "no file can be made in the directory %s: %w: name another", dir, err)
	}
	return t, nil
}

func (p Policy) mayReplace(path, file string) error {
	if !p.Force {
		if p.Own == nil {
			return p.taken(path)
		}
		begin, err := begin(file)
		if err != nil {
			return refuse(path, "it cannot be read, to see whether it is %s: %w", p.Own.Name, cause(err))
		}
		if len(begin) > 0 && !p.Own.Is(begin) {
			return refuse(path, "it exists and is not %s: %s", p.Own.Name, p.remedy())
		}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.W_OK, unix.AT_EACCESS); err != nil {
		return refuse(path, "it cannot be written: %w: make it writable, or name another file", err)
	}
	return nil
}

func (p Policy) remedy() string {
	if p.HasForce {
		return "name another, or replace it with --force"
	}
	return "name another file, or remove it first"
}

func (p Policy) taken(path string) error { return refuse(path, "%w: %s", fs.ErrExist, p.remedy()) }

// begin reads the first bytes of a regular file.
func begin(path string) ([]byte, error) {
	f, err := userfile.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, beginBytes)
	n, err := io.ReadFull(f, text)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return text[:n], err
}

// cause is an error without the path, which the message has already.
func cause(err error) error {
	var link *os.LinkError
	var path *fs.PathError
	switch {
	case errors.As(err, &link):
		return link.Err
	case errors.As(err, &path):
		return path.Err
	}
	return err
}

func kindOf(mode fs.FileMode) string {
	kind := "a file of unknown kind"
	switch {
	case mode.IsDir():
		return "it is a directory: name a file"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a block device"
	}
	return "it is " + kind + ": name a regular file, a FIFO or a character device"
}

// behindLinks is the path of the file that links lead to, which exists. open says that one of them is in /proc, and stands
// for a file that a process has open. Its path may be that of another file by now.
func behindLinks(path string) (file string, open bool, err error) {
	at := path
	for range 40 { // more is a loop, to Linux too
		to, _ := os.Readlink(at)
		if to == "" {
			return at, false, nil // not a link
		}
		var dir unix.Statfs_t
		if unix.Statfs(filepath.Dir(at), &dir) == nil && dir.Type == unix.PROC_SUPER_MAGIC {
			return at, true, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(at) + "/" + to // not Join: after a link, .. is not what the text says
		}
		at = to
	}
	return "", false, syscall.ELOOP
}

// LeadsTo reports whether path is a name of an open file, such as /dev/stdout of os.Stdout.
func LeadsTo(path string, open *os.File) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	its, err := open.Stat()
	return err == nil && os.SameFile(info, its)
}

// UntilStopped is a writer that fails once the context has ended.
func UntilStopped(ctx context.Context, w io.Writer) io.Writer { return untilStopped{ctx, w} }

type untilStopped struct {
	ctx context.Context
	w   io.Writer
}

func (u untilStopped) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.w.Write(p)
}
