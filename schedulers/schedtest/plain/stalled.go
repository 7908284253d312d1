package plain

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
// Under a Preempter only what cannot be taken back counts: what waiting jobs hold can go to the
// host, except for fixed memory and contexts. A permit counts until it is given up.

// touch notes a change of what a job holds or waits for, if the change may affect which
// requests are stalled.
func (e *Engine) touch(job schedulers.JobID) {
	e.stale = e.stale || e.withheld != nil && e.state.hasContext(job) || e.waits(job) && e.state.hasTask(job)
}

// waits reports whether the job waits, to grow or in the queue.
func (e *Engine) waits(job schedulers.JobID) bool {
	return slices.ContainsFunc(e.queue.tasks, func(w *waiting) bool { return w.task.Job == job }) ||
		slices.ContainsFunc(e.growing, func(g *growth) bool { return g.holding.task.Job == job })
}

// findStalled marks the requests that are stalled.
func (e *Engine) findStalled() {
	if !e.stale {
		return
	}
	e.stale = false
	before := e.withheld
	if e.withheld = e.heldByWaiting(); e.withheld == nil && before == nil {
		return
	}
	for _, w := range e.queue.tasks {
		w.stalled = e.isStalled(w.task)
	}
	for i := range e.state.devices {
		e.state.devices[i].claimed = 0
	}
	for _, g := range e.growing {
		index := g.holding.at.Device
		g.stalled = e.withheld != nil && !e.policy.CanGrow(g.bytes, &e.withheld.devices[index])
		if !g.stalled {
			e.state.devices[index].claimed++
		}
	}
}

// isStalled reports whether t does not fit beside what waiting jobs hold.
func (e *Engine) isStalled(t schedulers.Task) bool {
	if e.withheld == nil {
		return false
	}
	_, fits := e.policy.Place(t, e.withheld)
	return !fits
}

// heldByWaiting returns the node with only what waiting jobs hold. It is nil if each task of
// the waiting jobs waits to grow. The order in which tasks are put on the node does not
// affect which other tasks fit.
func (e *Engine) heldByWaiting() *state {
	waits, node, holds := e.waitingJobs(), (*state)(nil), false
	for _, h := range e.held {
		if !waits[h.task.Job] {
			continue
		}
		if node == nil {
			node = newState(e.devices)
		}
		node.put(h.task, e.kept(h), h.at)
		holds = holds || !e.isGrowing(h)
	}
	if !holds {
		return nil
	}
	for i := range e.state.devices {
		now, d := &e.state.devices[i], &node.devices[i]
		for p := range now.contexts {
			if waits[p.Job] {
				d.enter(p)
				d.isolated = now.isolated // by its job, which is alone there
				d.permit(p, now.permits[p])
			}
		}
	}
	return node
}
