package schedulers

// stuck reports whether nothing will ever be given back by itself: each task that
// is held waits to grow, and the jobs that have contexts on devices all wait, to
// grow or for their next task. A program whose next task needs the memory that
// another's context takes brings this about, or one behind it in a queue that does
// not let it pass.
//
// The engine knows no more than that. Where a job holds one task and waits for
// another, a second thread or process of it may yet release the first, so such
// jobs may wait for each other until the wait limit or the job's timeout; others need
// not wait for them (findStalled). Where one
// process of a job waits and another has but a context, that one may be about to exit,
// or may wait for the first, for ever: the job counts as waiting.
func (e *Engine) stuck() bool {
	some := false
	for i := range e.state.devices {
		d := &e.state.devices[i]
		if !d.allGrow() {
			return false
		}
		some = some || len(d.jobs) > 0
	}
	if !some {
		return false
	}
	waits := e.waitingJobs()
	for i := range e.state.devices {
		if !e.state.devices[i].allWait(waits) {
			return false
		}
	}
	return true
}

// unstick grants the first waiting task that fits, whatever the queue's order,
// without counting the others as passed: none of them could have gone. If none
// fits, it refuses the growth that came last, so that its task goes on, or, where
// nothing waits to grow, the task that came last of those whose jobs have contexts,
// so that a job exits.
func (e *Engine) unstick() Decision {
	for _, w := range e.queue.tasks {
		if p, ok := e.policy.Place(w.task, e.state); ok {
			return e.grant(e.queue.take(w), p)
		}
	}
	if n := len(e.growing); n > 0 {
		return e.refuseGrowth(e.growing[n-1])
	}
	var last *waiting
	for _, w := range e.queue.tasks {
		if (last == nil || w.arrival > last.arrival) && e.state.hasContext(w.task.Job) {
			last = w
		}
	}
	e.queue.take(last)
	r := e.tooLarge(last.task)
	r.Cause, r.Why = DeviceFull, "out of memory: every job with a context on a device waits for another to exit, and this one came last"
	return Decision{Kind: Refused, Task: last.task, Device: -1, Passed: last.passed, Reason: r}
}

// waitingJobs is the jobs that wait, to grow or in the queue.
func (e *Engine) waitingJobs() map[JobID]bool {
	jobs := map[JobID]bool{}
	for _, g := range e.growing {
		jobs[g.holding.task.Job] = true
	}
	for _, w := range e.queue.tasks {
		jobs[w.task.Job] = true
	}
	return jobs
}
