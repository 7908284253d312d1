// Package enginetest plays an engine by hand in tests.
package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// V100 is a device with a V100's limits, 16 units of memory and no context.
var V100 = schedulers.Device{Name: "V100", CapacityBytes: 16, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}

// Small is a device that a test can fill by hand: two SMs of 8 warps and 4 blocks.
var Small = schedulers.Device{Name: "small", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}

// Node is an engine whose answers read as text (schedtest.Text).
type Node struct {
	t       *testing.T
	Engine  *engine.Engine
	tickets map[schedulers.TaskID]schedulers.Decision // the latest of each task
	asks    *asking                                   // nil: only the scheduler asks
}

func NewNode(t *testing.T, scheduler string, devices ...schedulers.Device) Node {
	t.Helper()
	return NewNodeWithGrace(t, 0, scheduler, devices...)
}

// NewNodeWithGrace returns a node whose answers to revocations have a time (engine.Config).
func NewNodeWithGrace(t *testing.T, grace time.Duration, scheduler string, devices ...schedulers.Device) Node {
	t.Helper()
	s := parse(t, scheduler, len(devices))
	s.Config.Grace = grace
	return newNode(t, s, devices)
}

// NewAskingNode returns a node that asks for what Ask says, beside what the scheduler asks for.
func NewAskingNode(t *testing.T, scheduler string, devices ...schedulers.Device) Node {
	t.Helper()
	s := parse(t, scheduler, len(devices))
	asks := &asking{Policy: s.Policy, at: schedulers.Never}
	s.Policy = asks
	n := newNode(t, s, devices)
	n.asks = asks
	return n
}

func parse(t *testing.T, scheduler string, devices int) policies.Scheduler {
	t.Helper()
	s, err := policies.Parse(scheduler, devices)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newNode(t *testing.T, s policies.Scheduler, devices []schedulers.Device) Node {
	t.Helper()
	e, err := engine.New(devices, s.Policy, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return Node{t: t, Engine: e, tickets: map[schedulers.TaskID]schedulers.Decision{}}
}

// asking is a Preempter that asks for more once.
type asking struct {
	schedulers.Policy
	more []schedulers.Revocation
	at   time.Duration
}

func (a *asking) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	more := a.more
	a.more, a.at = nil, schedulers.Never
	return append(more, a.Policy.(schedulers.Preempter).Revoke(waiting, v, now)...)
}

func (a *asking) NextTick([]schedulers.Request, schedulers.View, time.Duration) time.Duration {
	return a.at
}

func (a *asking) NextLook([]schedulers.Request, time.Duration) time.Duration { return schedulers.Never }

// Ask has the policy ask for more at a time, of a node that NewAskingNode has made.
func (n Node) Ask(now time.Duration, want string, more ...schedulers.Revocation) {
	n.t.Helper()
	n.asks.more, n.asks.at = more, now
	if next := n.Engine.NextTick(); next != now {
		n.t.Fatalf("the next tick is at %v, want %v", next, now)
	}
	n.Tick(now, want)
}

func (n Node) Want(call, want string, ds []schedulers.Decision, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", call, err)
	}
	if got := schedtest.Text(ds); got != want {
		n.t.Fatalf("%s: decided %q, want %q", call, got, want)
	}
	for _, d := range ds {
		if d.Kind == schedulers.Revoke {
			n.tickets[d.Task.ID] = d
		}
	}
	n.Engine.NextTick() // as a run asks after each call
}

// Resume asks at the time 0, as Submit and Grow do.
func (n Node) Resume(id schedulers.TaskID, need, referenced int64, want string) {
	n.t.Helper()
	ds, err := n.Engine.Resume(id, need, referenced, 0)
	n.Want(fmt.Sprintf("resume task %d", id), want, ds, err)
}

// Yielded has the task's context give up its permit by itself.
func (n Node) Yielded(id schedulers.TaskID, now time.Duration, want string) {
	n.t.Helper()
	ds, err := n.Engine.Yielded(id, now)
	n.Want(fmt.Sprintf("task %d yields", id), want, ds, err)
}

// Answer answers the task's latest ticket. resident is what it has on the device then.
func (n Node) Answer(id schedulers.TaskID, o schedulers.Outcome, resident int64, now time.Duration, want string) {
	n.t.Helper()
	ds, err := n.Engine.Revoked(id, schedulers.Revoked{Ticket: n.tickets[id].Ticket, Outcome: o, Resident: resident}, now)
	n.Want(fmt.Sprintf("answer of task %d", id), want, ds, err)
}

// Give lets the task do what its latest ticket asks.
func (n Node) Give(id schedulers.TaskID, want string) {
	n.t.Helper()
	r, resident := n.tickets[id].Revocation, n.Task(id).Resident
	if r.Action != schedulers.Move {
		resident -= r.Bytes
	}
	n.Answer(id, schedulers.Done, resident, 0, want)
}

// Idle says that the task's latest call ended at the time, and that nothing of it runs.
func (n Node) Idle(id schedulers.TaskID, since time.Duration) {
	n.t.Helper()
	t := n.Task(id)
	if err := n.Engine.Active(id, schedulers.Activity{Last: since, Referenced: t.Referenced}, since); err != nil {
		n.t.Fatal(err)
	}
}

func (n Node) Tick(now time.Duration, want string) {
	n.t.Helper()
	n.Want(fmt.Sprintf("tick at %v", now), want, n.Engine.Tick(now, 0), nil)
}

// WantAct checks when the policy wants to act although nothing else happens.
func (n Node) WantAct(at time.Duration) {
	n.t.Helper()
	if act := n.Engine.NextAct(); act != at {
		n.t.Fatalf("it acts at %v, want %v", act, at)
	}
}

// Revocation is what the task was asked for last.
func (n Node) Revocation(id schedulers.TaskID) schedulers.Revocation {
	return *n.tickets[id].Revocation
}

// Task is the task as a Preempter sees it.
func (n Node) Task(id schedulers.TaskID) schedulers.TaskView {
	n.t.Helper()
	for i := range n.Engine.View().Len() {
		for t := range n.Device(i).TaskViews() {
			if t.Task.ID == id {
				return t
			}
		}
	}
	n.t.Fatalf("task %d has no device", id)
	return schedulers.TaskView{}
}

// Submit submits the task. Its job is the task's id unless the task names a job.
func (n Node) Submit(task schedulers.Task, want string) {
	n.t.Helper()
	if task.Job == 0 {
		task.Job = schedulers.JobID(task.ID)
	}
	ds, err := n.Engine.Submit(task, 0)
	n.Want(fmt.Sprintf("submit task %d", task.ID), want, ds, err)
}

func (n Node) Release(id schedulers.TaskID, want string) {
	n.t.Helper()
	ds, err := n.Engine.Release(id)
	n.Want(fmt.Sprintf("release task %d", id), want, ds, err)
}

func (n Node) Grow(id schedulers.TaskID, bytes int64, want string) {
	n.t.Helper()
	ds, err := n.Engine.Grow(id, bytes, nil, 0)
	n.Want(fmt.Sprintf("grow task %d by %d", id, bytes), want, ds, err)
}

func (n Node) Shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32, want string) {
	n.t.Helper()
	ds, err := n.Engine.Shape(id, blocks, threadsPerBlock, blocksPerSM)
	n.Want(fmt.Sprintf("shape of task %d", id), want, ds, err)
}

func (n Node) Exit(job schedulers.JobID, want string) {
	n.t.Helper()
	n.Want(fmt.Sprintf("exit of job %d", job), want, n.Engine.JobExit(job), nil)
}

// Finish ends a task together with its job.
func (n Node) Finish(id schedulers.TaskID, want string) {
	n.t.Helper()
	n.Exit(schedulers.JobID(id), want)
}

func (n Node) Expire(now time.Duration, want string) {
	n.t.Helper()
	n.Want(fmt.Sprintf("expire at %v", now), want, n.Engine.Expire(now), nil)
}

func (n Node) Device(i int) schedulers.DeviceView { return n.Engine.View().Device(i) }

// freeBlocks returns the free block slots of each SM of device i.
func (n Node) freeBlocks(i int) []int {
	var free []int
	for sm := range n.Device(i).Limits().SMs {
		free = append(free, n.Device(i).SM(sm).FreeBlocks)
	}
	return free
}

func (n Node) WantFreeBlocks(i int, want ...int) {
	n.t.Helper()
	if got := n.freeBlocks(i); !slices.Equal(got, want) {
		n.t.Fatalf("device %d has free blocks %v per SM, want %v", i, got, want)
	}
}

// Policies describes every registered scheduler whose policy is in package policies, by name.
func Policies() []policies.Info {
	return slices.DeleteFunc(policies.Listed(), func(i policies.Info) bool { return i.External })
}
