package schedulers

import "slices"

// A request is stalled where the end of every job that does not wait would make no room
// for it: what is in its way belongs to jobs that wait, its own among them. One of these
// may have a thread that gives something back, or none (stuck). So a stalled request
// waits like any other and is served once it fits, but nobody waits for it: it is not
// counted as passed, holds back nobody in the queue, and the device on which it would
// grow stays open. Every other request is served in its turn, because what it waits for
// comes back by itself.
//
// Where all that the waiting jobs have is contexts and tasks that wait to grow, no request
// is stalled: the engine itself decides about these (stuck, hopeless).

// touch notes that what a job with a context has or waits for is not as it was, where
// that may change which requests are stalled.
func (e *Engine) touch(job JobID) {
	e.stale = e.stale || e.withheld != nil && e.state.hasContext(job) || e.waits(job) && e.state.hasTask(job)
}

// waits reports whether the job waits, to grow or in the queue.
func (e *Engine) waits(job JobID) bool {
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
	if e.withheld = e.heldInWaiting(); e.withheld == nil && before == nil {
		return
	}
	for _, w := range e.queue.tasks {
		w.stalled = e.inVain(w.task)
	}
	for i := range e.state.devices {
		e.state.devices[i].claimed = 0
	}
	for _, g := range e.growing {
		device := g.holding.at.Device
		g.stalled = e.withheld != nil && !e.policy.CanGrow(g.bytes, e.withheld.Device(device))
		if !g.stalled {
			e.state.Device(device).claimed++
		}
	}
}

// inVain reports whether t has no room beside what waiting jobs have.
func (e *Engine) inVain(t Task) bool {
	if e.withheld == nil {
		return false
	}
	_, fits := e.policy.Place(t, e.withheld)
	return !fits
}

// heldInWaiting is the node with what waiting jobs have there, and nothing else; nil where
// every task of theirs waits to grow. Whether another task fits there does
// not depend on the order in which it was put together.
func (e *Engine) heldInWaiting() *State {
	waits, node, holds := e.waitingJobs(), (*State)(nil), false
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
