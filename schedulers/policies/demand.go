package policies

import (
	"cmp"
	"slices"
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
		Rule:   "a burst starts at once: what it references comes onto the device, and the least recently active tasks that do not run lose memory to the host; a process starts on the device with the least memory in use",
		Source: "PILOT: a Runtime System to Manage Multi-tenant GPU Unified Memory Footprint, its base without policies",
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

// byLoad returns the devices that t may have, the one with the least memory in use first.
func byLoad(t schedulers.Task, v schedulers.View) []int {
	own, bound := home(t, v)
	out := make([]int, 0, v.Len())
	for i := range v.Len() {
		if v.Device(i).Open(t) && (!bound || i == own) {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(v.Device(a).UsedBytes(), v.Device(b).UsedBytes()) })
	return out
}

func (onDemand) Revoke(waiting []schedulers.Request, v schedulers.View, _ time.Duration) []schedulers.Revocation {
	var out []schedulers.Revocation
	all := &takers{queue: queue{waiting: waiting}, of: make([][]taker, v.Len())}
	for at, r := range waiting {
		if r.Asked {
			continue
		}
		devices := byLoad(r.Task, v)
		if r.Grows {
			devices = []int{*r.Task.OnDevice}
		}
		out = append(out, makeRoom(r, devices, v, func(i int, d schedulers.DeviceView) []schedulers.Revocation { return all.evictIdle(at, i, d) })...)
	}
	return out
}

// taker is a task that can be asked for memory.
type taker struct {
	schedulers.TaskView
	place int // of its own request, or -1
}

// takers are such tasks of each device, the least recently active first. The tasks of a device are gathered once for all
// requests.
type takers struct {
	queue
	of [][]taker
}

func (a *takers) on(device int, d schedulers.DeviceView) []taker {
	if a.of[device] == nil {
		a.of[device] = []taker{}
		for t := range d.TaskViews() {
			if t.Movable > 0 && t.CanAsk(schedulers.Yield) {
				a.of[device] = append(a.of[device], taker{t, a.position(t)})
			}
		}
		slices.SortStableFunc(a.of[device], func(x, y taker) int { return cmp.Compare(x.Last, y.Last) })
	}
	return a.of[device]
}

// evictIdle asks the tasks on a device that do not run for what the request at a place lacks there.
func (a *takers) evictIdle(at, device int, d schedulers.DeviceView) []schedulers.Revocation {
	r := a.waiting[at]
	lacks := missing(r, d)
	if lacks <= 0 { // it waits for something else
		return nil
	}
	var out []schedulers.Revocation
	ask := func(task schedulers.TaskID, a schedulers.Action, bytes int64) {
		if bytes = min(bytes, lacks); bytes > 0 {
			lacks -= bytes
			out = append(out, schedulers.Revocation{Task: task, Action: a, Bytes: bytes, Deadline: closing, For: r.Task.ID})
		}
	}
	takers := a.on(device, d)
	for i := 0; i < len(takers) && lacks > 0; i++ {
		if t := &takers[i]; t.Task.ID != r.Task.ID && givesWay(t.TaskView, t.place, at) {
			ask(t.Task.ID, schedulers.Yield, t.Movable)
		}
	}
	ask(r.Task.ID, schedulers.Evict, r.Own)
	return out
}
