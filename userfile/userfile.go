// Package userfile opens the files that a user names, for reading. Opening never
// waits: what could keep a reader waiting without end, such as a FIFO, is an error.
package userfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Also says what is taken beside regular files and /dev/null, which is an empty file.
type Also uint8

const (
	// Pipes are those that a program has open already, such as <(command) of a shell
	// or what /dev/stdin leads to. A FIFO, which has a name, is not one of them.
	Pipes Also = 1 << iota
	// Devices are character devices.
	Devices
)

// Stdin is what a job can have as its standard input. To open a FIFO would wait for its
// writer.
const Stdin = Pipes | Devices

// NotRegular is the error of a file of another kind than the wanted one.
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

// Check refuses a file that Open would refuse for its kind, without opening it.
func Check(path string, also Also) error {
	info, err := os.Stat(path)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return &fs.PathError{Op: "open", Path: path, Err: failed.Err}
	}
	null, _ := os.Stat(os.DevNull) // nil is not the same file as any
	switch mode := info.Mode(); {
	case mode.IsRegular(), os.SameFile(info, null):
		return nil
	case also&Pipes != 0 && mode&fs.ModeNamedPipe != 0 && isOpenPipe(path):
		return nil
	case also&Devices != 0 && mode&fs.ModeCharDevice != 0:
		return nil
	default:
		return &fs.PathError{Op: "open", Path: path, Err: NotRegular{mode.Type()}}
	}
}

// isOpenPipe tells a pipe, which has a name in /proc only, from a FIFO. To open the
// pipe does not wait for a writer (fifo_open of Linux's fs/pipe.c).
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
	// The file may be another one by now. Reads of a pipe end at a deadline.
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// Read reads a whole file of at most limit bytes, or what comes through a pipe that
// is open already. The end of ctx, whose cause is the error then, ends the wait for it.
func Read(ctx context.Context, path string, limit int64) ([]byte, error) {
	f, err := Open(path, Pipes)
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
	return data, nil
}
