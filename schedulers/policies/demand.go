package policies

import (
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// onDemand lets each burst start as soon as what it references is on the device, and no task defends
// what it has there: "PILOT base", the baseline that thrashes. Room is made by the tasks that do not
// run, the least recently active first, and last by what the request's own task does not reference.
// What there is to take is taken, even if it does not suffice yet.
//
// A task whose kernels follow each other closely is never seen idle. So a request that has waited for long asks tasks that run, too:
// they lose memory as soon as the kernels end that they have on the device. Without this, two jobs of one device stood still
// on an H200 until one was stopped.
//
// The paper has one device. Ours: a first task goes to the device with the least memory in use, and
// the tasks of a process go where it has its context, if they can.
type onDemand struct {
	MemoryHard // for growth
	IgnoresSMs
	Looks
	linger
	wait time.Duration
}

var _ schedulers.Patient = onDemand{}

var demand = entry{
	Info: Info{Name: "demand", Binds: BindsTask, Shares: true, Revokes: true,
		Brief:  "a burst starts at once; memory of tasks that do not run moves to the host",
		Rule:   "a burst starts at once: what it references comes onto the device, and the least recently active tasks that do not run lose memory to the host, and for one that has waited too long those that run, too; a process starts on the device with the least memory in use; a kernel that runs is never ended, so memory that it holds comes back only at its end",
		Source: pilotPaper + ", its base without policies",
		Params: []Param{{Name: paramPatience.Name, Default: paramPatience.Default, Help: "a burst that waits longer gets memory of tasks that run, at the end of their kernels"},
			omitDefault(withDefault(paramLinger, "0s")),
			withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramBursts, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		wait, err := s.duration(paramPatience.Name)
		if err != nil {
			return nil, err
		}
		linger, err := s.linger()
		return onDemand{linger: linger, wait: wait}, err
	},
}

func (onDemand) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for _, i := range byLoad(t, v) {
		if needFits(t, v.Device(i)) {
			return schedulers.Placement{Device: i}, true
		}
	}
	return schedulers.Placement{}, false
}

func (p onDemand) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	return makeRooms(waiting, v, func(all *takers, at, device int, d schedulers.DeviceView) []schedulers.Revocation {
		m := makingFor(waiting[at], d)
		if m.lacks <= 0 { // it waits for something else
			return nil
		}
		over, keeps := now >= p.ends(waiting[at]), p.keeps(waiting[at], d, now)
		all.idle(&m, at, device, d, func(t schedulers.TaskView) bool { return !over && keeps(t) })
		m.own()
		if over {
			all.running(&m, device, d)
		}
		return m.asked
	})
}

// running takes what is lacking from the tasks on a device that run, if they have so much. Otherwise others would get what they give.
func (a *takers) running(m *making, device int, d schedulers.DeviceView) {
	all := *m
	for _, t := range a.on(device, d) {
		if t.place < 0 && runs(t.TaskView) && t.Task.ID != m.request.Task.ID {
			all.takeIn(ending, t.Task.ID, schedulers.Yield, t.Movable)
		}
	}
	if all.lacks <= 0 {
		*m = all
	}
}

func (p onDemand) ends(r schedulers.Request) time.Duration { return later(r.Since, p.wait) }

func (p onDemand) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	return min(nextEnd(waiting, p.ends, now), p.keepsUntil(waiting, v, now))
}

// Patience is how long each task waits, whatever limit its job has: limits are what the other policies defend. Nothing that it ends
// is lost, so nobody is safe from it.
func (p onDemand) Patience(schedulers.Task, schedulers.TaskView) time.Duration { return p.wait }
