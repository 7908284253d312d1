package schedulers

import (
	"fmt"
	"slices"
	"time"
)

// Config is what the engine itself, not the policy, is told.
type Config struct {
	Queue     Order
	AgeLimit  int           // a task is passed at most this often before it blocks those behind it; 0 = however often
	WaitLimit time.Duration // a request that waits longer is refused, unless it has a wait of its own; 0 = it may wait for ever
}

// Engine owns the accounting of the devices and the queue of waiting tasks,
// and asks its policy where a task may go. Each call answers at once with all
// the decisions that follow from it, in the order in which they were made. It
// is not safe for concurrent use.
type Engine struct {
	policy  Policy
	config  Config
	devices []Device
	state   *State
	empty   *State // the node as it was, to tell "not now" from "never"
	queue   queue
	held    map[TaskID]*holding
	growing []*growth // by arrival

	withheld *State // the node with what waiting jobs have there; nil: no request can be stalled
	stale    bool   // withheld, and which requests are stalled, may not be as they were
}

// holding is a task with its device.
type holding struct {
	task  Task
	bytes int64 // what it counts as, growth included
	at    Placement
}

// NewEngine returns an engine for the devices in node order.
func NewEngine(devices []Device, policy Policy, config Config) (*Engine, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("new engine: no devices")
	}
	for i, d := range devices {
		if d.CapacityBytes <= 0 || d.ContextBytes < 0 || d.SMs <= 0 || d.WarpsPerSM <= 0 || d.BlocksPerSM <= 0 {
			return nil, fmt.Errorf("new engine: device %d (%s): capacity %d bytes, context %d bytes, %d SMs of %d warps and %d blocks: each must be positive",
				i, d.Name, d.CapacityBytes, d.ContextBytes, d.SMs, d.WarpsPerSM, d.BlocksPerSM)
		}
	}
	return &Engine{
		policy: policy, config: config, devices: slices.Clone(devices),
		state: newState(devices), empty: newState(devices),
		queue: queue{order: config.Queue, ageLimit: config.AgeLimit},
		held:  map[TaskID]*holding{},
	}, nil
}

// State is the accounting as it stands. The caller must not change it.
func (e *Engine) State() *State { return e.state }

// Waiting is the number of tasks without a device.
func (e *Engine) Waiting() int { return len(e.queue.tasks) }

// Submit asks for a device for t. An id in use or a negative size is an error
// and changes nothing.
func (e *Engine) Submit(t Task, now time.Duration) ([]Decision, error) {
	if t.Bytes < 0 {
		return nil, fmt.Errorf("submit task %d of job %d: negative size %d", t.ID, t.Job, t.Bytes)
	}
	if e.known(t.ID) {
		return nil, fmt.Errorf("submit task %d of job %d: the id is in use", t.ID, t.Job)
	}
	_, fits := e.policy.Place(t, e.state)
	if !fits {
		if _, ever := e.policy.Place(t, e.empty); !ever {
			return []Decision{{Kind: Refused, Task: t, Device: -1, Reason: e.tooLarge(t)}}, nil
		}
	}
	w := e.queue.push(t, e.limit(t.Wait, now))
	if w.limit.longest == 0 {
		return e.nowOrNever(w), nil
	}
	w.stalled = e.inVain(t)
	if !fits || len(e.queue.tasks) > 1 {
		e.touch(t.Job)
	}
	// Those that waited before were turned down by the state as it is.
	if fits || e.stale || e.stuck() || e.hopeless() != nil {
		return e.pump(), nil
	}
	return nil, nil
}

// nowOrNever grants w, which came last, where it is its turn, and else refuses it. It never
// waits, so that a refusal leaves no trace.
func (e *Engine) nowOrNever(w *waiting) []Decision {
	i, p, ok := e.next()
	if !ok || e.queue.tasks[i] != w {
		return []Decision{e.timedOut(e.queue.take(w))}
	}
	return append([]Decision{e.grant(e.queue.grant(i), p)}, e.pump()...)
}

// Release gives back everything task id holds, or withdraws it from the queue. An
// unknown id is an error and changes nothing.
func (e *Engine) Release(id TaskID, _ time.Duration) ([]Decision, error) {
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

// Shape says that task id, which has its device, has a kernel of this size. It
// counts if it is the largest of the task so far (Task.WithKernel), or the first
// of one whose grid was unknown. The task keeps its device.
func (e *Engine) Shape(id TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32, _ time.Duration) ([]Decision, error) {
	h, ok := e.held[id]
	if !ok {
		return nil, fmt.Errorf("shape of task %d: it has no device", id)
	}
	t, larger := h.task.WithKernel(blocks, threadsPerBlock, blocksPerSM)
	if !larger {
		return nil, nil
	}
	d := e.state.Device(h.at.Device)
	d.UsedWarps += t.Warps() - h.task.Warps()
	d.vacate(h.at)
	h.task, h.at = t, e.policy.Reshape(t, h.at, d)
	d.occupy(h.at)
	e.touch(t.Job)
	return e.pump(), nil
}

// JobExit gives back everything the job holds and waits for, its contexts
// included, however it ended.
func (e *Engine) JobExit(job JobID, _ time.Duration) []Decision {
	return e.exit(job, func(p Process) bool { return p.Job == job })
}

// ProcessExit gives back the same of one process, whose job may go on.
func (e *Engine) ProcessExit(process Process, _ time.Duration) []Decision {
	return e.exit(process.Job, func(p Process) bool { return p == process })
}

// exit is of processes of a job that end together: none of their tasks gets what
// another one held.
func (e *Engine) exit(job JobID, gone func(Process) bool) []Decision {
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
	next := Never
	for _, w := range e.queue.tasks {
		next = min(next, w.limit.expires)
	}
	for _, g := range e.growing {
		next = min(next, g.limit.expires)
	}
	return next
}

// Expire refuses the requests that have waited as long as they may.
func (e *Engine) Expire(now time.Duration) []Decision {
	var decisions []Decision
	for _, w := range e.queue.remove(func(w *waiting) bool { return w.limit.expires <= now }) {
		e.touch(w.task.Job)
		decisions = append(decisions, e.timedOut(w))
	}
	for _, g := range slices.Clone(e.growing) {
		if g.limit.expires <= now {
			e.endGrowth(g)
			decisions = append(decisions, e.growRefused(g.holding, g.bytes, TimedOut, g.limit.why()))
		}
	}
	return append(decisions, e.pump()...)
}

func (e *Engine) timedOut(w *waiting) Decision {
	r := e.tooLarge(w.task)
	r.Cause, r.Why = TimedOut, w.limit.why()
	return Decision{Kind: Refused, Task: w.task, Device: -1, Passed: w.passed, Reason: r}
}

// pump makes every grant that is possible now, and refuses what keeps all
// others waiting for ever.
func (e *Engine) pump() []Decision {
	decisions := e.pumpGrowth()
	for {
		e.findStalled()
		if e.stuck() {
			decisions = append(decisions, e.unstick())
		} else if g := e.hopeless(); g != nil {
			decisions = append(decisions, e.refuseGrowth(g))
		} else if i, p, ok := e.next(); ok {
			decisions = append(decisions, e.grant(e.queue.grant(i), p))
		} else {
			return decisions
		}
	}
}

func (e *Engine) grant(w *waiting, p Placement) Decision {
	e.held[w.task.ID] = &holding{task: w.task, bytes: e.state.add(w.task, p), at: p}
	e.touch(w.task.Job)
	return Decision{Kind: Granted, Task: w.task, Device: p.Device, Passed: w.passed}
}

// next is the first waiting task that may go now, and where. One that is stalled holds
// back nobody.
func (e *Engine) next() (int, Placement, bool) {
	var misfit *waiting
	for i, w := range e.queue.tasks {
		if misfit != nil && e.queue.order.blocks(misfit, w) {
			break
		}
		if p, ok := e.policy.Place(w.task, e.state); ok {
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
	return 0, Placement{}, false
}

func (e *Engine) drop(h *holding) {
	for _, g := range slices.Clone(e.growing) {
		if g.holding == h {
			e.endGrowth(g)
		}
	}
	delete(e.held, h.task.ID)
	e.state.remove(h.task, h.bytes, h.at)
}

func (e *Engine) known(id TaskID) bool {
	_, held := e.held[id]
	return held || slices.ContainsFunc(e.queue.tasks, func(w *waiting) bool { return w.task.ID == id })
}

// limit is that of a request that comes now.
func (e *Engine) limit(wait *time.Duration, now time.Duration) limit {
	longest := e.config.WaitLimit
	switch {
	case wait != nil:
		longest = max(*wait, 0)
	case longest <= 0:
		return limit{Never, Never}
	}
	if longest > Never-now {
		return limit{longest, Never}
	}
	return limit{longest, now + longest}
}
