package live

import (
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/schedulers"
)

// of is the client's entry, made at its first event.
func (x *Executor) of(c *probe.Client) *client {
	x.mu.Lock()
	defer x.mu.Unlock()
	k := x.clients[c]
	if k == nil {
		x.connected++
		k = &client{job: c.Job(), serial: x.connected}
		x.clients[c] = k
		x.asked[c.PID()] = true
	}
	return k
}

// Begin implements probe.Handler. The server's number of a task is its id in the batch.
func (x *Executor) Begin(c *probe.Client, task uint64, r probe.Request) {
	k := x.of(c)
	id := schedulers.TaskID(task)
	bytes := int64(r.Bytes + r.HeapBytes)
	x.noteRevocable(id, c)
	x.post(runner.TaskBegin{Task: schedulers.Task{ID: id, Job: schedulers.JobID(k.job), Serial: k.serial, Can: x.canDo(c),
		Bytes: bytes, Need: new(bytes - int64(r.HostBytes)), Blocks: r.Blocks, ThreadsPerBlock: r.ThreadsPerBlock, BlocksPerSM: r.BlocksPerSM,
		Managed: r.Flags&probe.FlagManaged != 0, OnDevice: x.pinned(k.job, r), Wait: r.Wait.Longest()}, HeapBytes: int64(r.HeapBytes)})
}

// pinned is the device that the request must have, or nil. A process that the run bound to a
// device sees only that device, as number 0.
func (x *Executor) pinned(job int, r probe.Request) *int {
	if r.Flags&probe.FlagDevice == 0 || x.bound[job] != runner.Unbound {
		return nil
	}
	return new(int(r.Device))
}

// Shape implements probe.Handler.
func (x *Executor) Shape(_ *probe.Client, task uint64, s probe.Shape) {
	x.post(runner.TaskShape{ID: schedulers.TaskID(task), Blocks: s.Blocks, ThreadsPerBlock: s.ThreadsPerBlock, BlocksPerSM: s.BlocksPerSM})
}

// Grow implements probe.Handler.
func (x *Executor) Grow(_ *probe.Client, task uint64, bytes uint64, wait probe.Wait) {
	x.post(runner.TaskGrow{ID: schedulers.TaskID(task), Bytes: int64(bytes), Wait: wait.Longest()})
}

// Shrink implements probe.Handler.
func (x *Executor) Shrink(_ *probe.Client, task uint64, bytes uint64) error {
	return x.loop.TryPost(x.now(), runner.TaskShrink{ID: schedulers.TaskID(task), Bytes: int64(bytes)})
}

// Decided implements probe.Handler. The process does not wait for an answer.
func (x *Executor) Decided(_ *probe.Client, task uint64, o probe.Outcome) error {
	var refusal *schedulers.Refusal
	if o.Reason != probe.Granted {
		refusal = &schedulers.Refusal{Cause: causes[o.Reason], Why: "the process itself: " + o.Reason.String(), NeedBytes: int64(o.Need), CapacityBytes: int64(o.Capacity)}
	}
	return x.loop.TryPost(x.now(), runner.TaskDecided{ID: schedulers.TaskID(task), Device: int(o.Ordinal), Refusal: refusal})
}

// Free implements probe.Handler.
func (x *Executor) Free(_ *probe.Client, task uint64) {
	id := schedulers.TaskID(task)
	x.forgetRevocable(func(of schedulers.TaskID, _ *probe.Client) bool { return of == id })
	x.post(runner.TaskFree{ID: id})
}

// OOM implements probe.Handler.
func (x *Executor) OOM(c *probe.Client, bytes uint64, where string) {
	x.post(runner.OutOfMemory{Process: x.of(c).process(), Bytes: bytes, Where: where})
}

// Fault implements probe.Handler. The process says the time of the fault. A time before the
// job's start counts as the start, and a time to come counts as now.
func (x *Executor) Fault(c *probe.Client, code int32, at time.Time, where string) {
	k := x.of(c)
	began := time.Duration(0)
	x.mu.Lock()
	if p := x.procs[k.job]; p != nil { // else it is being started
		began = p.started
	}
	x.mu.Unlock()
	x.tellWork(c, k)
	x.loop.Post(min(max(at.Sub(x.config.Start), began), x.now()), runner.Fault{Process: k.process(), Code: int(code), Where: where})
}

// tellWork tells the batch since when kernels of the process run, where its probe shows that.
func (x *Executor) tellWork(c *probe.Client, k *client) {
	since, known := c.Busy()
	if !known {
		return
	}
	w := runner.ProcessWork{Process: k.process()}
	if !since.IsZero() {
		w.Since = new(since.Sub(x.config.Start))
	}
	x.post(w)
}

// tellUse tells the batch how much memory the process had in use, where its probe shows that.
func (x *Executor) tellUse(c *probe.Client, k *client) {
	if bytes, known := c.PeakBytes(); known {
		x.post(runner.ProcessUse{Process: k.process(), Bytes: bytes})
	}
}

// Limited implements probe.Handler.
func (x *Executor) Limited(c *probe.Client, why string) {
	x.post(runner.Limited{Job: x.of(c).job, Why: why})
}

// Silent implements probe.Handler: what the process holds stays its own.
func (x *Executor) Silent(c *probe.Client) {
	k := x.of(c)
	x.space.disconnected(c)
	if c.Err() != nil {
		x.dropped(c, k)
		return
	}
	x.mu.Lock()
	told, warned := k.silent, x.silenced[k.job]
	k.silent, x.silenced[k.job] = true, true
	x.mu.Unlock()
	if told {
		return
	}
	x.note(results.Event{Kind: results.EventSocketClosed, Job: &k.job, Detail: fmt.Sprintf(
		"process %d closed its connection to the scheduler and lives on: what it was granted stays charged until it exits; have it leave alone the descriptors that it did not open", c.PID())})
	if !warned {
		x.config.Warn("job %d: process %d closed its connection to the scheduler and lives on: what it was granted stays charged until it exits", k.job, c.PID())
	}
}

// dropped stops the job of a process if the server hung up on the process. It does so once.
func (x *Executor) dropped(c *probe.Client, k *client) {
	err := c.Err()
	x.mu.Lock()
	again := k.dropped
	k.dropped = err != nil
	x.hungUp[k.job] = x.hungUp[k.job] || err != nil
	x.mu.Unlock()
	if err == nil || again {
		return
	}
	x.config.Warn("job %d: the probe server hung up on process %d: %v; the job is stopped", k.job, c.PID(), err)
	x.post(runner.Misbehaved{Job: k.job, Why: fmt.Sprintf("the probe server hung up on process %d: %v", c.PID(), err)})
}

// Closed implements probe.Handler: the process's end is the release.
func (x *Executor) Closed(c *probe.Client) {
	k := x.of(c)
	x.tellWork(c, k)
	x.tellUse(c, k)
	x.post(runner.ProcessGone{Process: k.process(), SaidBye: c.SaidBye()})
	x.forgetRevocable(func(_ schedulers.TaskID, of *probe.Client) bool { return of == c })
	x.space.ended(c)
	x.mu.Lock()
	delete(x.clients, c)
	x.changed.Broadcast()
	x.mu.Unlock()
	x.dropped(c, k)
}

// Starved implements probe.Handler. It ends the run, because a job whose connection cannot be
// taken is not measured.
func (x *Executor) Starved(err error) {
	x.fail(lack(fmt.Errorf("take a connection of a job: %w", err)))
}

var wireReasons = map[schedulers.Cause]probe.Reason{
	schedulers.TooLarge:   probe.ReasonTooLarge,
	schedulers.DeviceFull: probe.ReasonDeviceFull,
	schedulers.TimedOut:   probe.ReasonTimeout,
}

var causes = map[probe.Reason]schedulers.Cause{
	probe.ReasonTooLarge:   schedulers.TooLarge,
	probe.ReasonDeviceFull: schedulers.DeviceFull,
	probe.ReasonTimeout:    schedulers.TimedOut,
}

// Answer carries out runner.Answer. Errors are ignored, because Closed releases what a client
// was granted that is gone.
func (x *Executor) Answer(d schedulers.Decision) {
	task := uint64(d.Task.ID)
	switch d.Kind {
	case schedulers.Granted, schedulers.Grown, schedulers.Resumed:
		_ = x.server.Grant(task, x.ordinal(int(d.Task.Job), d.Device), x.config.IDs[d.Device])
	default:
		r := d.Reason
		_ = x.server.Refuse(task, wireReasons[r.Cause], uint64(max(r.NeedBytes, 0)), uint64(r.CapacityBytes), r.Why)
	}
}

// ordinal is the device's number as the job's process sees it. A process that the run bound to
// a device sees only that device.
func (x *Executor) ordinal(job, device int) int {
	if x.bound[job] != runner.Unbound {
		return 0
	}
	return device
}
