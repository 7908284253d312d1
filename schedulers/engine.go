package schedulers

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Config is what the engine itself, not the policy, is told.
type Config struct {
	Queue     Order
	AgeLimit  int           // a task is passed at most this often before it blocks those behind it
	WaitLimit time.Duration // a request that waits longer is refused; 0 = it may wait for ever
}

// Engine owns the accounting of the devices and the queue of waiting tasks,
// and asks its policy where a task may go. Each call answers at once with all
// the decisions that follow from it, in the order in which they were made. It
// is not safe for concurrent use.
type Engine struct {
	policy  Policy
	config  Config
	state   *State
	empty   *State // the node as it was, to tell "not now" from "never"
	queue   queue
	held    map[TaskID]*holding
	growing []*growth // by arrival
}

type holding struct {
	task  Task
	grown int64
	at    Placement
}

type growth struct {
	holding *holding
	bytes   int64
	expires time.Duration
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
		policy: policy, config: config,
		state: newState(devices), empty: newState(devices),
		queue: queue{order: config.Queue, ageLimit: max(config.AgeLimit, 1)},
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
	w := e.queue.push(t, e.expiry(now))
	var decisions []Decision
	// Those that waited before were turned down by the state as it is.
	if _, ok := e.policy.Place(t, e.state); ok {
		decisions = e.pump()
	}
	if slices.Contains(e.queue.tasks, w) {
		if _, ever := e.policy.Place(t, e.empty); !ever {
			e.queue.remove(func(o *waiting) bool { return o == w })
			decisions = append(decisions, Decision{Kind: Refused, Task: t, Device: -1, Reason: e.tooLarge(t)})
			decisions = append(decisions, e.pump()...)
		}
	}
	return decisions, nil
}

// Release gives back everything task id holds, or withdraws it from the queue.
func (e *Engine) Release(id TaskID, _ time.Duration) ([]Decision, error) {
	h, ok := e.held[id]
	if !ok {
		if gone := e.queue.remove(func(w *waiting) bool { return w.task.ID == id }); len(gone) > 0 {
			return e.pump(), nil
		}
		return nil, fmt.Errorf("release task %d: no such task", id)
	}
	e.drop(h)
	return e.pump(), nil
}

// Grow asks for bytes more on the device that task id has. Growth goes before
// waiting tasks, and a device on which a task waits to grow admits no other.
func (e *Engine) Grow(id TaskID, bytes int64, now time.Duration) ([]Decision, error) {
	h, ok := e.held[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("grow task %d: it has no device", id)
	case bytes < 0:
		return nil, fmt.Errorf("grow task %d: negative size %d", id, bytes)
	case e.isGrowing(h):
		return nil, fmt.Errorf("grow task %d: it waits to grow already", id)
	}
	alone := *e.empty.Device(h.at.Device)
	alone.UsedBytes = h.task.Bytes + h.grown + alone.ContextBytes
	if !e.policy.CanGrow(bytes, &alone) || bytes > math.MaxInt64-h.task.Bytes-h.grown {
		return []Decision{e.growRefused(h, bytes, DeviceFull, "the device is too small")}, nil
	}
	e.growing = append(e.growing, &growth{holding: h, bytes: bytes, expires: e.expiry(now)})
	e.state.Device(h.at.Device).growing++
	return e.pump(), nil
}

// JobExit gives back everything the job holds and waits for, its contexts
// included, however it ended.
func (e *Engine) JobExit(job JobID, _ time.Duration) []Decision {
	e.queue.remove(func(w *waiting) bool { return w.task.Job == job })
	for _, h := range e.held {
		if h.task.Job == job {
			e.drop(h)
		}
	}
	e.state.leave(job)
	return e.pump()
}

// NextExpiry is when Expire must next be called; Never if nothing expires.
func (e *Engine) NextExpiry() time.Duration {
	next := Never
	for _, w := range e.queue.tasks {
		next = min(next, w.expires)
	}
	for _, g := range e.growing {
		next = min(next, g.expires)
	}
	return next
}

// Expire refuses the requests whose wait limit has passed.
func (e *Engine) Expire(now time.Duration) []Decision {
	var decisions []Decision
	why := fmt.Sprintf("no device within the wait limit of %v", e.config.WaitLimit)
	for _, w := range e.queue.remove(func(w *waiting) bool { return w.expires <= now }) {
		r := e.tooLarge(w.task)
		r.Cause, r.Why = TimedOut, why
		decisions = append(decisions, Decision{Kind: Refused, Task: w.task, Device: -1, Passed: w.passed, Reason: r})
	}
	for _, g := range slices.Clone(e.growing) {
		if g.expires <= now {
			e.endGrowth(g)
			decisions = append(decisions, e.growRefused(g.holding, g.bytes, TimedOut, why))
		}
	}
	return append(decisions, e.pump()...)
}

// pump makes every grant that is possible now.
func (e *Engine) pump() []Decision {
	decisions := e.pumpGrowth()
	for {
		i, p, ok := e.next()
		if !ok {
			return decisions
		}
		w := e.queue.grant(i)
		e.state.add(w.task, p)
		e.held[w.task.ID] = &holding{task: w.task, at: p}
		decisions = append(decisions, Decision{Kind: Granted, Task: w.task, Device: p.Device, Passed: w.passed})
	}
}

// next is the first waiting task that may go now, and where.
func (e *Engine) next() (int, Placement, bool) {
	var misfit *waiting
	for i, w := range e.queue.tasks {
		if misfit != nil && e.queue.order.blocks(misfit, w) {
			break
		}
		if p, ok := e.policy.Place(w.task, e.state); ok {
			return i, p, true
		}
		if e.queue.aged(w) {
			break
		}
		misfit = w
	}
	return 0, Placement{}, false
}

// pumpGrowth grants growth in order of arrival, and refuses the latest where
// every task of a device waits to grow: none of them could ever go on.
func (e *Engine) pumpGrowth() []Decision {
	var decisions []Decision
	for progress := true; progress; {
		progress = false
		for _, g := range slices.Clone(e.growing) {
			d := e.state.Device(g.holding.at.Device)
			if !e.policy.CanGrow(g.bytes, d) {
				continue
			}
			e.endGrowth(g)
			g.holding.grown += g.bytes
			d.UsedBytes += g.bytes
			decisions = append(decisions, Decision{Kind: Grown, Task: g.holding.task, Device: g.holding.at.Device})
		}
		for _, g := range slices.Backward(slices.Clone(e.growing)) {
			if d := e.state.Device(g.holding.at.Device); d.growing == d.Tasks {
				e.endGrowth(g)
				decisions = append(decisions, e.growRefused(g.holding, g.bytes, DeviceFull,
					"out of memory: every task on the device waits to grow, and this one came last"))
				progress = true
				break
			}
		}
	}
	return decisions
}

func (e *Engine) drop(h *holding) {
	for _, g := range slices.Clone(e.growing) {
		if g.holding == h {
			e.endGrowth(g)
		}
	}
	delete(e.held, h.task.ID)
	e.state.remove(h.task, h.grown, h.at)
}

func (e *Engine) endGrowth(g *growth) {
	e.growing = slices.DeleteFunc(e.growing, func(o *growth) bool { return o == g })
	e.state.Device(g.holding.at.Device).growing--
}

func (e *Engine) isGrowing(h *holding) bool {
	return slices.ContainsFunc(e.growing, func(g *growth) bool { return g.holding == h })
}

func (e *Engine) known(id TaskID) bool {
	_, held := e.held[id]
	return held || slices.ContainsFunc(e.queue.tasks, func(w *waiting) bool { return w.task.ID == id })
}

func (e *Engine) expiry(now time.Duration) time.Duration {
	if e.config.WaitLimit <= 0 {
		return Never
	}
	return now + e.config.WaitLimit
}

// tooLarge states t's need, its context included, beside the capacity of the
// largest device that the policy would use for it.
func (e *Engine) tooLarge(t Task) *Refusal {
	bySize := make([]int, e.empty.Len())
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(a, b int) int {
		return -compare(e.empty.Device(a).CapacityBytes, e.empty.Device(b).CapacityBytes)
	})
	largest := e.empty.Device(bySize[0])
	for _, i := range bySize {
		probe := t
		probe.Bytes = e.empty.Device(i).CapacityBytes - e.empty.Device(i).ContextBytes
		if p, ok := e.policy.Place(probe, e.empty); ok {
			largest = e.empty.Device(p.Device)
			break
		}
	}
	return &Refusal{Cause: TooLarge, Why: "fits no device even when the node is empty",
		NeedBytes: sumBytes(t.Bytes, largest.ContextBytes), CapacityBytes: largest.CapacityBytes}
}

// growRefused states what h would hold then, its context included.
func (e *Engine) growRefused(h *holding, bytes int64, cause Cause, why string) Decision {
	d := e.state.Device(h.at.Device)
	return Decision{Kind: GrowRefused, Task: h.task, Device: h.at.Device, Reason: &Refusal{
		Cause: cause, Why: why, NeedBytes: sumBytes(sumBytes(h.task.Bytes+h.grown, d.ContextBytes), bytes), CapacityBytes: d.CapacityBytes}}
}

// sumBytes adds sizes that are not negative and stops at the largest integer.
func sumBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
