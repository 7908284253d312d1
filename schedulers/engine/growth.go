package engine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// growth is a task that waits for more memory on the device that it has.
type growth struct {
	holding *holding
	bytes   int64
	limit   limit
	stalled bool
}

// Grow asks for bytes more on the device that task id has. Growth goes before waiting
// tasks. A device on which a task waits to grow admits no other task, unless the growth
// is stalled. wait is like Task.Wait.
func (e *Engine) Grow(id schedulers.TaskID, bytes int64, wait *time.Duration, now time.Duration) ([]schedulers.Decision, error) {
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
		return []schedulers.Decision{{Kind: schedulers.Grown, Task: h.task, Device: h.at.Device}}, nil
	}
	alone := e.empty.devices[h.at.Device]
	alone.usedBytes = h.bytes + alone.limits.ContextBytes
	if !e.policy.CanGrow(bytes, &alone) || bytes > math.MaxInt64-h.bytes {
		return []schedulers.Decision{e.growRefused(h, bytes, schedulers.DeviceFull, "the device is too small")}, nil
	}
	d, limit := &e.state.devices[h.at.Device], e.limit(wait, now)
	if limit.longest == 0 && !e.policy.CanGrow(bytes, d) {
		return []schedulers.Decision{e.growRefused(h, bytes, schedulers.TimedOut, limit.why())}, nil
	}
	e.growing = append(e.growing, &growth{holding: h, bytes: bytes, limit: limit})
	d.growing++
	d.claimed++
	e.touch(h.task.Job)
	return e.pump(), nil
}

// Shrink says that task id, which has its device, gave back bytes of its memory there. More
// bytes than the task has are an error and change nothing.
func (e *Engine) Shrink(id schedulers.TaskID, bytes int64) ([]schedulers.Decision, error) {
	h, ok := e.held[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("shrink task %d: it has no device", id)
	case bytes < 0:
		return nil, fmt.Errorf("shrink task %d: negative size %d", id, bytes)
	case h.at.WholeMemory: // it keeps the device's whole memory
		return nil, nil
	case bytes > h.bytes:
		return nil, fmt.Errorf("shrink task %d by %d bytes: it has %d", id, bytes, h.bytes)
	}
	h.bytes -= bytes
	e.state.devices[h.at.Device].usedBytes -= bytes
	e.touch(h.task.Job)
	return e.pump(), nil
}

// pumpGrowth grants growth in order of arrival. Under an order by priority, growth of a
// higher priority goes first. Growth that does not fit does not hold back
// other growth, because the other task may hold the memory that the first waits for, and
// releases it only after it has grown.
func (e *Engine) pumpGrowth() []schedulers.Decision {
	var decisions []schedulers.Decision
	inTurn := slices.Clone(e.growing)
	slices.SortStableFunc(inTurn, func(a, b *growth) int { return e.queue.order.byPriority(a.holding.task, b.holding.task) })
	for _, g := range inTurn {
		d := &e.state.devices[g.holding.at.Device]
		if !e.policy.CanGrow(g.bytes, d) {
			continue
		}
		e.endGrowth(g)
		g.holding.bytes += g.bytes
		d.usedBytes += g.bytes
		decisions = append(decisions, schedulers.Decision{Kind: schedulers.Grown, Task: g.holding.task, Device: g.holding.at.Device})
	}
	return decisions
}

func (e *Engine) refuseGrowth(g *growth) schedulers.Decision {
	e.endGrowth(g)
	return e.growRefused(g.holding, g.bytes, schedulers.DeviceFull,
		"out of memory: every job on the device waits for memory, and this one came last")
}

func (e *Engine) endGrowth(g *growth) {
	e.growing = slices.DeleteFunc(e.growing, func(o *growth) bool { return o == g })
	d := &e.state.devices[g.holding.at.Device]
	d.growing--
	if !g.stalled {
		d.claimed--
	}
	e.touch(g.holding.task.Job)
}

func (e *Engine) isGrowing(h *holding) bool {
	return slices.ContainsFunc(e.growing, func(g *growth) bool { return g.holding == h })
}

// growRefused states the memory that h would hold if it grew, its context included.
func (e *Engine) growRefused(h *holding, bytes int64, cause schedulers.Cause, why string) schedulers.Decision {
	limits := e.devices[h.at.Device]
	return schedulers.Decision{Kind: schedulers.GrowRefused, Task: h.task, Device: h.at.Device, Reason: &schedulers.Refusal{
		Cause: cause, Why: why, NeedBytes: sumBytes(sumBytes(h.bytes, limits.ContextBytes), bytes), CapacityBytes: limits.CapacityBytes}}
}
