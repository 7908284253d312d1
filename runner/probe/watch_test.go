package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
)

// watcher is a recorder that hears reports and mends too.
type watcher struct {
	recorder
	said   chan [2]any // the event, and the session if it does not show the job's token
	mended chan error
}

func watched(t *testing.T) (*Server, watcher) {
	t.Helper()
	w := watcher{newRecorder(), make(chan [2]any, 64), make(chan error, 64)}
	c := w.config(filepath.Join(t.TempDir(), "s"), &logbook{})
	c.Stray = func(session int, event func(job int) runner.Event) { w.said <- [2]any{event(-1), session} }
	c.Mended = func(err error) { w.mended <- err }
	s := recorded(t, w.recorder, c, openProcess)
	post := s.config.Post
	s.config.Post = func(at time.Duration, e runner.Event) error {
		if u, ok := e.(runner.Unreached); ok {
			w.said <- [2]any{u, 0}
		}
		return post(at, e)
	}
	s, err := s.listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, w
}

// Reports are heard without a connection. What is not a report is not heard, and does no harm.
func TestReports(t *testing.T) {
	s, w := watched(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	token := s.Register(7)
	for _, text := range []string{"", " ", "\x00\xff", "unreached", token, token + " 5", token + " 5 other what", strings.Repeat("x", 4096),
		token + " 5 unreached connect: no", "- 6 unreached no token", token[:8] + " x unreached short\x1b\xff", "- 8 hint cudaSetDevice(1)", token + " 9 unreached"} {
		if err := unix.Sendto(fd, []byte(text), 0, &unix.SockaddrUnix{Name: "@" + s.Report()}); err != nil {
			t.Fatal(err)
		}
	}
	s.Settle()
	for _, want := range [][2]any{{runner.Unreached{Job: 7, Why: "connect: no"}, 0}, {runner.Unreached{Job: -1, Why: "no token"}, 6}, {runner.Unreached{Job: -1, Why: "short??"}, 0},
		{runner.Hint{Job: -1, What: "cudaSetDevice(1)"}, 8}, {runner.Unreached{Job: 7}, 0}} {
		if got := <-w.said; got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if len(w.said) > 0 {
		t.Errorf("more: %v", <-w.said)
	}
}

// Only the user's own processes are heard without a token.
func TestWhoseReports(t *testing.T) {
	own := unix.UnixCredentials(&unix.Ucred{Pid: 1, Uid: 1000, Gid: 1000})
	for _, c := range []struct {
		credentials []byte
		uid         uint32
		want        bool
	}{{own, 1000, true}, {own, 1001, false}, {own, 0, false}, {nil, 0, false}, {own[:8], 1000, false}} {
		if got := isOf(c.uid, c.credentials); got != c.want {
			t.Errorf("%x of user %d: %v", c.credentials, c.uid, got)
		}
	}
}

// The socket is in its place again at once, clients that were connected stay, and new ones come.
func TestSocketIsMended(t *testing.T) {
	s, w := watched(t)
	before := greeted(t, s, 1)
	for name, spoil := range map[string]func() error{
		"removed":         func() error { return os.Remove(s.Path()) },
		"directory moved": func() error { return os.Rename(filepath.Dir(s.Path()), filepath.Join(t.TempDir(), "away")) },
		"replaced": func() error {
			file := filepath.Join(t.TempDir(), "file")
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Rename(file, s.Path()))
		},
		"parent moved": func() error {
			parent := filepath.Dir(filepath.Dir(s.Path()))
			return os.Rename(parent, parent+"-away")
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		s.Mend()
		if err := <-w.mended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		greeted(t, s, 2).send(beginOf(1, 1))
		w.next(t, "begin")
	}
	before.send(beginOf(1, 1))
	w.next(t, "begin")
}

// A socket that is made again while no connection can be taken is watched before the loop returns to it. That is no failure,
// after which the loop would try it again for ever.
func TestWatchedTwice(t *testing.T) {
	s, _ := watched(t)
	if err := s.watch(s.fd); err != nil {
		t.Error(err)
	}
}
