package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Unaccounted memory: what a process is seen to use on a device (Used) above what is charged for it there, its context
// included. It is charged to the process until the process is seen to use less, or its context ends. So a device can be charged
// more than it has. Room cannot be made of this memory, and a request that does not fit beside it waits as for any other.
//
//   - One look suffices where it can be trusted (device.trusts). Otherwise two in a row must show it, and the smaller of both
//     counts.
//   - A process grows before it allocates. So growth does not lower what is unaccounted; the next look does.
//   - Memory that is on its way to the device or from it shows too little, so what is unaccounted does not fall meanwhile.
//   - A process that is seen to use a device gets a context there if it has none.

// Use is the memory of a process on a device.
type Use struct {
	Process schedulers.Process
	Bytes   int64
}

// Slack is by how many bytes processes on d are often above what is charged: what a context takes depends on the device and on the
// program. Many processes that are a little above it fill a device, so what is within the slack is charged too.
func Slack(d schedulers.Device) int64 { return d.ContextBytes / 16 }

// mostUsed is more than any device has.
const mostUsed = 1 << 48

// excess is what looks show of a process that is above what is charged.
type excess struct {
	used    int64 // at the latest look
	above   int64 // of used: more than was charged then
	charged int64
	entered bool // its context is charged because a look has shown it
}

// Used enters what a look at a device shows: how much memory processes have there. A process is named once, and those that are not
// named have none.
func (e *Engine) Used(device int, uses []Use, now time.Duration) ([]schedulers.Decision, error) {
	if device < 0 || device >= len(e.devices) {
		return nil, fmt.Errorf("a look at device %d: the node has devices 0 to %d", device, len(e.devices)-1)
	}
	for _, u := range uses {
		if u.Bytes < 0 || u.Bytes > mostUsed {
			return nil, fmt.Errorf("a look at device %d: process %d of job %d uses %d bytes", device, u.Process.Serial, u.Process.Job, u.Bytes)
		}
	}
	e.at(now)
	d, changed := &e.state.devices[device], false
	for p := range d.excesses {
		if !slices.ContainsFunc(uses, func(u Use) bool { return u.Process == p }) {
			changed = e.see(d, p, 0) || changed
		}
	}
	for _, u := range uses {
		changed = e.see(d, u.Process, u.Bytes) || changed
	}
	if d.given == nil {
		d.given = map[schedulers.Process]bool{}
	}
	clear(d.given)
	if !changed {
		return nil, nil
	}
	return e.pump(), nil
}

// Unaccounted has the unaccounted bytes of processes on a device; nil: there are none.
func (e *Engine) Unaccounted(device int) map[schedulers.Process]int64 {
	var out map[schedulers.Process]int64
	for p, x := range e.state.devices[device].excesses {
		if x.charged > 0 {
			if out == nil {
				out = map[schedulers.Process]int64{}
			}
			out[p] = x.charged
		}
	}
	return out
}

// see enters what a look shows of a process, and reports whether the process is charged something else than before.
func (e *Engine) see(d *device, p schedulers.Process, bytes int64) (changed bool) {
	slack := Slack(d.limits)
	above := max(bytes-sumBytes(d.limits.ContextBytes, e.chargedTo(p, d)), 0)
	x := d.excesses[p]
	if x != nil && above < x.charged && e.moving(p, d) {
		above = x.charged
	}
	counts := above > 0 || !d.contexts[p] && bytes > slack
	if x == nil {
		if !counts {
			return false
		}
		x = &excess{}
		d.exceeds(p, x)
	}
	before := *x
	x.used, x.above = bytes, above
	if !d.contexts[p] && min(before.used, bytes) > slack {
		e.state.enter(d.index, p)
		x.entered, changed = true, true
	}
	charge := above
	if !e.trusts(d, p) {
		charge = min(before.above, above)
	}
	if charge != x.charged {
		e.state.charge(d.index, charge-x.charged)
		x.charged, changed = charge, true
	}
	if changed {
		e.touch(p.Job)
	}
	switch {
	case x.entered && before.used == 0 && bytes == 0:
		e.touch(p.Job)
		e.state.leave(p.Job, func(c context) bool { return c.process == p && c.device == d.index })
		return true
	case !counts && !x.entered:
		delete(d.excesses, p)
	}
	return changed
}

// trusts reports whether one look at d suffices to charge p. Two reasons are against it:
//
//   - p was charged less since the look before. It may have had the memory when the look was made, because its message can
//     come before the look is entered.
//   - p has no context here by a task, or has one on another device too. NVML shows a new client of an MPS server on all
//     devices of the server, for 0.11 to 0.14 s (measured on two H200).
func (e *Engine) trusts(d *device, p schedulers.Process) bool {
	if x := d.excesses[p]; d.given[p] || !d.contexts[p] || x != nil && x.entered {
		return false
	}
	return !slices.ContainsFunc(e.state.contextsOf(p.Job), func(c context) bool { return c.process == p && c.device != d.index })
}

// gaveBack says that p is charged less here than before.
func (d *device) gaveBack(p schedulers.Process) {
	if d.given != nil {
		d.given[p] = true
	}
}

// chargedTo is what the tasks of p are charged on d, and what is kept for those that move there.
func (e *Engine) chargedTo(p schedulers.Process, d *device) (bytes int64) {
	for _, id := range e.state.tasksOf(p.Job) {
		for h := e.held[id]; h != nil && h.task.Process() == p; h = h.other {
			if h.at.Device == d.index {
				bytes = sumBytes(bytes, h.bytes)
			} else if h.movesTo(d.index) {
				bytes = sumBytes(bytes, h.ticket.Bytes)
			}
		}
	}
	return bytes
}

// moving reports whether memory of p may be on its way to d or from it: it is asked for some, or it was given some after it last
// gave any, and not long enough ago for all of its memory to have come.
func (e *Engine) moving(p schedulers.Process, d *device) bool {
	for _, id := range e.state.tasksOf(p.Job) {
		h := e.held[id]
		if h.revocable == nil || h.task.Process() != p || h.at.Device != d.index && !h.movesTo(d.index) {
			continue
		}
		if h.ticket != nil || h.got > h.gave && e.now < h.got+copyTime(h.bytes) {
			return true
		}
	}
	return false
}

func (d *device) exceeds(p schedulers.Process, x *excess) {
	if d.excesses == nil {
		d.excesses = map[schedulers.Process]*excess{}
	}
	d.excesses[p] = x
}

// chargedUnseen is what p is charged here that its tasks and its context are not.
func (d *device) chargedUnseen(p schedulers.Process) int64 {
	if x := d.excesses[p]; x != nil {
		return x.charged
	}
	return 0
}

// forget drops what looks have shown of processes that are gone, and have no context.
func (s *state) forget(gone func(schedulers.Process) bool) {
	for i := range s.devices {
		maps.DeleteFunc(s.devices[i].excesses, func(p schedulers.Process, _ *excess) bool { return gone(p) })
	}
}
