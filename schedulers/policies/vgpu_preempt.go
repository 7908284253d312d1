package policies

import (
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// preemptingGPUs are virtualGPUs whose idle contexts give way (dissertation, sections 3.3.3 and 3.6). While a request waits for a
// slot, each context that has been idle for long enough loses its slot. It asks for one again with its next launch, and then
// waits behind all others. Of a device without such requests nothing is asked.
//
// A context is idle while no call of it is under way and its device has nothing to do for it. The process verifies that when
// it is asked.
//
// Ours: only devices count that a request may have: a context that cannot move comes back to the device where it has been. By default the
// slot goes without the memory, which virtualGPUs then take for the request that needs it, as much of it as that takes. So a short
// wait costs nothing where the memory of all fits. And a context without a task has no slot.
type preemptingGPUs struct {
	virtualGPUs
	idle    time.Duration // after which a context loses its slot
	copies  bool          // all that it has on its device goes with the slot
	closing time.Duration // how long it may take to end its work then
}

const (
	copyAlways = "always"
	copyNeeded = "needed"
)

// By a checkpoint the driver takes all that a process has on its device, whatever runtime the process uses (docs/design/checkpoint.md). Such
// a process waits for a slot again at once: it cannot show that it has work, because its calls wait in the driver. What it does is not seen, so
// it is idle from when it got its slot.
const (
	viaSwap       = "swap"
	viaCheckpoint = "checkpoint"
	// rarely is the default of idle where seconds pass until a process is out and back.
	rarely = "10s"
	// checkpointing is how long the work of a process may take to end before a checkpoint. If it takes longer, the process is unable.
	checkpointing = 10 * time.Second
)

var paramVia = Param{Name: "via", Default: viaSwap, Values: []string{viaSwap, viaCheckpoint}, OmitDefault: true,
	Help: "how a process gives way: swap: the library moves its memory; checkpoint: the driver takes all that it has, of any program, without MPS, once it has had its slot for idle, by default " + rarely}

var vgpuPreempt = entry{
	Info: Info{Name: "vgpu-preempt", Binds: BindsTask, Shares: true, Revokes: true, Preempts: true,
		Brief:  "vgpu, and a process that is idle while others wait loses its slot",
		Rule:   "n slots on each device as under vgpu; while a process waits for a slot, each process that has been idle for long enough loses its slot, and waits behind the others once it has work again, for a slot of any device if it can move; memory goes to the host with the slot, or when somebody needs it",
		Source: "dissertation on runtime support for CPU-GPU clusters, sections 3.3.3 and 3.6",
		Params: []Param{
			withDefault(paramSlots, "2"),
			{Name: "idle", Default: "10ms", Help: "a process that has been idle for so long loses its slot if another waits for one"},
			{Name: "copy", Default: copyNeeded, Values: []string{copyAlways, copyNeeded}, Help: "always: with its slot a process loses all its memory on the device; needed: it keeps the memory until somebody needs it"},
			paramVia, paramVictims, paramBalance, paramWeights, withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		p, err := s.virtualGPUs()
		if err != nil {
			return nil, err
		}
		p.preempts = true
		idle, err := s.duration("idle")
		out := preemptingGPUs{virtualGPUs: p, idle: idle, copies: s["copy"] == copyAlways, closing: closing}
		if s.checkpoints() {
			out.closing = checkpointing
		}
		return out, err
	},
}

var _ schedulers.Preempter = preemptingGPUs{}

func (p preemptingGPUs) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	out := append(p.virtualGPUs.Revoke(waiting, v, now), p.moves(waiting, v)...)
	for i, wanted := range wantedSlots(waiting, v) {
		if !wanted {
			continue
		}
		idle := p.idleSince(waiting, v.Device(i))
		for t := range v.Device(i).TaskViews() {
			since, has := idle[t.Task.Process()]
			if !has || since > now-p.idle {
				continue
			}
			r := schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Yield, Deadline: p.closing, For: schedulers.Nobody}
			if p.copies {
				r.Bytes = t.Movable
			}
			out = append(out, r)
		}
	}
	return out
}

// wantedSlots says of each device whether a request waits that may have a slot there.
func wantedSlots(waiting []schedulers.Request, v schedulers.View) []bool {
	wanted, left := make([]bool, v.Len()), v.Len()
	for at := 0; at < len(waiting) && left > 0; at++ {
		r := &waiting[at]
		if r.Grows { // it has one
			continue
		}
		task := r.Task
		if t, can := mover(r, v); can {
			if t.Asked { // it has found one
				continue
			}
			task = t.Task
		}
		own, bound := home(r.Task, v)
		for i := range wanted {
			if !wanted[i] && (!bound || i == own) && v.Device(i).Open(task) {
				wanted[i] = true
				left--
			}
		}
	}
	return wanted
}

// idleSince says since when the contexts on d have been idle that have a slot and can be asked for it. One that waits to grow
// is not idle.
func (p preemptingGPUs) idleSince(waiting []schedulers.Request, d schedulers.DeviceView) map[schedulers.Process]time.Duration {
	idle := map[schedulers.Process]time.Duration{}
	for t := range d.TaskViews() {
		if !t.Permit {
			continue
		}
		since := max(t.Last, t.PermitSince, t.ResidentSince)
		if runs(t) || !t.CanAsk(schedulers.Yield) || grows(waiting, t.Task.ID) {
			since = schedulers.Never
		}
		idle[t.Task.Process()] = max(idle[t.Task.Process()], since)
	}
	return idle
}

// grows reports whether the task waits to grow. Such requests come first.
func grows(waiting []schedulers.Request, id schedulers.TaskID) bool {
	for _, r := range waiting {
		if !r.Grows {
			return false
		}
		if r.Task.ID == id {
			return true
		}
	}
	return false
}

func (p preemptingGPUs) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := p.virtualGPUs.NextTick(waiting, v, now)
	for i := 0; i < v.Len() && len(waiting) > 0; i++ {
		for _, since := range p.idleSince(waiting, v.Device(i)) {
			if since < schedulers.Never && since+p.idle > now {
				next = min(next, since+p.idle)
			}
		}
	}
	return next
}

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
