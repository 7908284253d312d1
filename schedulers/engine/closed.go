package engine

import (
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// phase says who may join a device.
type phase int

const (
	open    phase = iota
	closing       // it is taken out of the run: nobody joins, but what belongs there goes on
	gone          // nothing goes on there
)

// DeviceLost closes a device until DeviceAdded: no task joins it, and a plan that may use it is dropped. What tasks hold
// there stays theirs until they give it back.
//
// If the device is gone, waiting requests that fit nowhere else are refused. Otherwise they are parked, and what has to
// be on the device goes on: a task there whose process cannot move keeps its device, and may resume and grow; its
// process may begin tasks that must be there. Under a Preempter a task whose process can move is asked to go where the
// policy would place it, or while there is no such device, to yield all. It resumes elsewhere.
func (e *Engine) DeviceLost(device int, isGone bool, now time.Duration) []schedulers.Decision {
	if isGone {
		return e.setPhase(device, gone, now)
	}
	return e.setPhase(device, max(closing, e.state.devices[device].phase), now)
}

// DeviceAdded opens a device that was lost.
func (e *Engine) DeviceAdded(device int, now time.Duration) []schedulers.Decision {
	return e.setPhase(device, open, now)
}

func (e *Engine) setPhase(device int, p phase, now time.Duration) []schedulers.Decision {
	e.at(now)
	if e.state.devices[device].phase == p {
		return e.pump()
	}
	for _, s := range []*state{e.state, e.node, e.empty} {
		s.devices[device].phase = p
		s.change(device)
	}
	if p == closing { // it may come back
		e.empty.devices[device].phase = open
	}
	if e.ever != nil {
		e.ever.refresh(func(int) {})
	}
	e.shut = 0
	for i := range e.state.devices {
		if e.state.devices[i].phase != open {
			e.shut++
		}
	}
	e.plan, e.stale = schedulers.Plan{}, true
	var decisions []schedulers.Decision
	for _, w := range e.allWaiting() {
		if w.resumes == nil && !e.fits(w.task, e.empty, e.ever) {
			e.touch(w.task.Job)
			e.queue.take(w)
			decisions = append(decisions, e.refuse(w, schedulers.TooLarge, whyTooLarge(w.task, false, len(e.devices))+e.withoutLost()))
			continue
		}
		e.park(w)
	}
	return append(decisions, e.pump()...)
}

// allWaiting is the requests in the queue, and the parked ones.
func (e *Engine) allWaiting() []*waiting {
	return slices.Concat(slices.Collect(e.queue.all()), e.queue.parked)
}

// Seal says whether devices are granted only to processes that have their context there. Requests of other processes are
// parked meanwhile, so that nothing is kept for them. What processes do where they are goes on.
func (e *Engine) Seal(sealed bool, now time.Duration) []schedulers.Decision {
	e.at(now)
	if e.sealed == sealed {
		return e.pump()
	}
	e.sealed, e.stale = sealed, true
	for _, s := range []*state{e.state, e.node} {
		for i := range s.devices {
			s.devices[i].sealed = sealed
			s.change(i)
		}
	}
	for _, w := range e.allWaiting() {
		e.park(w)
	}
	return e.pump()
}

// mustLeave reports whether h is on a device that is being closed, and its process can move.
func (e *Engine) mustLeave(h *holding) bool {
	return e.state.devices[h.at.Device].phase == closing && h.task.OnDevice == nil && h.revocable != nil && h.can.Has(schedulers.Move)
}
