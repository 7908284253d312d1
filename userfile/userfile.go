// Package userfile opens files that a user names, for reading. Opening never blocks: a file that
// could block a reader forever, such as a FIFO, is an error. It also checks where files are to be made.
package userfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Also says which kinds of file are allowed beside regular files and /dev/null, which counts as
// an empty file.
type Also uint8

const (
	// pipes are pipes that a program has already opened, such as a shell's <(command) or the
	// target of /dev/stdin. They do not include FIFOs, which have a name in a directory.
	pipes Also = 1 << iota
	// devices are character devices.
	devices
)

// Stdin has the kinds that a job may have as its standard input. FIFOs are not allowed, because
// to open a FIFO would wait for its writer.
const Stdin = pipes | devices

// NotRegular is the error of a file whose kind is not allowed.
type NotRegular struct{ Type fs.FileMode }

func (e NotRegular) Error() string {
	kind := "a file of unknown kind"
	switch {
	case e.Type.IsDir():
		kind = "a directory"
	case e.Type&fs.ModeNamedPipe != 0:
		kind = "a pipe or FIFO"
	case e.Type&fs.ModeSocket != 0:
		kind = "a socket"
	case e.Type&fs.ModeDevice != 0:
		kind = "a device"
	}
	return "it is " + kind + ", and not a regular file: name a regular file"
}

// Check refuses a file whose kind Open would refuse. It does not open the file.
func Check(path string, also Also) error {
	info, err := os.Stat(path)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err
		if to, notLink := os.Readlink(path); notLink == nil && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: it is a link to %s", err, to)
		}
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	null, _ := os.Stat(os.DevNull) // a nil FileInfo matches no file
	switch mode := info.Mode(); {
	case mode.IsRegular(), os.SameFile(info, null):
		return nil
	case also&pipes != 0 && mode&fs.ModeNamedPipe != 0 && isOpenPipe(path):
		return nil
	case also&devices != 0 && mode&fs.ModeCharDevice != 0:
		return nil
	default:
		return &fs.PathError{Op: "open", Path: path, Err: NotRegular{mode.Type()}}
	}
}

// isOpenPipe distinguishes a pipe, which has a name only in /proc, from a FIFO. Opening a pipe
// does not wait for a writer (fifo_open in Linux's fs/pipe.c).
func isOpenPipe(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Type == unix.PIPEFS_MAGIC
}

// Open opens a file for reading. A program that gets the file needs
// unix.SetNonblock(fd, false) first.
func Open(path string, also Also) (*os.File, error) {
	if err := Check(path, also); err != nil {
		return nil, err
	}
	// O_NONBLOCK, because the file may have been replaced by a FIFO since Check. It also lets
	// reads of a pipe end at a deadline.
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// Read reads a whole file of UTF-8 text of at most limit bytes, or everything that comes through an
// open pipe. A byte order mark is left out. If ctx ends, Read stops waiting and returns the cause of
// ctx. An error that has a place in the file is an [fs.PathError] whose path ends with the line.
func Read(ctx context.Context, path string, limit int64) ([]byte, error) {
	f, err := Open(path, pipes)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case ctx.Err() != nil:
		return nil, &fs.PathError{Op: "read", Path: path, Err: context.Cause(ctx)}
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d MiB", limit>>20)}
	}
	data = bytes.TrimPrefix(data, []byte(ByteOrderMark))
	line := 0
	for text := range bytes.Lines(data) {
		line++
		var bad error
		switch {
		case line == 1 && IsUTF16(text):
			bad = errors.New("it is UTF-16, by its byte order mark: save the file as UTF-8")
		case !utf8.Valid(text):
			bad = errors.New("not UTF-8: save the file as UTF-8")
		case bytes.Contains(text, []byte(ByteOrderMark)):
			bad = errors.New("a byte order mark (U+FEFF), which only the begin of a file can have: remove it")
		}
		if bad != nil {
			return nil, &fs.PathError{Op: "read", Path: fmt.Sprintf("%s:%d", path, line), Err: bad}
		}
	}
	return data, nil
}

// ByteOrderMark is what some editors write at the begin of a file in UTF-8. It is invisible.
const ByteOrderMark = "\xef\xbb\xbf"

// IsUTF16 reports whether a file that begins with the text is in UTF-16.
func IsUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))
}

// Absent reports whether nothing has this name. A link whose target does not exist is something.
func Absent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// CheckLink returns an error if path is a link to nothing. A file made through it would have a path that the user has not named.
func CheckLink(path string) error {
	to, err := os.Readlink(path)
	if err != nil {
		return nil //nolint:nilerr // it is not a link
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("it is a link to %s, which does not exist: make that file, remove the link, or name another file", to)
}

// TemporaryError is the error of a directory that cannot be made in the directory for temporary files. It names the directory.
func TemporaryError(err error) error {
	if named := os.Getenv("TMPDIR"); named != "" {
		return fmt.Errorf("TMPDIR=%s cannot be used: name a directory that is there and that you may write to: %w", named, err)
	}
	return fmt.Errorf("%s cannot be used: name another directory with TMPDIR: %w", os.TempDir(), err)
}

// CheckDirectory returns an error if the directory of a file that is to be made does not exist.
func CheckDirectory(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s does not exist: make it, or name another", dir)
	case errors.Is(err, unix.ENOTDIR), err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a directory: name another", dir)
	}
	return nil
}
