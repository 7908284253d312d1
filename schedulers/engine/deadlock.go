package engine

import (
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// Deadlock: requests that wait for each other for ever. The engine looks for two kinds.
//
//   - On one device: each task there waits to grow, and each job with a context there
//     waits only for that device (deviceDeadlock). A job starts again, or the latest such growth is refused.
//   - On the node: each task waits to grow, and each job with a context waits, to grow
//     or for its next task (nodeDeadlock). A program whose next task needs the memory of
//     another program's context brings this about.
//
// Memory of a device comes back when one of its tasks ends, or when a job with a context
// there exits. In both kinds of deadlock neither can happen by itself.
//
// A job that holds one task and waits for another may have a thread or a process that
// releases the first. The engine cannot know. Such jobs may wait for each other until the
// wait limit or the job's timeout, and other requests need not wait for them
// (findStalled). If one process of a job waits and another process has only a context,
// the second may be about to exit, or may wait for the first for ever. Its job counts as
// waiting.
//
// A task whose process does not answer its ticket in time (Config.Grace) waits like others, but nothing of it is refused:
// that would not make it go on.

// nodeDeadlock reports whether nothing on the node will ever be given back by itself.
func (e *Engine) nodeDeadlock() bool {
	if e.preempter == nil && len(e.growing) < len(e.held) {
		return false
	}
	some := false
	for i := range e.state.devices {
		d := &e.state.devices[i]
		if !e.allGrow(d) {
			return false
		}
		some = some || len(d.jobs) > 0
	}
	if !some {
		return false
	}
	for i := range e.state.devices {
		if !e.allWait(&e.state.devices[i], func(job schedulers.JobID) bool { return e.waits(job) && !e.isParked(job) }) {
			return false
		}
	}
	return true
}

// resolveNodeDeadlock grants the first waiting task that fits, whatever the queue's order.
// The other tasks do not count as passed, because none of them could have gone. If no
// task fits, a job that waits to grow starts again (restart.go), or the latest growth is refused, so that its task continues. If
// nothing waits to grow, a job with a context starts again, or the latest request of such a job is refused, so that a job
// exits. It reports whether anything can be done.
func (e *Engine) resolveNodeDeadlock() (schedulers.Decision, bool) {
	for w := e.queue.candidate(nil); w != nil; w = e.queue.candidate(w) {
		if p, ok := e.place(w); ok {
			return e.grant(e.queue.take(w), p), true
		}
	}
	if d, ok := e.restart(e.growthClaims(everywhere), e.jobsWithContext()); ok {
		return d, true
	}
	for _, g := range slices.Backward(e.growing) {
		if !g.holding.isLate() {
			return e.refuseGrowth(g), true
		}
	}
	if d, ok := e.restart(e.queueClaims(), e.jobsWithContext()); ok {
		return d, true
	}
	var last *waiting
	for w := range e.queue.all() {
		if (last == nil || w.arrival > last.arrival) && len(e.state.contextsOf(w.task.Job)) > 0 && (w.resumes == nil || !w.resumes.isLate()) {
			last = w
		}
	}
	if last == nil {
		return schedulers.Decision{}, false
	}
	d := e.refuse(e.queue.take(last), schedulers.DeviceFull,
		"out of memory: every job with a context on a device waits for another to exit, and this one came last")
	d.Reason.Deadlock = true
	return d, true
}

// resolveDeviceDeadlock has a job start again that waits to grow on g's device, or refuses g.
func (e *Engine) resolveDeviceDeadlock(g *growth) schedulers.Decision {
	at := g.holding.at.Device
	if d, ok := e.restart(e.growthClaims(at), len(e.state.devices[at].jobs)); ok {
		return d
	}
	return e.refuseGrowth(g)
}

// deviceDeadlock returns the latest growth on a device that is in deadlock, or nil. A job
// that may continue elsewhere will end, so it is not part of a device's deadlock.
func (e *Engine) deviceDeadlock() *growth {
	for _, g := range slices.Backward(e.growing) {
		at := g.holding.at.Device
		if !g.holding.isLate() && e.allWait(&e.state.devices[at], func(job schedulers.JobID) bool { return e.waitsAt(job, at) }) {
			return g
		}
	}
	return nil
}

// waitsAt reports whether the job has a request that no other device can serve.
func (e *Engine) waitsAt(job schedulers.JobID, index int) bool {
	if e.isParked(job) {
		return false
	}
	return slices.ContainsFunc(e.state.tasksOf(job), func(id schedulers.TaskID) bool {
		h := e.held[id]
		return h.growth != nil && h.at.Device == index
	}) || slices.ContainsFunc(e.queue.ofJob(job), func(w *waiting) bool { return !e.fitsElsewhere(w.task, index) })
}

// fitsElsewhere reports whether t could have a device other than this one.
func (e *Engine) fitsElsewhere(t schedulers.Task, index int) bool {
	for i := range e.empty.Len() {
		if i == index || t.OnDevice != nil && *t.OnDevice != i {
			continue
		}
		there := t
		there.OnDevice = &i
		if _, ok := e.policy.Place(there, e.empty); ok {
			return true
		}
	}
	return false
}

// allGrow reports whether each task on the device waits, to grow or to resume, and no answer of a
// process can change that: none is due there or of a task that moves there, none that was busy will be asked again soon, and no context
// has a permit unless its process waits.
func (e *Engine) allGrow(d *device) bool {
	if e.preempter == nil {
		return d.growing == d.tasks
	}
	for _, h := range d.held {
		if h.growth == nil && h.resume == nil || h.due() || h.rest > 0 || e.isParked(h.task.Job) {
			return false
		}
	}
	for p := range d.permits {
		if !e.processWaits(p) {
			return false
		}
	}
	if d.arriving > 0 {
		for h := range e.listed() {
			if h.due() && h.movesTo(d.index) {
				return false
			}
		}
	}
	return true
}

// processWaits reports whether the process waits, to grow or in the queue.
func (e *Engine) processWaits(p schedulers.Process) bool {
	return slices.ContainsFunc(e.queue.ofJob(p.Job), func(w *waiting) bool { return w.task.Process() == p }) ||
		slices.ContainsFunc(e.growing, func(g *growth) bool { return g.holding.task.Process() == p })
}

// allWait reports whether each task on the device waits to grow, and each job with a
// context there waits.
func (e *Engine) allWait(d *device, waits func(schedulers.JobID) bool) bool {
	if !e.allGrow(d) {
		return false
	}
	for job := range d.jobs {
		if !waits(job) {
			return false
		}
	}
	return true
}
