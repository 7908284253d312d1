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
	expires time.Duration
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
	if h.at.WholeMemory { // the driver makes room by moving its managed pages out
		return []Decision{{Kind: Grown, Task: h.task, Device: h.at.Device}}, nil
	}
	alone := *e.empty.Device(h.at.Device)
	alone.UsedBytes = h.bytes + alone.ContextBytes
	if !e.policy.CanGrow(bytes, &alone) || bytes > math.MaxInt64-h.bytes {
		return []Decision{e.growRefused(h, bytes, DeviceFull, "the device is too small")}, nil
	}
	e.growing = append(e.growing, &growth{holding: h, bytes: bytes, expires: e.expiry(now)})
	e.state.Device(h.at.Device).growing++
	return e.pump(), nil
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
			g.holding.bytes += g.bytes
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

func (e *Engine) endGrowth(g *growth) {
	e.growing = slices.DeleteFunc(e.growing, func(o *growth) bool { return o == g })
	e.state.Device(g.holding.at.Device).growing--
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
