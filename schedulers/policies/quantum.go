package policies

import (
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// quantum gives each device to one context at a time, in turns, as nvshare does. Its turn ends for a context that waits,
// once it has lasted so long, or once the context has been idle for so long. A context without a task has no turn. Kernels that run
// go on to their end.
//
// Ours: there is a turn for each device, and what does not fit beside the memory of the next turn's context moves to the host.
type quantum struct {
	MemoryHard // for growth
	IgnoresSMs
	Looks
	turn, idle time.Duration
}

var quantumEntry = entry{
	Info: Info{Name: "quantum", Binds: BindsTask, Shares: true, Revokes: true, Preempts: true, KeepsTurn: true,
		Brief:  "a device is one process's at a time, in turns",
		Rule:   "a device is one process's at a time, in turns of a fixed length, which end earlier if the process is idle; memory of the others moves to the host as far as it must; a kernel that runs is never ended, so the others wait for one without end",
		Source: "nvshare (Alexopoulos, Mitropoulos): exclusive use in turns of 30 s, released early",
		Params: []Param{
			{Name: "tq", Default: "30s", Help: "the length of a turn, after which the process gives way to one that waits"},
			{Name: "idle", Default: "5s", Help: "a process that has been idle for so long gives way to one that waits"},
			withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		turn, err := s.duration("tq")
		if err != nil {
			return nil, err
		}
		idle, err := s.duration("idle")
		return quantum{turn: turn, idle: idle}, err
	},
}

var _ schedulers.Patient = quantum{}

// Patience is how long a turn lasts.
func (p quantum) Patience(schedulers.Task, schedulers.TaskView) time.Duration { return p.turn }

func (quantum) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for _, i := range byLoad(t, v) {
		if d := v.Device(i); needFits(t, d) && isFree(t, d) {
			return schedulers.Placement{Device: i}, true
		}
	}
	return schedulers.Placement{}, false
}

// isFree reports whether only t's process has a permit on d, or nobody has one.
func isFree(t schedulers.Task, d schedulers.DeviceView) bool {
	_, own := d.Context(t.Process())
	return d.Permits() == 0 || own && d.Permits() == 1
}

func (p quantum) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	return makeRooms(waiting, v, func(all *takers, at, device int, d schedulers.DeviceView) []schedulers.Revocation {
		r := waiting[at]
		m, free := makingFor(r, d), r.Grows || isFree(r.Task, d)
		if viewOf(r.Task, d).Permit { // it has the turn: all others give way
			at = -1
		}
		for _, t := range all.on(device, d) {
			if !t.Permit && t.Task.ID != r.Task.ID && givesWay(t.TaskView, t.place, at) {
				m.take(t.Task.ID, schedulers.Yield, t.Movable)
			}
		}
		for t := range d.TaskViews() {
			if t.Permit && t.Task.Process() != r.Task.Process() && (!free || m.lacks > 0) && p.ends(t) <= now && t.CanAsk(schedulers.Yield) {
				m.end(t, schedulers.Yield)
				free = true
			}
		}
		m.own()
		if !free || m.lacks > 0 {
			return nil
		}
		return m.asked
	})
}

// ends is when the turn of t's context ends, as far as t says.
func (p quantum) ends(t schedulers.TaskView) time.Duration {
	ends := later(t.PermitSince, p.turn)
	if !runs(t) {
		ends = min(ends, max(t.Last, t.PermitSince)+p.idle)
	}
	return ends
}

func (p quantum) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := schedulers.Never
	for i := 0; i < v.Len() && len(waiting) > 0; i++ {
		for t := range v.Device(i).TaskViews() {
			if at := p.ends(t); t.Permit && at > now {
				next = min(next, at)
			}
		}
	}
	return next
}
