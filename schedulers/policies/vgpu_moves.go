package policies

import (
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// A context that waits for a slot goes to any device (dissertation, section 3.6.2): while its own has none, it moves to one that has, with
// what it has on its device. There it waits no more, unless memory has to be made free. Ours: if what it has does not fit there, that goes to the
// host first, and a context of several tasks stays.

// moves says which contexts move to a free slot.
func (p preemptingGPUs) moves(waiting []schedulers.Request, v schedulers.View) (out []schedulers.Revocation) {
	free := p.freeSlots(v)
	for i := 0; i < len(waiting) && free != nil; i++ {
		r := &waiting[i]
		t, can := mover(r, v)
		if !can || t.Asked || r.Asked || free[*r.Task.OnDevice] > 0 {
			continue
		}
		to, brings := p.target(t, r, v, free)
		switch ask := (schedulers.Revocation{Task: t.Task.ID, Deadline: closing, For: schedulers.Nobody}); {
		case to < 0:
		case brings:
			ask.Action, ask.Device = schedulers.Move, to
			out = append(out, ask)
			free[to]--
		case t.CanAsk(schedulers.Yield) && t.Movable > 0:
			ask.Action, ask.Bytes = schedulers.Yield, t.Movable
			out = append(out, ask)
		}
	}
	return out
}

// freeSlots returns how many slots of each device are free; nil: all are taken.
func (p virtualGPUs) freeSlots(v schedulers.View) (free []int) {
	for i := range v.Len() {
		if n := p.slots - v.Device(i).Permits(); n > 0 {
			if free == nil {
				free = make([]int, v.Len())
			}
			free[i] = n
		}
	}
	return free
}

// mover returns the task that waits to resume with r, if its process has no other there and can move.
func mover(r *schedulers.Request, v schedulers.View) (of schedulers.TaskView, can bool) {
	if r.Grows || r.Task.OnDevice == nil || !r.Task.Can.Has(schedulers.Move) {
		return of, false
	}
	for t := range v.Device(*r.Task.OnDevice).TaskViews() {
		switch {
		case t.Task.ID == r.Task.ID:
			of, can = t, t.Task.OnDevice == nil
		case t.Task.Process() == r.Task.Process():
			return of, false
		}
	}
	return of, can
}

// target returns the device with a free slot to which t goes, which waits with r, or -1. It is the first, in the order of seats, where
// all of t fits, else the first where others without a slot can make room. brings: what t has on its device fits there now.
func (p preemptingGPUs) target(t schedulers.TaskView, r *schedulers.Request, v schedulers.View, free []int) (to int, brings bool) {
	to = -1
	for _, i := range inTurn(v, func(i int) bool { return free[i] > 0 && v.Device(i).Open(t.Task) }) {
		d := v.Device(i)
		room := d.FreeBytes() - d.ContextBytes(t.Task)
		switch all := t.Resident + r.Bytes; {
		case all <= room:
			return i, true
		case to < 0 && all <= room+idleBytes(d):
			to, brings = i, t.Resident <= room
		}
	}
	return to, brings
}

// idleBytes is what contexts without a slot can give on d.
func idleBytes(d schedulers.DeviceView) (bytes int64) {
	for t := range d.TaskViews() {
		if !t.Permit && t.CanAsk(schedulers.Yield) {
			bytes += t.Movable
		}
	}
	return bytes
}

// inTurn returns the devices that ok accepts in the order in which slots are taken: in cyclic order after the latest grant first
// the devices where no context has a slot, then the others.
func inTurn(v schedulers.View, ok func(device int) bool) []int {
	out, unused := make([]int, 0, v.Len()), 0
	for k := range v.Len() {
		i := (v.Latest() + 1 + k) % v.Len()
		switch {
		case !ok(i):
		case v.Device(i).Permits() == 0:
			out = slices.Insert(out, unused, i)
			unused++
		default:
			out = append(out, i)
		}
	}
	return out
}
