package policies

import (
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
	idle   time.Duration // after which a context loses its slot
	copies bool          // all that it has on its device goes with the slot
}

const (
	copyAlways = "always"
	copyNeeded = "needed"
)

var vgpuPreempt = entry{
	Info: Info{Name: "vgpu-preempt", Binds: BindsTask, Shares: true, Revokes: true, Preempts: true,
		Brief:  "vgpu, and a process that is idle while others wait loses its slot",
		Rule:   "n slots on each device as under vgpu; while a process waits for a slot, each process that has been idle for long enough loses its slot, and waits behind the others once it has work again, for a slot of any device if it can move; memory goes to the host with the slot, or when somebody needs it",
		Source: "dissertation on runtime support for CPU-GPU clusters, sections 3.3.3 and 3.6",
		Params: []Param{
			withDefault(paramSlots, "2"),
			{Name: "idle", Default: "10ms", Help: "a process that has been idle for so long loses its slot if another waits for one"},
			{Name: "copy", Default: copyNeeded, Values: []string{copyAlways, copyNeeded}, Help: "always: with its slot a process loses all its memory on the device; needed: it keeps the memory until somebody needs it"},
			paramVictims, paramBalance, paramWeights, withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		p, err := s.virtualGPUs()
		if err != nil {
			return nil, err
		}
		p.preempts = true
		idle, err := s.duration("idle")
		return preemptingGPUs{virtualGPUs: p, idle: idle, copies: s["copy"] == copyAlways}, err
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
			r := schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Yield, Deadline: closing, For: schedulers.Nobody}
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
