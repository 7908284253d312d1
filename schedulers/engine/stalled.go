package engine

import (
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// Head-of-line blocking by waiting jobs. A request is stalled if it would not fit
// even after the end of every job that does not wait. Jobs that wait, its own job among
// them, hold what the request needs. One of these jobs may have a thread that releases
// something, or none may (deadlock.go).
//
// A stalled request therefore waits and is served once it fits, but no other request waits
// for it:
//   - it does not count as passed;
//   - it does not hold back other requests in the queue;
//   - the device on which it would grow stays open.
//
// Every other request is served in its turn, because what it waits for comes back by
// itself.
//
// If the waiting jobs have only contexts, and tasks that wait to grow, no request is
// stalled, because the engine resolves these deadlocks.
//
// What a task waits for whose process does not answer its ticket in time (Config.Grace) is stalled too: it
// gets nothing before it answers.
//
// Under a Preempter only what cannot be taken back counts: what waiting jobs hold can go to the
// host, except for fixed memory and contexts. A permit counts until it is given up.

// touch notes a change of what a job holds or waits for, if the change may affect which
// requests are stalled: the job waits now, or waited when they were found.
func (e *Engine) touch(job schedulers.JobID) {
	if e.config.Exhaustive {
		e.stale = true
	}
	p := e.state.jobs[job]
	if e.stale || p == nil || e.withheld == nil && len(p.tasks) == 0 {
		return
	}
	waits := e.waits(job)
	e.stale = waits && len(p.tasks) > 0 || e.withheld != nil && (waits || e.withholds[job])
}

// waits reports whether the job waits, to grow or in the queue.
func (e *Engine) waits(job schedulers.JobID) bool {
	return len(e.queue.ofJob(job)) > 0 || len(e.growing)+len(e.parkedGrowth) > 0 &&
		slices.ContainsFunc(e.state.tasksOf(job), func(id schedulers.TaskID) bool { return e.held[id].growth != nil })
}

// findStalled marks the requests that are stalled.
func (e *Engine) findStalled() {
	if !e.stale {
		return
	}
	e.stale = false
	before := e.withheld
	if e.withheld, e.withholds = e.heldByWaiting(); e.withheld == nil && before == nil {
		return
	}
	if e.withheld != nil {
		e.stalls = e.measuresOf(e.withheld)
	}
	for w := range e.queue.all() {
		e.stall(w)
	}
	for _, g := range e.growing {
		e.stallGrowth(g)
	}
}

// stall finds out whether w is stalled: it does not fit beside what waiting jobs hold.
func (e *Engine) stall(w *waiting) {
	e.queue.stall(w, w.resumes != nil && w.resumes.isLate() || e.withheld != nil && !e.fits(w.task, e.withheld, e.stalls))
}

func (e *Engine) stallGrowth(g *growth) {
	index := g.holding.at.Device
	stalled := g.holding.isLate() || e.withheld != nil && !e.policy.CanGrow(g.bytes, &e.withheld.devices[index])
	if stalled && !g.stalled {
		e.state.claim(index, -1)
	} else if !stalled && g.stalled {
		e.state.claim(index, 1)
	}
	g.stalled = stalled
}

// stallTask finds out whether what h waits for is stalled, when its ticket is late or answered.
func (e *Engine) stallTask(h *holding) {
	if h.resume != nil && !h.resume.parked {
		e.stall(h.resume)
	}
	if h.growth != nil && !h.growth.parked {
		e.stallGrowth(h.growth)
	}
}

// heldByWaiting returns the node with only what waiting jobs hold, and which jobs these are. It
// returns nil if each task of the waiting jobs waits to grow. The order in which tasks are put on the
// node does not affect which other tasks fit.
func (e *Engine) heldByWaiting() (*state, map[schedulers.JobID]bool) {
	waits, holds := e.waiters, false
	clear(waits)
	for job, p := range e.state.jobs {
		if e.waits(job) {
			waits[job] = true
			holds = holds || slices.ContainsFunc(p.tasks, func(id schedulers.TaskID) bool { return e.held[id].growth == nil })
		}
	}
	if !holds {
		return nil, nil
	}
	node := e.node
	node.clear()
	for i := range node.devices {
		node.devices[i].barred = e.state.devices[i].barred
	}
	for job := range waits {
		for _, id := range e.state.tasksOf(job) {
			h := e.held[id]
			node.put(h.task, e.kept(h), h.at)
		}
		for _, c := range e.state.contextsOf(job) {
			now, d := &e.state.devices[c.device], &node.devices[c.device]
			node.enter(c.device, c.process)
			node.charge(c.device, now.chargedUnseen(c.process))
			d.isolated = now.isolated // by its job, which is alone there
			if its, has := now.permits[c.process]; has {
				d.permit(c.process, its)
			}
		}
	}
	return node, waits
}
