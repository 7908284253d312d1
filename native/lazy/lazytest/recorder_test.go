package lazytest

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/schedulers"
)

// event is what a process said to the scheduler.
type event struct {
	probetest.Event
	server *probe.Server
}

func (e event) grant(device int, uuid [16]byte) error { return e.grantPart(device, uuid, 0) }

// grantPart grants what it asks for, but for so many bytes that stay on the host.
func (e event) grantPart(device int, uuid [16]byte, host int64) error {
	return e.server.GrantPart(e.ID, device, uuid, host)
}

func (e event) refuse(cause schedulers.Cause, need, capacity int64, why string) error {
	return e.server.Refuse(e.ID, schedulers.Refusal{Cause: cause, NeedBytes: need, CapacityBytes: capacity, Why: why})
}

func tellRoom(t *testing.T, e event, bytes int64) {
	t.Helper()
	if err := e.server.TellRoom(e.Process, bytes); err != nil {
		t.Error(err)
	}
}

// heap, host and wait are of what the event asks for: bytes of the device's heap, bytes that are on the host at first, and how long
// it may wait; nil: it says nothing.
func (e event) heap() int64 {
	b, _ := e.Posted.(runner.TaskBegin)
	return b.HeapBytes
}

func (e event) host() int64 { return e.Asks().Bytes - e.Asks().Needs() }

func (e event) wait() *time.Duration {
	if g, ok := e.Posted.(runner.TaskGrow); ok {
		return g.Wait
	}
	return e.Asks().Wait
}

// text is the event without numbers that differ from one process to the next.
func (e event) text() string {
	t, shape, fault := e.Asks(), runner.TaskShape{}, runner.Fault{}
	switch p := e.Posted.(type) {
	case runner.TaskShape:
		shape = p
	case runner.Fault:
		fault = p
	}
	on, wait := "any", "default"
	if t.OnDevice != nil {
		on = fmt.Sprint(*t.OnDevice)
	}
	if w := e.wait(); w != nil {
		wait = w.String()
	}
	return fmt.Sprint(e.Kind, e.Task, e.Bytes, e.heap(), e.host(), t.Blocks, t.ThreadsPerBlock, t.BlocksPerSM, t.Managed, on, wait,
		shape.Blocks, shape.ThreadsPerBlock, shape.BlocksPerSM, fault.Code, e.Text)
}

// said is an event of the test's own.
func said(kind, text string) *event {
	return &event{Event: probetest.Event{Kind: kind, Text: text}}
}

// recorder hands every event to the test, which answers.
type recorder struct {
	events chan *event
	guard  *guard
}

// guard answers what processes say of their managed memory. The test does not hear of it.
type guard struct {
	mu    sync.Mutex
	room  int64 // that they have
	asked []string
}

func (g *guard) answer(s *probe.Server, e runner.ManagedAsked) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, fmt.Sprintf("%d+%d", e.Bytes>>20, e.Beside>>20))
	return s.TellRoom(e.Process, g.room)
}

// patience bounds a wait for what must happen; no test passes because of it.
const patience = probetest.Patience

// next waits for the next event, which must be of the given kind.
func (r recorder) next(t *testing.T, kind string) event {
	t.Helper()
	select {
	case e := <-r.events:
		if e.Kind != kind {
			t.Fatalf("event %+v %+v, want %s", e.Event, e.Posted, kind)
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
	return startRevoking(t, probe.Config{})
}

// startRevoking is start for a scheduler that takes memory back, with the chunk and the window of a configuration.
func startRevoking(t testing.TB, c probe.Config) (*probe.Server, recorder) {
	t.Helper()
	r := recorder{make(chan *event, 1<<14), &guard{room: 1 << 40}}
	var s *probe.Server
	record := probetest.NewRecorder(func(e probetest.Event) error {
		if asked, ok := e.Posted.(runner.ManagedAsked); ok {
			return r.guard.answer(s, asked)
		}
		r.events <- &event{e, s}
		return nil
	})
	s, err := probe.Listen(probe.Config{Dir: filepath.Join(t.TempDir(), "s"), Start: time.Now(), Post: record.Post, Warn: t.Logf, Chunk: c.Chunk, Window: c.Window, Bursts: c.Bursts,
		Swap: record, AcceptFailed: func(error) {}, Mended: func(error) {}, Stray: func(int, func(int) runner.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, r
}

// wantOver: the server has none of the tasks that began any more.
func wantOver(t *testing.T, events []event) {
	t.Helper()
	for _, e := range events {
		if e.Kind != "begin" {
			continue
		}
		if err := e.server.Revoke(e.ID, 9, yielding, [16]byte{}); err == nil || !strings.HasSuffix(err.Error(), "no such task") {
			t.Errorf("%+v: revocation of a task that is over: %v", e.Event, err)
		}
	}
}

var yielding = schedulers.Revocation{Action: schedulers.Yield, Bytes: 3 << 30, Deadline: 250 * time.Millisecond}

func mustRevoke(t *testing.T, s *probe.Server, task schedulers.TaskID, ticket schedulers.Ticket, r schedulers.Revocation) {
	t.Helper()
	if err := s.Revoke(task, ticket, r, [16]byte{}); err != nil {
		t.Fatal(err)
	}
}
