package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// NoLimit is the limit of a job that may use all devices.
const NoLimit = -1

// reclaiming is how long a process may take to finish what it submitted when the engine itself asks it to give back.
const reclaiming = time.Second

// Limit says how many devices a job may use from now on, until it exits: 0 withholds everything, and NoLimit lifts the
// limit. The job uses a device if it has a task there, or under a Preempter, a context with a permit. If it uses more
// devices than it may, those that it came to last are too many. Under a Preempter its tasks there are asked to yield all
// that they have; under others they keep it. Nothing more is granted there: no device, no growth, no permit. Requests
// that this leaves no device are parked.
func (e *Engine) Limit(job schedulers.JobID, devices int, now time.Duration) []schedulers.Decision {
	e.at(now)
	if devices < 0 {
		e.unlimit(job)
	} else {
		if e.limits == nil {
			e.limits = map[schedulers.JobID]int{}
		}
		e.limits[job] = devices
		e.parkJob(job)
	}
	return e.pump()
}

func (e *Engine) unlimit(job schedulers.JobID) {
	if _, limited := e.limits[job]; !limited {
		return
	}
	delete(e.limits, job)
	for i := range e.state.devices {
		e.bar(i, job, false)
	}
	e.parkJob(job)
}

// enforce brings what is withheld from jobs with a limit up to date: they may use other devices than before.
func (e *Engine) enforce() {
	if len(e.limits) == 0 {
		return
	}
	for _, job := range slices.Sorted(maps.Keys(e.limits)) {
		most, used, changed := e.limits[job], e.uses(job), false
		for i := range e.state.devices {
			at := slices.Index(used, i)
			bars := len(used) >= most && (at < 0 || at >= most)
			changed = e.bar(i, job, bars) || changed
		}
		if changed {
			e.parkJob(job)
		}
	}
}

// uses returns the devices that a job uses, in the order in which it came to them.
func (e *Engine) uses(job schedulers.JobID) []int {
	var used []int
	for _, c := range e.state.contextsOf(job) {
		d := &e.state.devices[c.device]
		uses := d.jobs[job] > 0
		if e.preempter != nil {
			uses = d.permitted(c.process)
		}
		if uses && !slices.Contains(used, c.device) {
			used = append(used, c.device)
		}
	}
	return used
}

// bar says whether a job may be granted nothing on a device, and reports whether that is new.
func (e *Engine) bar(device int, job schedulers.JobID, bars bool) bool {
	d := &e.state.devices[device]
	switch {
	case d.barred[job] == bars:
		return false
	case !bars:
		delete(d.barred, job)
	case d.barred == nil:
		d.barred = map[schedulers.JobID]bool{job: true}
	default:
		d.barred[job] = true
	}
	e.state.change(device)
	e.stale = true
	return true
}

// Parking: a request for which no device is left, because of its job's limit or because devices are closed or sealed, is
// parked. It is not in the queue: it holds back no other request, does not age, and is part of no deadlock, because it may
// go once the limit is lifted or the device is open again. Then it has the place in the queue that it would have had. What its job holds
// counts as held by a waiting job (stalled.go). Its wait limit goes on.

// park parks w, or puts it back.
func (e *Engine) park(w *waiting) {
	parked := !e.isLeftADevice(w)
	if parked == w.parked {
		return
	}
	e.queue.park(w, parked)
	if !parked {
		e.stall(w)
	}
	e.touch(w.task.Job)
}

// parkJob does the same for all that a job waits for.
func (e *Engine) parkJob(job schedulers.JobID) {
	for _, w := range slices.Clone(e.queue.ofJob(job)) {
		e.park(w)
	}
	for _, id := range e.state.tasksOf(job) {
		if g := e.held[id].growth; g != nil {
			e.parkGrowth(g)
		}
	}
}

func (e *Engine) parkGrowth(g *growth) {
	h := g.holding
	parked := e.state.devices[h.at.Device].barred[h.task.Job]
	if parked == g.parked {
		return
	}
	e.uncount(g)
	g.parked = parked
	e.count(g)
	if !parked {
		e.stallGrowth(g)
	}
	e.touch(h.task.Job)
}

// isLeftADevice reports whether the devices that w's job may use, and that are not closed, could ever serve it.
func (e *Engine) isLeftADevice(w *waiting) bool {
	if len(e.limits) == 0 && e.shut == 0 && !e.sealed {
		return true
	}
	if e.limitsBelow(w.task) {
		return false
	}
	wanted := max(1, w.task.Terms.OrNone().Devices)
	for i := range e.state.devices {
		d := &e.state.devices[i]
		closed := d.phase == gone || d.shuts(w.task.Process()) || d.phase == closing && (!d.belongs(w.task) || w.resumes != nil && e.mustLeave(w.resumes))
		if !closed && !d.barred[w.task.Job] && e.couldHave(w.task, i) {
			if wanted--; wanted == 0 {
				return true
			}
		}
	}
	return false
}

// limitsBelow reports whether t asks for more devices at once than its job may use.
func (e *Engine) limitsBelow(t schedulers.Task) bool {
	most, limited := e.limits[t.Job]
	return limited && t.Terms.OrNone().Devices > most
}

// isParked reports whether something that the job waits for is parked.
func (e *Engine) isParked(job schedulers.JobID) bool {
	if len(e.queue.parked)+len(e.parkedGrowth) == 0 {
		return false
	}
	return slices.ContainsFunc(e.queue.ofJob(job), func(w *waiting) bool { return w.parked }) ||
		slices.ContainsFunc(e.parkedGrowth, func(g *growth) bool { return g.holding.task.Job == job })
}

// reclaim asks tasks to give back what their job may not use, and to leave devices that are being closed.
func (e *Engine) reclaim() []schedulers.Decision {
	if !e.reclaims() {
		return nil
	}
	var decisions []schedulers.Decision
	for h := range e.listed() {
		d := &e.state.devices[h.at.Device]
		barred, v := d.barred[h.task.Job], d.view(h)
		if v.Asked || !barred && !e.mustLeave(h) {
			continue
		}
		r := schedulers.Revocation{Task: h.task.ID, Action: schedulers.Yield, Bytes: v.Movable, Deadline: reclaiming, For: schedulers.Nobody}
		if to, ok := e.elsewhere(h); ok && !barred {
			r.Action, r.Device = schedulers.Move, to
		} else if !v.Can.Has(schedulers.Yield) || !v.Permit && v.Movable == 0 {
			continue
		}
		decisions = append(decisions, e.issue(h, r))
	}
	return decisions
}

func (e *Engine) reclaims() bool { return len(e.limits) > 0 || e.shut > 0 }

// elsewhere returns another device where the policy would place h.
func (e *Engine) elsewhere(h *holding) (int, bool) {
	t, need := h.task, h.bytes
	if h.resume != nil {
		need += *h.resume.task.Need
	}
	t.Need = &need
	p, ok := e.policy.Place(t, e.state)
	return p.Device, ok && e.canMove(h, p.Device)
}
