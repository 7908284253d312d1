package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// event is one call of the handler.
type event struct {
	kind  string // "begin", "grow", "shrink", "revoked", "resume", "more", "decided", "shape", "free", "oom", "fault", "limited", "silent", "closed"
	c     *Client
	task  uint64
	bytes uint64
	r     Request
	wait  Wait
	shape Shape
	ended Outcome
	was   Revoked
	need  Resume
	moved Moved
	code  int32
	where string
	at    time.Time
}

func (e event) String() string {
	if e.c == nil { // the test's own
		return e.kind
	}
	return fmt.Sprintf("%s(job %d, pid %d, task %d, bytes %d, %q)", e.kind, e.c.Job(), e.c.PID(), e.task, e.bytes, e.where)
}

// recorder is a Handler that hands every event to the test, which answers. Its tasks are
// called what their process calls them.
type recorder struct {
	events chan *event
	wire   map[uint64]uint64 // by id; the server's goroutine's own
}

func newRecorder() recorder {
	return recorder{events: make(chan *event, 1<<14), wire: map[uint64]uint64{}}
}

// Grant and Refuse are those of the server for a task by the number that the process gave it.
func (c *Client) Grant(wire uint64, ordinal int, uuid [16]byte) error {
	return c.grant(c.idOf(wire), wire, ordinal, uuid)
}

func (c *Client) Refuse(wire uint64, reason Reason, need, capacity uint64, text string) error {
	return c.refuse(c.idOf(wire), wire, reason, need, capacity, text)
}

func (c *Client) idOf(wire uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks[wire].id
}

func (r recorder) Begin(c *Client, task uint64, q Request) {
	o, _ := c.server.owner(task)
	r.wire[task] = o.wire
	r.events <- &event{kind: "begin", c: c, task: r.wire[task], bytes: q.Bytes, r: q}
}
func (r recorder) Grow(c *Client, task, bytes uint64, wait Wait) {
	r.events <- &event{kind: "grow", c: c, task: r.wire[task], bytes: bytes, wait: wait}
}

// Shrink calls more than 1 TiB more than the task holds.
func (r recorder) Shrink(c *Client, task, bytes uint64) error {
	r.events <- &event{kind: "shrink", c: c, task: r.wire[task], bytes: bytes}
	if bytes > 1<<40 {
		return errors.New("more than it holds")
	}
	return nil
}

// Decided knows the devices 0 to 3.
func (r recorder) Decided(c *Client, task uint64, o Outcome) error {
	r.events <- &event{kind: "decided", c: c, task: r.wire[task], ended: o}
	if o.Ordinal > 3 {
		return errors.New("no such device")
	}
	return nil
}
func (r recorder) Shape(c *Client, task uint64, s Shape) {
	r.events <- &event{kind: "shape", c: c, task: r.wire[task], shape: s}
}
func (r recorder) Free(c *Client, task uint64) {
	r.events <- &event{kind: "free", c: c, task: r.wire[task]}
}
func (r recorder) Revoked(c *Client, task uint64, was Revoked) {
	r.events <- &event{kind: "revoked", c: c, task: r.wire[task], was: was}
}
func (r recorder) Resume(c *Client, task uint64, need Resume) {
	r.events <- &event{kind: "resume", c: c, task: r.wire[task], need: need}
}
func (r recorder) Moved(c *Client, task uint64, m Moved) {
	r.events <- &event{kind: "moved", c: c, task: r.wire[task], moved: m}
}
func (r recorder) SwapMore(c *Client, bytes uint64) {
	r.events <- &event{kind: "more", c: c, bytes: bytes}
}
func (r recorder) SwapReturned(c *Client, bytes uint64) {
	r.events <- &event{kind: "returned", c: c, bytes: bytes}
}
func (r recorder) OOM(c *Client, bytes uint64, where string) {
	r.events <- &event{kind: "oom", c: c, bytes: bytes, where: where}
}
func (r recorder) Fault(c *Client, code int32, at time.Time, where string) {
	r.events <- &event{kind: "fault", c: c, code: code, at: at, where: where}
}
func (recorder) Starved(error) {}
func (r recorder) Limited(c *Client, why string) {
	r.events <- &event{kind: "limited", c: c, where: why}
}
func (r recorder) Silent(c *Client) { r.events <- &event{kind: "silent", c: c} }

// Closed has the bytes that the process says it had in use at most.
func (r recorder) Closed(c *Client) {
	peak, _ := c.PeakBytes()
	r.events <- &event{kind: "closed", c: c, bytes: uint64(peak)}
}

// patience bounds a wait for what must happen; no test passes because of it.
const patience = time.Minute

// await asks every millisecond until done says yes, and fails after patience. It is for what only a look can tell, such as
// what the kernel has in a queue or the fakes in a trace.
func await(t *testing.T, failure string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(failure)
		}
	}
}

// next waits for the next event, which must be of the given kind.
func (r recorder) next(t *testing.T, kind string) event {
	t.Helper()
	select {
	case next := <-r.events:
		e := *next
		if e.kind != kind {
			t.Fatalf("event %v, want %s", e, kind)
		}
		return e
	case <-time.After(patience):
		t.Fatalf("no %s event", kind)
	}
	return event{}
}

func (r recorder) none(t *testing.T) {
	t.Helper()
	select {
	case next := <-r.events:
		e := *next
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
func start(t *testing.T) (*Server, recorder, *logbook) {
	t.Helper()
	r, l := newRecorder(), &logbook{}
	return serving(t, newServer(r, l.logf, ownUnseen)), r, l
}

func serving(t *testing.T, s *Server) *Server {
	t.Helper()
	s, err := s.listen(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := len(s.tasks); n > 0 {
			t.Errorf("%d tasks are left when all clients are gone", n)
		}
	})
	return s
}
