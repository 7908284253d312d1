package engine

import (
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// A plan says which job each device goes to next (schedulers.Plan). The engine keeps its rules beside
// it:
//
//   - a task that has been passed as often as the age limit allows goes before the plan;
//   - a stalled request does not hold back others, and goes once it fits;
//   - growth and deadlocks are resolved as always;
//   - a request that does not wait is granted if it fits;
//   - a request for several devices is in no plan: it is granted once it fits, and held back by nobody.
//
// A job that the plan lacks waits for the next plan, which its request brings about.

// Follow has the engine follow a plan, in place of the one before.
func (e *Engine) Follow(p schedulers.Plan, now time.Duration) []schedulers.Decision {
	e.at(now)
	e.plan = p.Clone()
	return e.pump()
}

// Plan is what is left of the plan that is followed. It is a copy, because a search may read it while the engine
// continues.
func (e *Engine) Plan() schedulers.Plan { return e.plan.Clone() }

func (e *Engine) planned() bool { return e.plan.Devices != nil }

// nextPlanned returns the task that goes now under the plan, and its placement.
func (e *Engine) nextPlanned() (*waiting, schedulers.Placement, bool) {
	for w := range e.queue.all() {
		if !w.aged && e.queue.stalled == 0 && e.queue.several == 0 {
			break // aged tasks come first
		}
		if !w.aged && !w.stalled && !w.task.Several() {
			continue
		} else if p, ok := e.place(w); ok {
			return w, p, true
		} else if w.aged && !w.stalled {
			return nil, schedulers.Placement{}, false
		}
	}
	for d := range e.plan.Devices {
		if w, p, ok := e.headOf(d); ok {
			return w, p, true
		}
	}
	return nil, schedulers.Placement{}, false
}

// atOnce places a request that does not wait where it fits, unless an aged task waits for room.
func (e *Engine) atOnce(w *waiting) (schedulers.Placement, bool) {
	for old := range e.queue.aged() {
		if !old.stalled {
			return schedulers.Placement{}, false
		}
	}
	return e.place(w)
}

// headOf returns the waiting task of the first job of the plan for a device, if the task fits there. Jobs that are not
// waited for are passed.
func (e *Engine) headOf(d int) (*waiting, schedulers.Placement, bool) {
	for _, next := range e.plan.Devices[d] {
		w := e.waitingOf(next.Job)
		if w == nil && next.Until <= e.now || w != nil && (w.stalled || w.task.Several() || !e.couldHave(w.task, d) || !e.state.devices[d].admits(w.task)) {
			continue
		}
		if w == nil {
			break
		}
		t := w.task
		t.OnDevice = &d
		p, ok := e.policy.Place(t, e.state)
		return w, p, ok && e.canGrowBeside(t, d)
	}
	return nil, schedulers.Placement{}, false
}

// canGrowBeside reports whether the task's job and those with tasks on a device have the room there for all that they are
// expected to have. A job alone takes what there is.
func (e *Engine) canGrowBeside(t schedulers.Task, d int) bool {
	device := &e.state.devices[d]
	alone, growth := true, max(0, e.plan.Most[t.Job]-t.Bytes)
	for job, tasks := range device.jobs {
		if job == t.Job || tasks == 0 {
			continue
		}
		alone = false
		if most := e.plan.Most[job]; most > 0 {
			growth += max(0, most-e.heldBy(job, d))
		}
	}
	return alone || growth == 0 || growth <= device.FreeBytes()-device.ContextBytes(t)-t.Needs()
}

// heldBy is what the tasks of a job hold on a device, in bytes.
func (e *Engine) heldBy(job schedulers.JobID, d int) (bytes int64) {
	for _, id := range e.state.tasksOf(job) {
		if h := e.held[id]; h.at.Device == d {
			bytes += h.bytes
		}
	}
	return bytes
}

// waitingOf is the first task of a job that waits, if there is one in the queue, or nil.
func (e *Engine) waitingOf(job schedulers.JobID) *waiting {
	all := e.queue.ofJob(job)
	for _, w := range all {
		if !w.parked {
			return w
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return nil
}

// couldHave reports whether the task can ever have the device.
func (e *Engine) couldHave(t schedulers.Task, d int) bool {
	if t.OnDevice != nil && *t.OnDevice != d {
		return false
	}
	t.OnDevice = &d
	_, ok := e.policy.Place(t, e.empty)
	return ok
}

// leavePlan takes a job out of the plan: it has been granted, or has ended.
func (e *Engine) leavePlan(job schedulers.JobID) {
	for d, jobs := range e.plan.Devices {
		e.plan.Devices[d] = slices.DeleteFunc(jobs, func(p schedulers.Planned) bool { return p.Job == job })
	}
}

// nextPassing is when a device stops to wait for a job that has not asked.
func (e *Engine) nextPassing() time.Duration {
	next := schedulers.Never
	for d := range e.plan.Devices {
		for _, p := range e.plan.Devices[d] {
			if p.Until > e.now && e.waitingOf(p.Job) == nil {
				next = min(next, p.Until)
			}
		}
	}
	return next
}
