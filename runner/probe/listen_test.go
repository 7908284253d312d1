package probe

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestListenErrors(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	group := filepath.Join(t.TempDir(), "group")
	if err := errors.Join(os.Mkdir(group, 0o700), os.Chmod(group, 0o710)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, r, _ := start(t)
	for dir, want := range map[string]string{
		filepath.Join(t.TempDir(), strings.Repeat("x", 108)): "holds 107",
		filepath.Join(open, "a", "b"):                        "no such file",
		open:                                                 "only this user",
		group:                                                "only this user",
		file:                                                 "only this user",
		filepath.Dir(s.Path()):                               "address already in use",
	} {
		second, err := Listen(r.config(dir, &logbook{}))
		if err == nil {
			second.Close()
			t.Errorf("Listen(%s) succeeded", dir)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Listen(%s): %v; want %q", dir, err, want)
		}
	}
	c := greeted(t, s, 1) // the first server is unharmed
	c.send(beginOf(1, 1))
	r.next(t, "begin")
}

// A run that was killed leaves its socket behind; the next one takes the place.
func TestListenReplacesAStaleSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, socketName)}); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	s, err := Listen(recorder{}.config(dir, &logbook{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("Close removed a directory that Listen did not make: %v", err)
	}
}

// What is not a socket refuses connections too, and stays.
func TestListenRemovesNoOtherFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	path, precious := filepath.Join(dir, socketName), filepath.Join(t.TempDir(), "precious")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(precious, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"a file": func() error { return os.WriteFile(path, []byte("precious"), 0o600) },
		"a link": func() error { return os.Symlink(precious, path) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if s, err := Listen(recorder{}.config(dir, &logbook{})); err == nil {
			t.Errorf("%s: it was replaced: %v", name, s.Close())
		}
		if err := os.Remove(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSocketIsPrivate(t *testing.T) {
	s, _, _ := start(t)
	info, err := os.Stat(filepath.Dir(s.Path()))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %v, %v", info.Mode(), err)
	}
}

// With the directory's mode out of the way, the kernel's word on the peer still
// keeps other users out.
func TestOtherUserIsRejected(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	s, r, log := start(t)
	public, err := os.MkdirTemp("/tmp", "probe") // where another user can get to
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(public)
	text, err := os.ReadFile(built(t, "build/drive"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(public, "drive")
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		path string
		mode os.FileMode
	}{
		{public, 0o755}, {filepath.Dir(filepath.Dir(filepath.Dir(s.Path()))), 0o711},
		{filepath.Dir(filepath.Dir(s.Path())), 0o711}, {filepath.Dir(s.Path()), 0o711}, {s.Path(), 0o777},
	} {
		if err := os.Chmod(change.path, change.mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader("fork a 1\n")
	cmd.Env = []string{"CASE_SOCKET=" + s.Path(), "CASE_TOKEN=" + s.Register(1), "CASE_REQUIRED=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	accepted := time.AfterFunc(patience, func() { s.Close() }) // it would wait for a grant
	defer accepted.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 2\n") { // CASE_DISCONNECTED
		t.Errorf("%v: %s", err, out)
	}
	r.none(t)
	if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "uid 65534, not 0") {
		t.Errorf("log %q", lines)
	}
}
