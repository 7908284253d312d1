package lazytest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/probe"
)

// event is what a process said to the scheduler.
type event struct {
	kind   string // "begin", "grow", "shrink", "revoked", "resume", "moved", "more", "returned", "shape", "free", "oom", "fault", "silent", "closed"
	c      *probe.Client
	server *probe.Server
	id     uint64 // of the task on the server
	task   uint64 // its number in the process, from 1
	bytes  uint64
	r      probe.Request
	wait   probe.Wait // of a grow
	shape  probe.Shape
	was    probe.Revoked
	need   probe.Resume
	moved  probe.Moved
	code   int32
	where  string
}

func (e event) String() string {
	if e.c == nil { // the test's own
		return e.kind
	}
	return fmt.Sprintf("%s(job %d, pid %d, task %d, bytes %d, %q)", e.kind, e.c.Job(), e.c.PID(), e.task, e.bytes, e.where)
}

func (e event) grant(ordinal int, uuid [16]byte) error { return e.server.Grant(e.id, ordinal, uuid) }

func (e event) refuse(reason probe.Reason, need, capacity uint64, text string) error {
	return e.server.Refuse(e.id, reason, need, capacity, text)
}

// recorder is a probe.Revoker that hands every event to the test, which answers.
type recorder struct {
	events chan *event
	known  *known
}

// known is the server's goroutine's own until the server is closed.
type known struct {
	server  *probe.Server
	begun   map[*probe.Client]uint64 // tasks
	numbers map[uint64]uint64        // by id, of tasks that are not over
}

func (r recorder) add(kind string, e event) {
	e.kind, e.server = kind, r.known.server
	r.events <- &e
}

func (r recorder) Begin(c *probe.Client, id uint64, q probe.Request) {
	r.known.begun[c]++
	r.known.numbers[id] = r.known.begun[c]
	r.add("begin", event{c: c, id: id, task: r.known.numbers[id], bytes: q.Bytes, r: q})
}

func (r recorder) Grow(c *probe.Client, id, bytes uint64, wait probe.Wait) {
	r.add("grow", event{c: c, id: id, task: r.known.numbers[id], bytes: bytes, wait: wait})
}

func (r recorder) Shrink(c *probe.Client, id, bytes uint64) error {
	r.add("shrink", event{c: c, id: id, task: r.known.numbers[id], bytes: bytes})
	return nil
}

func (r recorder) Decided(*probe.Client, uint64, probe.Outcome) error {
	panic("of a job that does not decide")
}

func (r recorder) Shape(c *probe.Client, id uint64, s probe.Shape) {
	r.add("shape", event{c: c, id: id, task: r.known.numbers[id], shape: s})
}

func (r recorder) Free(c *probe.Client, id uint64) {
	r.add("free", event{c: c, id: id, task: r.known.numbers[id]})
	delete(r.known.numbers, id)
}

func (r recorder) Revoked(c *probe.Client, id uint64, was probe.Revoked) {
	r.add("revoked", event{c: c, id: id, task: r.known.numbers[id], was: was})
}

func (r recorder) Resume(c *probe.Client, id uint64, need probe.Resume) {
	r.add("resume", event{c: c, id: id, task: r.known.numbers[id], need: need})
}

func (r recorder) Moved(c *probe.Client, id uint64, moved probe.Moved) {
	r.add("moved", event{c: c, id: id, task: r.known.numbers[id], moved: moved})
}

func (r recorder) SwapMore(c *probe.Client, bytes uint64) { r.add("more", event{c: c, bytes: bytes}) }

func (r recorder) SwapReturned(c *probe.Client, bytes uint64) {
	r.add("returned", event{c: c, bytes: bytes})
}

func (r recorder) OOM(c *probe.Client, bytes uint64, where string) {
	r.add("oom", event{c: c, bytes: bytes, where: where})
}

func (r recorder) Fault(c *probe.Client, code int32, _ time.Time, where string) {
	r.add("fault", event{c: c, code: code, where: where})
}

func (r recorder) Starved(error)                       {}
func (r recorder) Limited(c *probe.Client, why string) { r.add("limited", event{c: c, where: why}) }
func (r recorder) Silent(c *probe.Client)              { r.add("silent", event{c: c}) }

// Closed has the bytes that the process says it had in use at most.
func (r recorder) Closed(c *probe.Client) {
	peak, _ := c.PeakBytes()
	r.add("closed", event{c: c, bytes: uint64(peak)})
}

// patience bounds a wait for what must happen; no test passes because of it.
const patience = time.Minute

// await asks every millisecond until done says yes, and fails after patience. It is for what only a look can tell, such as
// what the fakes have in a trace.
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
	case e := <-r.events:
		if e.kind != kind {
			t.Fatalf("event %v, want %s", *e, kind)
		}
		return *e
	case <-time.After(patience):
		t.Fatalf("no %s event", kind)
	}
	return event{}
}

// start serves until the end of the test, and checks that the close succeeds.
func start(t testing.TB) (*probe.Server, recorder) {
	t.Helper()
	return startServer(t, func(dir string, r recorder) (*probe.Server, error) { return probe.Listen(dir, r, t.Logf) })
}

// startRevoking is start for a scheduler that takes memory back.
func startRevoking(t testing.TB, w probe.Welcome) (*probe.Server, recorder) {
	t.Helper()
	return startServer(t, func(dir string, r recorder) (*probe.Server, error) {
		return probe.ListenRevoking(dir, r, w, t.Logf)
	})
}

func startServer(t testing.TB, listen func(string, recorder) (*probe.Server, error)) (*probe.Server, recorder) {
	t.Helper()
	r := recorder{events: make(chan *event, 1<<14), known: &known{begun: map[*probe.Client]uint64{}, numbers: map[uint64]uint64{}}}
	s, err := listen(filepath.Join(t.TempDir(), "s"), r)
	if err != nil {
		t.Fatal(err)
	}
	r.known.server = s // before any process connects
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, r
}

func yielding(ticket uint64) probe.Revocation {
	return probe.Revocation{Ticket: ticket, Action: probe.Yield, Bytes: 3 << 30, Deadline: 250 * time.Millisecond}
}

// wantOver: the server has none of the tasks that began any more.
func wantOver(t *testing.T, events []event) {
	t.Helper()
	for _, e := range events {
		if e.kind != "begin" {
			continue
		}
		if err := e.server.Revoke(e.id, yielding(9)); err == nil || !strings.HasSuffix(err.Error(), "no such task") {
			t.Errorf("%v: revocation of a task that is over: %v", e, err)
		}
	}
}

func mustRevoke(t *testing.T, s *probe.Server, task uint64, r probe.Revocation) {
	t.Helper()
	if err := s.Revoke(task, r); err != nil {
		t.Fatal(err)
	}
}
