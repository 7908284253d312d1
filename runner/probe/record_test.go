package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
)

// event is what a process said, with its client.
type event struct {
	probetest.Event
	c *client
}

// recorder hands every event to the test, which answers. Its tasks are called what their process calls them.
type recorder struct{ events chan *event }

func newRecorder() recorder { return recorder{make(chan *event, 1<<14)} }

// config has the server's events recorded.
func (r recorder) config(dir string, log *logbook) Config {
	return Config{Dir: dir, Start: time.Now(), Warn: log.logf, AcceptFailed: func(error) {}, Mended: func(error) {},
		Stray: func(int, func(int) runner.Event) {}}
}

// take sends what a process said, but not that its job is to be stopped: Err tells.
func (r recorder) take(s *Server, e probetest.Event) error {
	if e.Kind == "misbehaved" {
		return nil
	}
	r.events <- &event{e, s.clientOf(e.Process)}
	switch d, _ := e.Posted.(runner.TaskDecided); {
	case e.Kind == "shrink" && e.Bytes > 1<<40:
		return errors.New("more than it holds")
	case d.Device > 3:
		return errors.New("no such device")
	}
	return nil
}

func (s *Server) clientOf(p schedulers.Process) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[p]
}

// Grant and Refuse are those of the server for a task by the number that the process gave it.
func (c *client) Grant(number uint64, device int, uuid [16]byte) error {
	return c.server.Grant(c.idOf(number), device, uuid)
}

func (c *client) Refuse(number uint64, r schedulers.Refusal) error {
	return c.server.Refuse(c.idOf(number), r)
}

func (c *client) idOf(number uint64) schedulers.TaskID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tasks[number]; t != nil {
		return t.id
	}
	return 0
}

// patience bounds a wait for what must happen; no test passes because of it.
const patience = probetest.Patience

// next waits for the next event, which must be of the given kind.
func (r recorder) next(t *testing.T, kind string) event {
	t.Helper()
	select {
	case e := <-r.events:
		if e.Kind != kind {
			t.Fatalf("event %v, want %s", e, kind)
		}
		return *e
	case <-time.After(patience):
		t.Fatalf("no %s event", kind)
	}
	return event{}
}

func (r recorder) none(t *testing.T) {
	t.Helper()
	select {
	case e := <-r.events:
		t.Fatalf("unexpected event %v", e)
	default:
	}
}

// logbook keeps what the server says.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *logbook) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// ownUnseen leaves the test's own process without a handle: its raw clients are as many
// processes, each of which ends with its socket.
func ownUnseen(fd, pid int) int {
	if pid == os.Getpid() {
		return -1
	}
	return openProcess(fd, pid)
}

// start serves until the end of the test, and checks that the close succeeds and leaves
// nothing.
func start(t *testing.T) (*Server, recorder, *logbook) { return startWith(t, Config{}, ownUnseen) }

// startRevoking is start for a run that takes memory back.
func startRevoking(t *testing.T) (*Server, recorder, *logbook) {
	return startWith(t, welcomed, ownUnseen)
}

var welcomed = Config{Chunk: 32 << 20, Window: 50 * time.Millisecond}

func startWith(t *testing.T, with Config, open func(fd, pid int) int) (*Server, recorder, *logbook) {
	t.Helper()
	r, l := newRecorder(), &logbook{}
	c := r.config(filepath.Join(t.TempDir(), "s"), l)
	c.Chunk, c.Window, c.Bursts = with.Chunk, with.Window, with.Bursts
	return serving(t, r, c, open), r, l
}

func serving(t *testing.T, r recorder, c Config, open func(fd, pid int) int) *Server {
	t.Helper()
	s := recorded(t, r, c, open)
	s, err := s.listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := len(s.tasks) + len(s.known); n > 0 {
			t.Errorf("%d tasks and processes are left when all clients are gone", n)
		}
	})
	return s
}

// recorded is a server that does not listen yet.
func recorded(t *testing.T, r recorder, c Config, open func(fd, pid int) int) *Server {
	t.Helper()
	var s *Server
	record := probetest.NewRecorder(func(e probetest.Event) error { return r.take(s, e) })
	record.Number = func(id schedulers.TaskID) uint64 {
		return s.task(id).number
	}
	c.Post, c.Swap = record.Post, record
	s, err := newServer(c, open)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
