package policies

import (
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// onDemand lets each burst start as soon as what it references is on the device, and no task defends
// what it has there: "PILOT base", the baseline that thrashes. Room is made by the tasks that do not
// run, the least recently active first, and last by what the request's own task does not reference.
// What there is to take is taken, even if it does not suffice yet. So a request that has aged waits until each
// task on its device has been idle once.
//
// The paper has one device. Ours: a first task goes to the device with the least memory in use, and
// the tasks of a process go where it has its context, if they can.
type onDemand struct {
	MemoryHard // for growth
	IgnoresSMs
	Looks
}

var demand = entry{
	Info: Info{Name: "demand", Binds: BindsTask, Shares: true, Revokes: true,
		Brief:  "a burst starts at once; memory of tasks that do not run moves to the host",
		Rule:   "a burst starts at once: what it references comes onto the device, and the least recently active tasks that do not run lose memory to the host; a process starts on the device with the least memory in use; a kernel that runs is never ended, so memory that it holds comes back only at its end",
		Source: pilotPaper + ", its base without policies",
		Params: []Param{withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramBursts, paramIsolate}},
	policy: func(settings) (schedulers.Policy, error) { return onDemand{}, nil },
}

var _ schedulers.Preempter = onDemand{}

func (onDemand) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for _, i := range byLoad(t, v) {
		if needFits(t, v.Device(i)) {
			return schedulers.Placement{Device: i}, true
		}
	}
	return schedulers.Placement{}, false
}

func (onDemand) Revoke(waiting []schedulers.Request, v schedulers.View, _ time.Duration) []schedulers.Revocation {
	return makeRooms(waiting, v, (*takers).evictIdle)
}

// evictIdle asks the tasks on a device that do not run for what the request at a place lacks there.
func (a *takers) evictIdle(at, device int, d schedulers.DeviceView) []schedulers.Revocation {
	m := makingFor(a.waiting[at], d)
	if m.lacks <= 0 { // it waits for something else
		return nil
	}
	a.idle(&m, at, device, d)
	m.own()
	return m.asked
}
