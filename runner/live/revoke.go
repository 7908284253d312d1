package live

import (
	"fmt"
	"maps"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/schedulers"
)

// window is how much work a process that can give memory back has submitted at most, so that a
// revocation need not wait long (policies: twice as long).
const window = 50 * time.Millisecond

// serve opens the probe's socket.
func (x *Executor) serve(dir string) (*probe.Server, error) {
	if x.config.Swap == nil {
		return probe.Listen(dir, x, x.config.Warn)
	}
	return probe.ListenRevoking(dir, x, probe.Welcome{Chunk: uint64(x.config.Swap.Piece()), Window: window}, x.config.Warn)
}

// canDo is what a task of the process can be asked for.
func (x *Executor) canDo(c *probe.Client) schedulers.Actions {
	if x.config.Swap != nil && c.CanEvict() {
		return schedulers.Movable
	}
	return 0
}

func (x *Executor) noteRevocable(id schedulers.TaskID, c *probe.Client) {
	if x.canDo(c) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.revocable[id] = c
}

func (x *Executor) forgetRevocable(of func(schedulers.TaskID, *probe.Client) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.revocable, of)
}

// tellActivity posts what processes show of the tasks that can be taken memory from. A process is
// running while it is in a call that gives its device work or waits for it. What it has submitted is waited for when
// it is revoked.
func (x *Executor) tellActivity() {
	x.mu.Lock()
	tasks := maps.Clone(x.revocable)
	x.mu.Unlock()
	for id, c := range tasks {
		a, known := c.Activity()
		now := schedulers.Activity{Running: !known || a.Calls > 0, Referenced: a.Referenced, Fixed: a.Fixed}
		if !a.LastCall.IsZero() {
			now.Last = max(0, a.LastCall.Sub(x.config.Start))
		}
		x.post(runner.TaskActive{ID: id, Activity: now})
		x.space.offer(c, a.Resident-a.Fixed)
	}
}

var actions = map[schedulers.Action]probe.Action{schedulers.Yield: probe.Yield, schedulers.Evict: probe.Evict}

// Revoke carries out runner.Revoke. The end of the task withdraws a revocation that nobody has
// heard of.
func (x *Executor) Revoke(d schedulers.Decision) {
	r := d.Revocation
	_ = x.server.Revoke(uint64(d.Task.ID), probe.Revocation{Ticket: uint64(d.Ticket), Action: actions[r.Action], Bytes: uint64(r.Bytes), Deadline: r.Deadline})
}

var answers = map[probe.Ended]schedulers.Outcome{probe.Done: schedulers.Done, probe.Busy: schedulers.Busy, probe.Unable: schedulers.Unable}

// Revoked implements probe.Revoker.
func (x *Executor) Revoked(c *probe.Client, task uint64, r probe.Revoked) {
	x.tryPost(c, runner.TaskRevoked{ID: schedulers.TaskID(task), Answer: schedulers.Revoked{Ticket: schedulers.Ticket(r.Ticket),
		Outcome: answers[r.Ended], Resident: int64(r.Resident), Fixed: int64(r.Fixed),
		Moved: schedulers.Moved{Bytes: int64(r.Freed), Drain: r.Drain, Copy: r.Copy, Bookkeeping: r.Bookkeeping}, Why: r.Why}})
}

// Resume implements probe.Revoker.
func (x *Executor) Resume(c *probe.Client, task uint64, r probe.Resume) {
	x.tryPost(c, runner.TaskResume{ID: schedulers.TaskID(task), Need: int64(r.Bytes), Referenced: int64(r.Referenced)})
}

// Moved implements probe.Revoker.
func (x *Executor) Moved(c *probe.Client, task uint64, m probe.Moved) {
	x.tryPost(c, runner.TaskMoved{ID: schedulers.TaskID(task), Direction: map[probe.Way]schedulers.Direction{probe.In: schedulers.In, probe.Out: schedulers.Out}[m.Way], Moved: schedulers.Moved{Bytes: int64(m.Bytes), Copy: m.Copy, Bookkeeping: m.Bookkeeping}})
}

// tryPost posts what a process said. What cannot be stops its job.
func (x *Executor) tryPost(c *probe.Client, e runner.Event) {
	if err := x.loop.TryPost(x.now(), e); err != nil {
		x.post(runner.Misbehaved{Job: x.of(c).job, Why: fmt.Sprintf("process %d: %v", c.PID(), err)})
	}
}

// SwapMore implements probe.Revoker.
func (x *Executor) SwapMore(c *probe.Client, bytes uint64) { x.space.more(c, bytes) }

// SwapReturned implements probe.Revoker.
func (x *Executor) SwapReturned(c *probe.Client, bytes uint64) { x.space.returned(c, bytes) }
