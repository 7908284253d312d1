package engine

import (
	"cmp"
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
	since   time.Duration // when it came
	limit   limit
	arrival uint64
	parked  bool
	stalled bool
	whole   bool // it may have the place of all that its task has there
	spent   bool // its own memory cannot give more room
	starved bool // Engine.Starved has had it
}

// needed returns how many bytes the growth's task keeps for itself: those that its latest kernel
// referenced, which the next one may reference too.
func (g *growth) needed() int64 {
	if g.whole {
		return 0
	}
	return g.holding.referenced
}

// offerWhole lets one of the growths, which would be refused, have the place of what its task's latest kernel
// referenced: the next kernel may reference less. It reports whether there is one that this gives more room.
func (e *Engine) offerWhole(growths []*growth) bool {
	for _, g := range growths {
		if g.whole {
			continue
		}
		g.whole, g.spent = true, false
		if e.own(g.holding, 0, false) > 0 {
			return true
		}
	}
	return false
}

// Grow asks for bytes more on the device that task id has. Growth goes before waiting
// tasks. A device on which a task waits to grow admits no other task, unless the growth
// is stalled. wait is like Task.Wait.
func (e *Engine) Grow(id schedulers.TaskID, bytes int64, wait *time.Duration, now time.Duration) ([]schedulers.Decision, error) {
	e.at(now)
	h, err := e.one(id, "grow")
	switch {
	case err != nil:
		return nil, err
	case bytes < 0:
		return nil, fmt.Errorf("grow task %d: negative size %d", id, bytes)
	case h.growth != nil:
		return nil, fmt.Errorf("grow task %d: it waits to grow already", id)
	}
	if h.at.WholeMemory { // the driver makes room by moving its managed pages out
		return []schedulers.Decision{{Kind: schedulers.Grown, Task: h.task, Device: h.at.Device}}, nil
	}
	if !e.couldGrow(h, bytes, e.devices[h.at.Device]) || bytes > math.MaxInt64-h.allocated {
		return []schedulers.Decision{e.growRefused(h, bytes, schedulers.DeviceFull, "the device is too small")}, nil
	}
	limit := e.limit(wait, now)
	if limit.longest == 0 && !e.canGrow(h, bytes) {
		return []schedulers.Decision{e.growRefused(h, bytes, schedulers.TimedOut, limit.why())}, nil
	}
	e.grown++
	h.growth = &growth{holding: h, bytes: bytes, since: now, limit: limit, arrival: e.grown}
	e.count(h.growth)
	e.parkGrowth(h.growth)
	if h.isLate() {
		e.stallTask(h)
	}
	e.touch(h.task.Job)
	return e.pump(), nil
}

// Shrink says that task id, which has its device, gave back bytes of its memory. More bytes than
// the task has are an error and change nothing. Under a Preempter the bytes count as those that
// are not on the device, as far as there are any, until the next answer of the task says more.
func (e *Engine) Shrink(id schedulers.TaskID, bytes int64) ([]schedulers.Decision, error) {
	h, err := e.one(id, "shrink")
	switch {
	case err != nil:
		return nil, err
	case bytes < 0:
		return nil, fmt.Errorf("shrink task %d: negative size %d", id, bytes)
	case h.at.WholeMemory: // it keeps the device's whole memory
		return nil, nil
	case bytes > h.allocated:
		return nil, fmt.Errorf("shrink task %d by %d bytes: it has %d", id, bytes, h.allocated)
	}
	h.allocated -= bytes
	if there := min(h.bytes, h.allocated); there < h.bytes {
		if h.revocable != nil && h.ticket != nil { // it was asked for part of what it gave back
			fewer := min(h.ticket.Bytes, h.bytes-there)
			h.ticket.Bytes -= fewer
			if h.moves() {
				e.state.charge(h.ticket.Device, -fewer)
				e.state.devices[h.ticket.Device].gaveBack(h.task.Process())
			}
		}
		e.charge(h, there)
	}
	e.touch(h.task.Job)
	return e.pump(), nil
}

// pumpGrowth grants growth in order of arrival. Under an order by priority, growth of a
// higher priority goes first. Growth that does not fit does not hold back
// other growth, because the other task may hold the memory that the first waits for, and
// releases it only after it has grown.
func (e *Engine) pumpGrowth() []schedulers.Decision {
	var decisions []schedulers.Decision
	for _, g := range e.growthInTurn() {
		h := g.holding
		if !e.canGrow(h, g.bytes) {
			continue
		}
		e.endGrowth(g)
		h.allocated += g.bytes
		e.charge(h, h.bytes+g.bytes)
		if h.revocable != nil {
			h.got = e.now
		}
		decisions = append(decisions, schedulers.Decision{Kind: schedulers.Grown, Task: h.task, Device: h.at.Device})
	}
	return decisions
}

// canGrow reports whether h may have bytes more on its device now.
func (e *Engine) canGrow(h *holding, bytes int64) bool {
	d := &e.state.devices[h.at.Device]
	return (h.revocable == nil || h.ticket == nil) && !d.barred[h.task.Job] && e.policy.CanGrow(bytes, d)
}

// couldGrow reports whether h may have bytes more if it is alone on a device.
func (e *Engine) couldGrow(h *holding, bytes int64, on schedulers.Device) bool {
	return e.policy.CanGrow(bytes, &device{limits: on, usedBytes: e.kept(h) + on.ContextBytes})
}

// charge says that h has bytes on its device.
func (e *Engine) charge(h *holding, bytes int64) {
	if bytes < h.bytes {
		e.state.devices[h.at.Device].gaveBack(h.task.Process())
	}
	e.state.charge(h.at.Device, bytes-h.bytes)
	h.bytes = bytes
}

func (e *Engine) growthInTurn() []*growth {
	inTurn := slices.Clone(e.growing)
	slices.SortStableFunc(inTurn, func(a, b *growth) int { return e.queue.order.byPriority(a.holding.task, b.holding.task) })
	return inTurn
}

func (e *Engine) refuseGrowth(g *growth) schedulers.Decision {
	e.endGrowth(g)
	d := e.growRefused(g.holding, g.bytes, schedulers.DeviceFull,
		"out of memory: every job on the device waits for memory, and this one came last")
	d.Reason.Deadlock = true
	return d
}

func (e *Engine) endGrowth(g *growth) {
	e.uncount(g)
	g.holding.growth = nil
	e.touch(g.holding.task.Job)
}

// count enters g among those that wait to grow on a device.
func (e *Engine) count(g *growth) {
	if g.parked {
		e.parkedGrowth = append(e.parkedGrowth, g)
		return
	}
	at, _ := slices.BinarySearchFunc(e.growing, g, func(a, b *growth) int { return cmp.Compare(a.arrival, b.arrival) })
	e.growing = slices.Insert(e.growing, at, g)
	e.state.devices[g.holding.at.Device].growing++
	e.state.claim(g.holding.at.Device, 1)
}

// uncount is the reverse of count.
func (e *Engine) uncount(g *growth) {
	same := func(o *growth) bool { return o == g }
	if g.parked {
		e.parkedGrowth = slices.DeleteFunc(e.parkedGrowth, same)
		return
	}
	e.growing = slices.DeleteFunc(e.growing, same)
	e.state.devices[g.holding.at.Device].growing--
	if !g.stalled {
		e.state.claim(g.holding.at.Device, -1)
	}
	g.stalled = false
}

// growRefused states the memory that h would hold if it grew, its context included.
func (e *Engine) growRefused(h *holding, bytes int64, cause schedulers.Cause, why string) schedulers.Decision {
	limits := e.devices[h.at.Device]
	return schedulers.Decision{Kind: schedulers.GrowRefused, Task: h.task, Device: h.at.Device, Reason: &schedulers.Refusal{
		Cause: cause, Why: why, NeedBytes: sumBytes(sumBytes(e.kept(h), limits.ContextBytes), bytes), CapacityBytes: limits.CapacityBytes}}
}
