package probetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// Event is what a process said to the scheduler.
type Event struct {
	Kind    string             // "begin", "grow", "shrink", "shape", "decided", "free", "revoked", "resume", "yielded", "moved", "more", "returned", "oom", "fault", "limited", "disconnected", "gone", "misbehaved"
	Posted  runner.Event       // nil: host memory, or the test's own
	At      time.Duration      // of a posted event
	Process schedulers.Process // that said it
	ID      schedulers.TaskID  // of its task on the server
	Task    uint64             // its task's number, from 1
	Bytes   int64              // of a begin without the heap; of the end of a process the most that it had in use
	Text    string             // where, or why
}

func (e Event) String() string {
	return fmt.Sprintf("%s(job %d, process %d, task %d, bytes %d, %q)", e.Kind, e.Process.Job, e.Process.Serial, e.Task, e.Bytes, e.Text)
}

// Asks is what a begin asks for.
func (e Event) Asks() schedulers.Task {
	b, _ := e.Posted.(runner.TaskBegin)
	return b.Task
}

// Answer is the answer to a revocation.
func (e Event) Answer() schedulers.Revoked {
	r, _ := e.Posted.(runner.TaskRevoked)
	return r.Answer
}

// Needs is what a resumption asks for.
func (e Event) Needs() runner.TaskResume {
	r, _ := e.Posted.(runner.TaskResume)
	return r
}

// Recorder hands what a probe.Server posts, and asks of its Swap, to Take, which runs on the server's goroutine.
type Recorder struct {
	Take   func(Event) error
	Number func(schedulers.TaskID) uint64 // of a task that begins; nil: they are counted, process by process

	tasks map[schedulers.TaskID]Event   // begins
	begun map[schedulers.Process]uint64 // tasks
	used  map[schedulers.Process]int64  // bytes
}

// NewRecorder returns a recorder of one server.
func NewRecorder(take func(Event) error) *Recorder {
	return &Recorder{Take: take, tasks: map[schedulers.TaskID]Event{}, begun: map[schedulers.Process]uint64{}, used: map[schedulers.Process]int64{}}
}

// Post takes what the server posts.
func (r *Recorder) Post(at time.Duration, posted runner.Event) error {
	e := Event{Posted: posted, At: at}
	of := func(kind string, id schedulers.TaskID) {
		e.Kind, e.ID, e.Process, e.Task = kind, id, r.tasks[id].Process, r.tasks[id].Task
	}
	switch p := posted.(type) {
	case runner.TaskBegin:
		process := p.Task.Process()
		r.begun[process]++
		number := r.begun[process]
		if r.Number != nil {
			number = r.Number(p.Task.ID)
		}
		r.tasks[p.Task.ID] = Event{Process: process, Task: number}
		of("begin", p.Task.ID)
		e.Bytes = p.Task.Bytes - p.HeapBytes
	case runner.TaskGrow:
		of("grow", p.ID)
		e.Bytes = p.Bytes
	case runner.TaskShrink:
		of("shrink", p.ID)
		e.Bytes = p.Bytes
	case runner.TaskShape:
		of("shape", p.ID)
	case runner.TaskDecided:
		of("decided", p.ID)
	case runner.TaskFree:
		of("free", p.ID)
	case runner.TaskRevoked:
		of("revoked", p.ID)
	case runner.TaskResume:
		of("resume", p.ID)
	case runner.TaskYielded:
		of("yielded", p.ID)
	case runner.TaskMoved:
		of("moved", p.ID)
	case runner.RoomAsked:
		e.Kind, e.Process = "room", p.Process
	case runner.ManagedAsked:
		e.Kind, e.Process, e.Bytes = "managed", p.Process, p.Bytes
	case runner.OutOfMemory:
		e.Kind, e.Process, e.Bytes, e.Text = "oom", p.Process, int64(p.Bytes), p.Where
	case runner.Fault:
		e.Kind, e.Process, e.Text = "fault", p.Process, p.Where
	case runner.Limited:
		e.Kind, e.Text = "limited", p.Why
	case runner.Misbehaved:
		e.Kind, e.Text = "misbehaved", p.Why
	case runner.ProcessUse:
		r.used[p.Process] = p.Bytes
		return nil
	case runner.ProcessGone:
		e.Kind, e.Process, e.Bytes = "gone", p.Process, r.used[p.Process]
	default:
		return nil
	}
	return r.Take(e)
}

func (r *Recorder) take(kind string, p schedulers.Process, bytes int64) {
	_ = r.Take(Event{Kind: kind, Process: p, Bytes: bytes})
}

func (r *Recorder) More(p schedulers.Process, bytes int64)     { r.take("more", p, bytes) }
func (r *Recorder) Returned(p schedulers.Process, bytes int64) { r.take("returned", p, bytes) }
func (r *Recorder) Disconnected(p schedulers.Process)          { r.take("disconnected", p, 0) }
func (*Recorder) Active(schedulers.Process, int64)             {}
func (*Recorder) Ended(schedulers.Process)                     {}

// Await asks every millisecond until done says yes, and fails after Patience. It is for what only a look can tell, such as
// what the kernel has in a queue or the fakes in a trace.
func Await(t testing.TB, failure string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(failure)
		}
	}
}
