package engine

import (
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// Head-of-line blocking by waiting jobs. A request is stalled where the end of every job
// that does not wait would make no room for it. What is in its way belongs to jobs that
// wait, its own job among them. One of these jobs may have a thread that gives something
// back, or none may (deadlock.go).
//
// So a stalled request waits like any other and is served once it fits, but nobody waits
// for it:
//   - it does not count as passed;
//   - it holds back nobody in the queue;
//   - the device on which it would grow stays open.
//
// Every other request is served in its turn, because what it waits for comes back by
// itself.
//
// Where the waiting jobs have only contexts, and tasks that wait to grow, no request is
// stalled: these are the deadlocks that the engine resolves.

// touch notes that what a job with a context has or waits for has changed, where that may
// change which requests are stalled.
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

// isStalled reports whether t has no room beside what waiting jobs have.
func (e *Engine) isStalled(t schedulers.Task) bool {
	if e.withheld == nil {
		return false
	}
	_, fits := e.policy.Place(t, e.withheld)
	return !fits
}

// heldByWaiting is the node with what waiting jobs have there, and nothing else. It is nil
// where each task of the waiting jobs waits to grow. Whether another task fits there does
// not depend on the order in which the node was put together.
func (e *Engine) heldByWaiting() *state {
	waits, node, holds := e.waitingJobs(), (*state)(nil), false
	for _, h := range e.held {
		if !waits[h.task.Job] {
			continue
		}
		if node == nil {
			node = newState(e.devices)
		}
		node.put(h.task, h.bytes, h.at)
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
			}
		}
	}
	return node
}
