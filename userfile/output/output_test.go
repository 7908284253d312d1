package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func content(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

var page = Kind{"a page", func(begin []byte) bool { return strings.HasPrefix(string(begin), "page") }}

// states are files of all kinds in a directory.
func states(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	if err := errors.Join(
		os.WriteFile(at("file"), []byte("mine"), 0o640), os.Link(at("file"), at("other name")), os.Symlink("file", at("link")),
		os.Symlink(at("link"), at("link to link")), os.WriteFile(at("page"), []byte("page 1"), 0o600), os.WriteFile(at("empty"), nil, 0o600),
		os.Symlink("nothing", at("dangling")), os.Symlink("b", at("a")), os.Symlink("a", at("b")), os.Mkdir(at("directory"), 0o755),
		os.Symlink("directory", at("link to directory")), syscall.Mkfifo(at("fifo"), 0o600), os.Symlink("fifo", at("link to fifo")),
		os.Symlink("/dev/null", at("link to null")),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

// snapshot is everything in a directory.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		to, _ := os.Readlink(path)
		fmt.Fprintf(&b, "%s %v %s ", e.Name(), e.Type(), to)
		if e.Type().IsRegular() {
			text, err := os.ReadFile(path)
			info, statErr := e.Info()
			if err := errors.Join(err, statErr); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%v %q", info.Mode(), text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// One rule holds for every output: what is refused says why, before the work and after it, and changes nothing.
func TestWhatIsRefused(t *testing.T) {
	dir := states(t)
	before := snapshot(t, dir)
	long := strings.Repeat("n", 256)
	for _, c := range []struct {
		name   string
		policy Policy
		says   string
	}{
		{"file", Policy{}, "file already exists: name another file, or remove it first"},
		{"link", Policy{}, "file already exists: name another file, or remove it first"},
		{"file", Policy{HasForce: true}, "file already exists: name another, or replace it with --force"},
		{"file", Policy{Own: &page}, "it exists and is not a page: name another file, or remove it first"},
		{"link to link", Policy{Own: &page}, "it exists and is not a page"},
		{"empty", Policy{}, "file already exists"},
		{"link", Chosen(true), "it exists and is not a regular file: remove it, or name another directory"},
		{"fifo", Chosen(true), "it exists and is not a regular file"},
		{"link to null", Chosen(true), "it exists and is not a regular file"},
		{"file", Chosen(false), "file already exists: name another, or replace it with --force"},
		{"dangling", Policy{Force: true}, "it is a link to nothing, which does not exist"},
		{"a", Policy{Force: true}, "too many levels of symbolic links"},
		{"directory", Policy{Force: true}, "it is a directory: name a file"},
		{"directory/", Policy{Force: true}, "it is a directory: name a file"},
		{"link to directory", Policy{Force: true}, "it is a directory: name a file"},
		{"socket", Policy{Force: true}, "it is a socket: name a regular file"},
		{"file/below", Policy{Force: true}, "not a directory: name another"},
		{"file/", Policy{Force: true}, "not a directory: name another"},
		{"none/below", Policy{Force: true}, "none does not exist: make it, or name another"},
		{"new/", Policy{Force: true}, "new does not exist: make it, or name another"},
		{long, Policy{Force: true}, "file name too long"},
	} {
		path := dir + "/" + c.name
		_, grown := Grow(t.Context(), path, c.policy)
		for way, err := range map[string]error{
			"Check":    Check(path, c.policy),
			"CheckAll": CheckAll([]Planned{{path, c.policy}}, nil),
			"Write":    Write(t.Context(), path, c.policy, content("new")),
			"Set":      NewSet(t.Context(), c.policy).Write(path, content("new")),
			"Grow":     grown,
		} {
			if !errors.As(err, new(*Refusal)) || !strings.Contains(err.Error(), "write "+path+": ") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %.20s (%+v): %v, want %q", way, c.name, c.policy, err, c.says)
			}
		}
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

// A regular file is replaced: a link to it stays, another name of it keeps what it had, and it keeps its permissions.
func TestWhatIsReplaced(t *testing.T) {
	dir := states(t)
	for _, c := range []struct {
		name, file string
		policy     Policy
		mode       fs.FileMode
	}{
		{"link to link", "file", Policy{Force: true}, 0o640},
		{"other name", "other name", Chosen(true), 0o640},
		{"page", "page", Policy{Own: &page}, 0o600},
		{"empty", "empty", Policy{Own: &page}, 0o600},
		{strings.Repeat("n", 255), strings.Repeat("n", 255), Policy{}, 0o644},
		{"-", "-", Policy{}, 0o644},
	} {
		names := strings.Count(snapshot(t, dir), "\n")
		if _, err := os.Lstat(filepath.Join(dir, c.name)); err != nil {
			names++
		}
		if err := Write(t.Context(), filepath.Join(dir, c.name), c.policy, content("new "+c.name)); err != nil {
			t.Errorf("%.20s: %v", c.name, err)
			continue
		}
		file := filepath.Join(dir, c.file)
		text, err := os.ReadFile(file)
		info, statErr := os.Lstat(file)
		if err := errors.Join(err, statErr); err != nil || string(text) != "new "+c.name || info.Mode() != c.mode {
			t.Errorf("%.20s: %q, %v (%v), want mode %v", c.name, text, info.Mode(), err, c.mode)
		}
		if got := strings.Count(snapshot(t, dir), "\n"); got != names {
			t.Errorf("%.20s: %d names, want %d", c.name, got, names)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "other name")); c.name == "link to link" && string(text) != "mine" {
			t.Errorf("the other name has %q (%v)", text, err)
		}
	}
	for _, link := range []string{"link", "link to link"} {
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s is not a link any more (%v)", link, err)
		}
	}
}

// A FIFO and a character device are written into, through a link too, and by whatever policy.
func TestWhatIsWrittenThrough(t *testing.T) {
	dir := states(t)
	reader, err := syscall.Open(filepath.Join(dir, "fifo"), syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(reader) //nolint:errcheck // it only reads
	before := snapshot(t, dir)
	for _, name := range []string{"fifo", "link to fifo"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(Check(path, Policy{}), Write(t.Context(), path, Policy{}, content("new"))); err != nil {
			t.Fatal(err)
		}
		grown, err := Grow(t.Context(), path, Policy{})
		if err != nil || grown.Made {
			t.Fatal(grown.Made, err)
		}
		if _, err := grown.WriteString(" grown"); err != nil || grown.Close() != nil {
			t.Error(err)
		}
		text := make([]byte, 100)
		if n, err := syscall.Read(reader, text); err != nil || string(text[:max(n, 0)]) != "new grown" {
			t.Errorf("through %s: %q (%v)", name, text[:max(n, 0)], err)
		}
	}
	if err := Write(t.Context(), filepath.Join(dir, "link to null"), Policy{}, content("new")); err != nil {
		t.Error(err)
	}
	if err := Write(t.Context(), "/dev/full", Policy{}, content("new")); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "write /dev/full: ") {
		t.Errorf("a full disk: %v", err)
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

// A name in /proc is an open file, whatever its path leads to now.
func TestAnOpenFileIsWrittenInto(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "open"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"/dev/fd/%d", "/proc/self/fd/%d"} {
		if err := Write(t.Context(), fmt.Sprintf(form, f.Fd()), Policy{}, content("new")); err != nil {
			t.Error(err)
		}
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "newnew" {
		t.Errorf("the open file has %q (%v)", text, err)
	}
	if left := snapshot(t, dir); left != "" {
		t.Errorf("files were made: %s", left)
	}
}

// unprivileged does what a user does who may not write everything.
func unprivileged(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := unix.Setfsuid(nobody); err != nil { // of this thread
			t.Fatal(err)
		}
		defer unix.Setfsuid(0) //nolint:errcheck // what may be taken may be given back
	}
	do()
}

// A user who may not write a file or a directory is told so before the work, and in another user's sticky directory after it.
func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("closed"), 0o755), os.WriteFile(at("closed/file"), []byte("mine"), 0o666), os.Chmod(at("closed/file"), 0o666), os.Chmod(at("closed"), 0o555),
		os.Mkdir(at("open"), 0o755), os.Chmod(at("open"), 0o777), os.WriteFile(at("open/fixed"), []byte("mine"), 0o444),
		os.WriteFile(at("open/secret"), []byte("mine"), 0o200), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(at("closed"), 0o755) }) // so that it can be removed
	for _, c := range []struct {
		name   string
		policy Policy
		says   string
	}{
		{"closed/new", Policy{}, "no file can be made in the directory " + at("closed") + ": permission denied"},
		{"closed/file", Policy{Force: true}, "no file can be made in the directory " + at("closed") + ": permission denied"},
		{"open/fixed", Policy{Force: true}, "it cannot be written: permission denied: make it writable, or name another file"},
		{"open/secret", Policy{Own: &page}, "it cannot be read, to see whether it is a page: permission denied"},
	} {
		unprivileged(t, func() {
			for way, err := range map[string]error{"Check": Check(at(c.name), c.policy), "Write": Write(t.Context(), at(c.name), c.policy, content("new"))} {
				if !errors.As(err, new(*Refusal)) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s of %s: %v, want %q", way, c.name, err, c.says)
				}
			}
		})
	}
	if err := errors.Join(os.Mkdir(at("sticky"), 0o755), os.WriteFile(at("sticky/file"), []byte("mine"), 0o600), os.Chmod(at("sticky/file"), 0o666), os.Chmod(at("sticky"), 0o777|fs.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	unprivileged(t, func() {
		err := Write(t.Context(), at("sticky/file"), Policy{Force: true}, content("new"))
		if mine := os.Geteuid() != 0; mine != (err == nil) || !mine && (!errors.As(err, new(*Refusal)) || !strings.Contains(err.Error(), "the new file cannot take its place: operation not permitted")) {
			t.Errorf("another user's file in a sticky directory: %v", err)
		}
	})
	for name, want := range map[string]int{"closed": 1, "open": 2, "sticky": 1} {
		if left, err := os.ReadDir(at(name)); err != nil || len(left) != want {
			t.Errorf("%s has %v (%v)", name, left, err)
		}
	}
}

// The end of the context ends the wait for a pipe's reader, and for a reader that does not continue.
func TestWriteWaitsForAPipeUntilItsContextEnds(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	told := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := Policy{Force: true, Waiting: func(string) { cancel(told) }}
	if err := Write(ctx, pipe, waits, content("new")); !errors.Is(err, told) || !strings.Contains(err.Error(), pipe) {
		t.Errorf("without a reader: %v", err)
	}
	if _, err := Grow(ctx, pipe, waits); !errors.Is(err, told) || !strings.Contains(err.Error(), pipe) {
		t.Errorf("grown without a reader: %v", err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel = context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- Write(ctx, pipe, Policy{}, content(strings.Repeat("x", 1<<20))) }()
	if _, err := reader.Read(make([]byte, 1)); err != nil { // which waits until it is at work
		t.Fatal(err)
	}
	cancel(told)
	if err := <-failed; !errors.Is(err, told) || !strings.Contains(err.Error(), pipe) {
		t.Errorf("with a reader that does not read: %v", err)
	}
}

// An interruption, an error and a name that was taken meanwhile leave what was there, and no temporary file.
func TestWriteIsAllOrNothing(t *testing.T) {
	dir := states(t)
	before := snapshot(t, dir)
	full, told := errors.New("disk full"), errors.New("told to stop")
	for _, name := range []string{"new", "file", "link"} {
		path := filepath.Join(dir, name)
		if err := Write(t.Context(), path, Policy{Force: true}, func(w io.Writer) error { return errors.Join(content("half")(w), full) }); !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
			t.Errorf("got error %v, want the writer's with the path", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := Write(ctx, path, Policy{Force: true}, func(w io.Writer) error {
			err := content("half")(w)
			cancel(told)
			return errors.Join(err, content("more")(w))
		}); !errors.Is(err, told) {
			t.Errorf("got error %v, want that it was told to stop", err)
		}
		ctx, cancel = context.WithCancelCause(t.Context())
		set := NewSet(ctx, Policy{Force: true})
		if err := errors.Join(set.Write(path, content("one")), set.Write(path+"2", content("two"))); err != nil {
			t.Fatal(err)
		}
		cancel(told)
		if err := set.Commit(); !errors.Is(err, told) {
			t.Errorf("got error %v, want that it was told to stop", err)
		}
		if err := set.Discard(); err != nil {
			t.Error(err)
		}
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	late := filepath.Join(dir, "late")
	if err := Write(t.Context(), late, Policy{}, func(io.Writer) error { return os.WriteFile(late, []byte("theirs"), 0o600) }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name taken meanwhile: %v, want ErrExist", err)
	}
	if text, err := os.ReadFile(late); err != nil || string(text) != "theirs" {
		t.Errorf("it has %q (%v)", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files: %q (%v)", left, err)
	}
}

// An earlier file may be secret, so the new one is too while it is written. A new file has the permissions of the umask.
func TestPermissionsWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), secret, Policy{Force: true}, func(io.Writer) error {
		half, err := filepath.Glob(filepath.Join(dir, Temporary+"*"))
		if err != nil || len(half) != 1 {
			t.Fatal(half, err)
		}
		info, err := os.Stat(half[0])
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v while it is written", info.Mode())
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	defer unix.Umask(unix.Umask(0o077))
	fresh := filepath.Join(dir, "fresh")
	if err := Write(t.Context(), fresh, Policy{}, content("new")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(fresh); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v (%v), want that of the umask", info.Mode(), err)
	}
}

// Outputs of one command are different files, by whatever names. Directories that the command makes need not be there.
func TestOutputsOfOneCommand(t *testing.T) {
	dir := states(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	force := Policy{Force: true}
	for _, c := range []struct {
		a, b string
		ok   bool
	}{
		{at("new"), at("new2"), true},
		{at("new"), dir + "/./new", false},
		{at("file"), at("link to link"), false},
		{at("fifo"), at("link to fifo"), false},
		{at("link to null"), "/dev/null", true},
		{at("directory/new"), at("link to directory/new"), false},
		{at("made/deep/one"), at("made/one"), true},
		{at("made/one"), at("made/./one"), false},
		{at("made2/one"), at("new"), false},
		{at("made/deep"), at("new"), false},
		{at("made"), at("new"), false},
	} {
		err := CheckAll([]Planned{{c.a, force}, {c.b, force}}, []string{at("made/deep")})
		if (err == nil) != c.ok {
			t.Errorf("%s and %s: %v", c.a, c.b, err)
		}
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{at("file"), at("other name"), true}, {at("file"), at("link"), true}, {at("file"), at("page"), false},
		{at("file-wal"), dir + "//file-wal", true}, {at("file-wal"), at("file"), false}, {at("link to directory/x"), at("directory/x"), true},
	} {
		if Same(c.a, c.b) != c.same {
			t.Errorf("%s and %s are the same: %v", c.a, c.b, !c.same)
		}
	}
}

// A file that grows keeps what it has, and has its name from the begin.
func TestGrow(t *testing.T) {
	dir := states(t)
	for _, c := range []struct {
		name, want string
		made       bool
	}{{"page", "page 1, 2", false}, {"new", ", 2", true}, {"empty", ", 2", false}} {
		path := filepath.Join(dir, c.name)
		f, err := Grow(t.Context(), path, Policy{Own: &page})
		if err != nil || f.Made != c.made {
			t.Fatal(c.name, f.Made, err)
		}
		if _, err := f.WriteString(", 2"); err != nil || f.Close() != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != c.want {
			t.Errorf("%s has %q (%v), want %q", c.name, text, err, c.want)
		}
	}
}

// Directories are made, but not through something else than a directory.
func TestMakeDirectory(t *testing.T) {
	dir := states(t)
	for name, says := range map[string]string{
		"new/deep": "", "directory": "", "link to directory": "", "dangling": "it is a link to nothing, which does not exist",
		"file": "it is not a directory: name another", "file/new": "not a directory: name another directory", "fifo": "it is not a directory",
		"made/" + strings.Repeat("n", 256): "file name too long", "a": "too many levels of symbolic links",
	} {
		err := MakeDirectory(filepath.Join(dir, name))
		if says == "" && err != nil || says != "" && (!errors.As(err, new(*Refusal)) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}
