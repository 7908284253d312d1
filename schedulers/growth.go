package schedulers

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// growth is a task that waits for more memory on the device that it has.
type growth struct {
	holding *holding
	bytes   int64
	limit   limit
	stalled bool
}

// Grow asks for bytes more on the device that task id has. Growth goes before
// waiting tasks, and a device on which a task waits to grow admits no other, unless
// the growth is stalled. wait is as Task.Wait.
func (e *Engine) Grow(id TaskID, bytes int64, wait *time.Duration, now time.Duration) ([]Decision, error) {
	h, ok := e.held[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("grow task %d: it has no device", id)
	case bytes < 0:
		return nil, fmt.Errorf("grow task %d: negative size %d", id, bytes)
	case e.isGrowing(h):
		return nil, fmt.Errorf("grow task %d: it waits to grow already", id)
	}
	if h.at.WholeMemory { // the driver makes room by moving its managed pages out
		return []Decision{{Kind: Grown, Task: h.task, Device: h.at.Device}}, nil
	}
	alone := *e.empty.Device(h.at.Device)
	alone.UsedBytes = h.bytes + alone.ContextBytes
	if !e.policy.CanGrow(bytes, &alone) || bytes > math.MaxInt64-h.bytes {
		return []Decision{e.growRefused(h, bytes, DeviceFull, "the device is too small")}, nil
	}
	d, limit := e.state.Device(h.at.Device), e.limit(wait, now)
	if limit.longest == 0 && !e.policy.CanGrow(bytes, d) {
		return []Decision{e.growRefused(h, bytes, TimedOut, limit.why())}, nil
	}
	e.growing = append(e.growing, &growth{holding: h, bytes: bytes, limit: limit})
	d.growing++
	d.claimed++
	e.touch(h.task.Job)
	return e.pump(), nil
}

// Shrink says that task id, which has its device, gave back bytes of what it has there. More
// than that is an error and changes nothing.
func (e *Engine) Shrink(id TaskID, bytes int64, _ time.Duration) ([]Decision, error) {
	h, ok := e.held[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("shrink task %d: it has no device", id)
	case bytes < 0:
		return nil, fmt.Errorf("shrink task %d: negative size %d", id, bytes)
	case h.at.WholeMemory: // it has no less of the device
		return nil, nil
	case bytes > h.bytes:
		return nil, fmt.Errorf("shrink task %d by %d bytes: it has %d", id, bytes, h.bytes)
	}
	h.bytes -= bytes
	e.state.Device(h.at.Device).UsedBytes -= bytes
	e.touch(h.task.Job)
	return e.pump(), nil
}

// pumpGrowth grants growth in order of arrival, under an order by priority those of a higher one
// first. Growth that does not fit holds back no other, because what it waits for may be what
// the other has, and gives back only when it has gone on.
func (e *Engine) pumpGrowth() []Decision {
	var decisions []Decision
	inTurn := slices.Clone(e.growing)
	slices.SortStableFunc(inTurn, func(a, b *growth) int { return e.queue.order.byPriority(a.holding.task, b.holding.task) })
	for _, g := range inTurn {
		d := e.state.Device(g.holding.at.Device)
		if !e.policy.CanGrow(g.bytes, d) {
			continue
		}
		e.endGrowth(g)
		g.holding.bytes += g.bytes
		d.UsedBytes += g.bytes
		decisions = append(decisions, Decision{Kind: Grown, Task: g.holding.task, Device: g.holding.at.Device})
	}
	return decisions
}

// hopeless is the latest growth that waits in vain while others go on, or nil.
// Memory of a device comes back when one of its tasks ends or a job with a context
// there exits, so growth is in vain where each task waits to grow and each such
// job waits, to grow or in the queue, for that device alone. A job that may go on
// elsewhere comes to its end, unless everybody waits (stuck).
func (e *Engine) hopeless() *growth {
	for _, g := range slices.Backward(e.growing) {
		if at := g.holding.at.Device; e.state.Device(at).allWait(e.waitAt(at)) {
			return g
		}
	}
	return nil
}

// waitAt is the jobs with a context on the device and a request that no other can
// serve; none where a task of the device does not wait, which is told at once.
func (e *Engine) waitAt(device int) map[JobID]bool {
	d, jobs := e.state.Device(device), map[JobID]bool{}
	if !d.allGrow() {
		return jobs
	}
	for _, g := range e.growing {
		if g.holding.at.Device == device {
			jobs[g.holding.task.Job] = true
		}
	}
	for _, w := range e.queue.tasks {
		job := w.task.Job
		if _, here := d.jobs[job]; here && !jobs[job] && !e.fitsBeside(w.task, device) {
			jobs[job] = true
		}
	}
	return jobs
}

// fitsBeside reports whether t could have another device than this one.
func (e *Engine) fitsBeside(t Task, device int) bool {
	for i := range e.empty.Len() {
		if i == device || t.OnDevice != nil && *t.OnDevice != i {
			continue
		}
		there := t
		there.OnDevice = &i
		if _, ok := e.policy.Place(there, e.empty); ok {
			return true
		}
	}
	return false
}

// allGrow reports whether each task on the device waits to grow.
func (d *DeviceState) allGrow() bool { return d.growing == d.Tasks }

// allWait reports whether each task on the device waits to grow, and each job with
// a context there is one of those given.
func (d *DeviceState) allWait(jobs map[JobID]bool) bool {
	if !d.allGrow() {
		return false
	}
	for job := range d.jobs {
		if !jobs[job] {
			return false
		}
	}
	return true
}

func (e *Engine) refuseGrowth(g *growth) Decision {
	e.endGrowth(g)
	return e.growRefused(g.holding, g.bytes, DeviceFull,
		"out of memory: every job on the device waits for memory, and this one came last")
}

func (e *Engine) endGrowth(g *growth) {
	e.growing = slices.DeleteFunc(e.growing, func(o *growth) bool { return o == g })
	d := e.state.Device(g.holding.at.Device)
	d.growing--
	if !g.stalled {
		d.claimed--
	}
	e.touch(g.holding.task.Job)
}

func (e *Engine) isGrowing(h *holding) bool {
	return slices.ContainsFunc(e.growing, func(g *growth) bool { return g.holding == h })
}

// growRefused states what h would hold then, its context included.
func (e *Engine) growRefused(h *holding, bytes int64, cause Cause, why string) Decision {
	d := e.state.Device(h.at.Device)
	return Decision{Kind: GrowRefused, Task: h.task, Device: h.at.Device, Reason: &Refusal{
		Cause: cause, Why: why, NeedBytes: sumBytes(sumBytes(h.bytes, d.ContextBytes), bytes), CapacityBytes: d.CapacityBytes}}
}
