package engine

import (
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Lose closes a device for good: no task joins it, and a plan that may use it is dropped. Waiting requests that fit nowhere else are
// refused. What tasks hold there stays theirs until they give it back.
func (e *Engine) Lose(device int, now time.Duration) []schedulers.Decision {
	e.at(now)
	for _, s := range []*state{e.state, e.empty, e.node} {
		s.devices[device].lost = true
		s.change(device)
	}
	if e.ever != nil {
		e.ever.refresh(func(int) {})
	}
	e.plan, e.stale = schedulers.Plan{}, true
	var decisions []schedulers.Decision
	for _, w := range slices.Collect(e.queue.all()) {
		if w.resumes == nil && !e.fits(w.task, e.empty, e.ever) {
			e.touch(w.task.Job)
			e.queue.take(w)
			decisions = append(decisions, e.refuse(w, schedulers.TooLarge, whyTooLarge(w.task, false, len(e.devices))+e.withoutLost()))
		}
	}
	return append(decisions, e.pump()...)
}
