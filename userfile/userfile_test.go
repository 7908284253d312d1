package userfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fifo makes a FIFO that blocks a reader forever, because it has no writer.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pipe returns the path of a pipe's reading end, and its writing end.
func pipe(t *testing.T) (string, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(r.Close(), w.Close()) })
	return fmt.Sprintf("/dev/fd/%d", r.Fd()), w
}

func TestOpenTakesNothingThatItWouldWaitFor(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := errors.Join(os.WriteFile(in("file"), []byte("text"), 0o600), os.Symlink("file", in("link")), os.Symlink(fifo(t), in("queue"))); err != nil {
		t.Fatal(err)
	}
	opened, _ := pipe(t)
	for _, c := range []struct {
		path  string
		takes func(Also) bool
		kind  string
	}{
		{in("file"), func(Also) bool { return true }, ""},
		{in("link"), func(Also) bool { return true }, ""},
		{os.DevNull, func(Also) bool { return true }, ""},
		{"/dev/zero", func(a Also) bool { return a&devices != 0 }, "a device"},
		{opened, func(a Also) bool { return a&pipes != 0 }, "a pipe or FIFO"},
		{fifo(t), func(Also) bool { return false }, "a pipe or FIFO"},
		{in("queue"), func(Also) bool { return false }, "a pipe or FIFO"},
		{in("socket"), func(Also) bool { return false }, "a socket"},
		{dir, func(Also) bool { return false }, "a directory"},
	} {
		for _, also := range []Also{0, pipes, devices, pipes | devices} {
			f, err := Open(c.path, also)
			if err == nil {
				err = f.Close()
			}
			if c.takes(also) {
				if err != nil {
					t.Errorf("%s with %b: %v", c.path, also, err)
				}
				continue
			}
			if kind := (NotRegular{}); !errors.As(err, &kind) || !strings.Contains(err.Error(), c.path+": it is "+c.kind) {
				t.Errorf("%s with %b: error %v, want its path and %q", c.path, also, err, c.kind)
			}
		}
	}
	if _, err := Open(in("missing"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.Symlink("../team/missing", in("dangling")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(in("dangling"), 0); !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "dangling: no such file or directory: it is a link to ../team/missing") {
		t.Errorf("a link to a missing file: %v", err)
	}
}

func TestReadWaitsForAPipeUntilItsContextEnds(t *testing.T) {
	path, w := pipe(t)
	if _, err := io.WriteString(w, "half of "); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := Read(ctx, path, 100)
		failed <- err
	}()
	cancel(cause)
	if err := <-failed; !errors.Is(err, cause) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want the cause and %s", err, path)
	}

	path, w = pipe(t)
	if _, err := io.WriteString(w, "all of it"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(t.Context(), path, 9); err != nil || string(text) != "all of it" {
		t.Errorf("through a pipe: %q (%v)", text, err)
	}
}

func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	const limit = 1 << 20
	for size, ok := range map[int]bool{0: true, limit: true, limit + 1: false} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := Read(t.Context(), path, limit)
		if ok && (err != nil || len(text) != size) {
			t.Errorf("%d bytes: %d read (%v)", size, len(text), err)
		}
		if !ok && (err == nil || !strings.Contains(err.Error(), path+": it has more than 1 MiB")) {
			t.Errorf("%d bytes: error %v, want the path and the limit", size, err)
		}
	}
}

func TestReadLeavesOutAByteOrderMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("\xef\xbb\xbfa: b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(t.Context(), path, 100); err != nil || string(text) != "a: b" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestReadTakesOnlyUTF8(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for text, want := range map[string]string{
		"a: b\nc: caf\xe9\n":           ":2: not UTF-8: save the file as UTF-8",
		"\xff\xfea\x00:\x00":           ":1: it is UTF-16, by its byte order mark: save the file as UTF-8",
		"\xfe\xff\x00a\x00:":           ":1: it is UTF-16, by its byte order mark: save the file as UTF-8",
		"\ufeff\ufeffa: b\n":           ":1: a byte order mark (U+FEFF), which only the begin of a file can have: remove it",
		"a: b\n\ufeffc: d\n":           ":2: a byte order mark (U+FEFF), which only the begin of a file can have: remove it",
		"a: b\nc: \"x\ufeff\"\ne: f\n": ":2: a byte order mark (U+FEFF), which only the begin of a file can have: remove it",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(t.Context(), path, 100); err == nil || err.Error() != "read "+path+want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestCheckDirectory(t *testing.T) {
	dir := t.TempDir()
	for path, missing := range map[string]bool{"new": false, filepath.Join(dir, "new"): false, filepath.Join(dir, "none", "new"): true} {
		err := CheckDirectory(path)
		if (err != nil) != missing || missing && err.Error() != "the directory "+filepath.Dir(path)+" does not exist: make it, or name another" {
			t.Errorf("%s: %v, missing: %v", path, err, missing)
		}
	}
}
