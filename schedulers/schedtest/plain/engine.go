// Package plain is the engine as it was before it had indexes: each call goes through the whole queue
// and asks the policy for each waiting task. It is the reference that package schedtest holds
// engine.Engine to, decision by decision. It serves tests only. A change of what the engine
// decides is made here too, and first. A change of how fast it decides is not.
package plain

import (
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// Engine owns the accounting of the devices and the queue of waiting tasks, and asks its
// policy where a task may go. Each call answers at once with all the decisions that
// follow from it, in the order in which they were made. It is not safe for concurrent
// use.
type Engine struct {
	policy  schedulers.Policy
	config  engine.Config
	devices []schedulers.Device
	state   *state
	empty   *state // the node as it was, to tell "not now" from "never"
	queue   queue
	held    map[schedulers.TaskID]*holding
	growing []*growth // by arrival

	now       time.Duration        // of the latest call that said its time
	preempter schedulers.Preempter // the policy, if it takes back; else nil
	issued    schedulers.Ticket    // the latest

	withheld *state // the node with what waiting jobs have there; nil: no request can be stalled
	stale    bool   // withheld, and which requests are stalled, may have changed
}

// holding is a task with its device.
type holding struct {
	task       schedulers.Task
	bytes      int64 // charged: what it has on the device, growth included
	allocated  int64 // what it has anywhere; less than bytes if it is charged the whole device
	at         schedulers.Placement
	*revocable // nil unless the policy is a Preempter
}

// New returns an engine for the devices in node order.
func New(devices []schedulers.Device, policy schedulers.Policy, config engine.Config) (*Engine, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("new engine: no devices")
	}
	for i, d := range devices {
		if d.CapacityBytes <= 0 || d.ContextBytes < 0 || d.SMs <= 0 || d.WarpsPerSM <= 0 || d.BlocksPerSM <= 0 {
			return nil, fmt.Errorf("new engine: device %d (%s): capacity %d bytes, context %d bytes, %d SMs of %d warps and %d blocks: each must be positive",
				i, d.Name, d.CapacityBytes, d.ContextBytes, d.SMs, d.WarpsPerSM, d.BlocksPerSM)
		}
	}
	preempter, _ := policy.(schedulers.Preempter)
	return &Engine{
		policy: policy, preempter: preempter, config: config, devices: slices.Clone(devices),
		state: newState(devices), empty: newState(devices),
		queue: queue{order: order(config.Queue), ageLimit: config.AgeLimit},
		held:  map[schedulers.TaskID]*holding{},
	}, nil
}

// View is the accounting as it stands.
func (e *Engine) View() schedulers.View { return e.state }

// Waiting is the number of tasks without a device.
func (e *Engine) Waiting() int { return len(e.queue.tasks) }

// Submit asks for a device for t. An id in use or a negative size is an error
// and changes nothing.
func (e *Engine) Submit(t schedulers.Task, now time.Duration) ([]schedulers.Decision, error) {
	e.at(now)
	if t.Bytes < 0 {
		return nil, fmt.Errorf("submit task %d of job %d: negative size %d", t.ID, t.Job, t.Bytes)
	}
	if e.known(t.ID) {
		return nil, fmt.Errorf("submit task %d of job %d: the id is in use", t.ID, t.Job)
	}
	if e.preempter == nil {
		t.Need = nil
	} else if t.Needs() < 0 || t.Needs() > t.Bytes {
		return nil, fmt.Errorf("submit task %d of job %d: it needs %d of its %d bytes", t.ID, t.Job, t.Needs(), t.Bytes)
	}
	_, fits := e.policy.Place(t, e.state)
	if !fits {
		if _, ever := e.policy.Place(t, e.empty); !ever {
			return []schedulers.Decision{{Kind: schedulers.Refused, Task: t, Device: -1, Reason: e.tooLarge(t)}}, nil
		}
	}
	w := e.queue.push(t, e.limit(t.Wait, now))
	if w.limit.longest == 0 {
		return e.nowOrNever(w), nil
	}
	w.stalled = e.isStalled(t)
	if !fits || len(e.queue.tasks) > 1 {
		e.touch(t.Job)
	}
	// The present state has turned down every request that waited before.
	if fits || e.stale || e.preempter != nil || e.nodeDeadlock() || e.deviceDeadlock() != nil {
		return e.pump(), nil
	}
	return nil, nil
}

// nowOrNever grants w, the latest request, if it is w's turn, and otherwise refuses w. w
// never waits, so that a refusal leaves no trace.
func (e *Engine) nowOrNever(w *waiting) []schedulers.Decision {
	i, p, ok := e.next()
	if !ok || e.queue.tasks[i] != w {
		return []schedulers.Decision{e.timedOut(e.queue.take(w))}
	}
	return append([]schedulers.Decision{e.grant(e.queue.grant(i), p)}, e.pump()...)
}

// Release gives back everything that task id holds, or withdraws it from the queue. An
// unknown id is an error and changes nothing.
func (e *Engine) Release(id schedulers.TaskID) ([]schedulers.Decision, error) {
	if !e.known(id) {
		return nil, fmt.Errorf("release task %d: no such task", id)
	}
	for _, w := range e.queue.remove(func(w *waiting) bool { return w.task.ID == id }) {
		e.touch(w.task.Job)
	}
	if h, ok := e.held[id]; ok {
		e.drop(h)
		e.touch(h.task.Job)
	}
	return e.pump(), nil
}

// Shape says that task id, which has its device, has a kernel of this size. The kernel
// counts if it is the task's largest so far (Task.WithKernel), or the first of a task
// whose grid was unknown. The task keeps its device.
func (e *Engine) Shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32) ([]schedulers.Decision, error) {
	h, ok := e.held[id]
	if !ok {
		return nil, fmt.Errorf("shape of task %d: it has no device", id)
	}
	t, larger := h.task.WithKernel(blocks, threadsPerBlock, blocksPerSM)
	if !larger {
		return nil, nil
	}
	d := &e.state.devices[h.at.Device]
	d.usedWarps += t.Warps() - h.task.Warps()
	d.vacate(h.at)
	h.task, h.at = t, e.policy.Reshape(t, h.at, d)
	d.occupy(h.at)
	e.touch(t.Job)
	return e.pump(), nil
}

// JobExit gives back everything that the job holds and waits for, its contexts included,
// however it ended.
func (e *Engine) JobExit(job schedulers.JobID) []schedulers.Decision {
	return e.exit(job, func(p schedulers.Process) bool { return p.Job == job })
}

// ProcessExit gives back everything that one process holds and waits for. Its job may go on.
func (e *Engine) ProcessExit(process schedulers.Process) []schedulers.Decision {
	return e.exit(process.Job, func(p schedulers.Process) bool { return p == process })
}

// exit removes processes of a job that end together, so that no task of theirs is granted
// memory that another of their tasks held.
func (e *Engine) exit(job schedulers.JobID, gone func(schedulers.Process) bool) []schedulers.Decision {
	e.touch(job) // while it has its contexts
	e.queue.remove(func(w *waiting) bool { return gone(w.task.Process()) })
	for _, h := range e.held {
		if gone(h.task.Process()) {
			e.drop(h)
		}
	}
	e.state.leave(gone)
	return e.pump()
}

// NextExpiry is when Expire must next be called; Never if nothing expires.
func (e *Engine) NextExpiry() time.Duration {
	next := schedulers.Never
	for _, w := range e.queue.tasks {
		next = min(next, w.limit.expires)
	}
	for _, g := range e.growing {
		next = min(next, g.limit.expires)
	}
	return next
}

// Expire refuses the requests that have waited as long as they may.
func (e *Engine) Expire(now time.Duration) []schedulers.Decision {
	e.at(now)
	var decisions []schedulers.Decision
	for _, w := range e.queue.remove(func(w *waiting) bool { return w.limit.expires <= now }) {
		e.touch(w.task.Job)
		decisions = append(decisions, e.timedOut(w))
	}
	for _, g := range slices.Clone(e.growing) {
		if g.limit.expires <= now {
			e.endGrowth(g)
			decisions = append(decisions, e.growRefused(g.holding, g.bytes, schedulers.TimedOut, g.limit.why()))
		}
	}
	return append(decisions, e.pump()...)
}

func (e *Engine) timedOut(w *waiting) schedulers.Decision {
	return e.refuse(w, schedulers.TimedOut, w.limit.why())
}

// pump makes every grant that is possible now, and resolves the deadlocks.
func (e *Engine) pump() []schedulers.Decision {
	if e.preempter != nil {
		return e.pumpRevoking()
	}
	decisions := e.pumpGrowth()
	for {
		e.findStalled()
		if e.nodeDeadlock() {
			decisions = append(decisions, e.resolveNodeDeadlock())
		} else if g := e.deviceDeadlock(); g != nil {
			decisions = append(decisions, e.refuseGrowth(g))
		} else if i, p, ok := e.next(); ok {
			decisions = append(decisions, e.grant(e.queue.grant(i), p))
		} else {
			return decisions
		}
	}
}

func (e *Engine) grant(w *waiting, p schedulers.Placement) schedulers.Decision {
	if w.resumes != nil {
		return e.resumed(w)
	}
	h := &holding{task: w.task, bytes: e.state.add(w.task, p), allocated: w.task.Bytes, at: p}
	e.held[w.task.ID] = h
	if e.preempter != nil {
		e.enlist(h)
	}
	e.touch(w.task.Job)
	return schedulers.Decision{Kind: schedulers.Granted, Task: w.task, Device: p.Device, Passed: w.passed}
}

// next returns the first waiting task that may go now, and its placement. A stalled task does
// not hold back other tasks.
func (e *Engine) next() (int, schedulers.Placement, bool) {
	var misfit *waiting
	for i, w := range e.queue.tasks {
		if misfit != nil && e.queue.order.blocks(misfit, w) {
			break
		}
		if p, ok := e.place(w); ok {
			return i, p, true
		}
		if w.stalled {
			continue
		}
		if e.queue.aged(w) {
			break
		}
		misfit = w
	}
	return 0, schedulers.Placement{}, false
}

func (e *Engine) drop(h *holding) {
	for _, g := range slices.Clone(e.growing) {
		if g.holding == h {
			e.endGrowth(g)
		}
	}
	delete(e.held, h.task.ID)
	e.state.remove(h.task, h.bytes, h.at)
	if e.preempter != nil {
		e.delist(h)
	}
}

func (e *Engine) known(id schedulers.TaskID) bool {
	_, held := e.held[id]
	return held || slices.ContainsFunc(e.queue.tasks, func(w *waiting) bool { return w.task.ID == id })
}

// limit is the wait limit of a request that comes now.
func (e *Engine) limit(wait *time.Duration, now time.Duration) limit {
	longest := e.config.WaitLimit
	switch {
	case wait != nil:
		longest = max(*wait, 0)
	case longest <= 0:
		return limit{schedulers.Never, schedulers.Never}
	}
	if longest > schedulers.Never-now {
		return limit{longest, schedulers.Never}
	}
	return limit{longest, now + longest}
}
