package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// Several devices at once (schedulers.Terms.Devices): all or none. The policy is asked device by device, each time about a node on which
// the members so far have their place and their device is closed to the others. If one member has no place, none is granted. The node
// itself is changed by a grant only, so nothing has to be taken back.
//
// Such a task is the only one that its job ever has, and keeps its memory where it is. So it waits for nothing once it is granted, and
// is part of no deadlock.

// attempt is a state with the members of a task that have a place so far.
type attempt struct {
	*state
	members []*device // copies of the devices that they have
}

func (a *attempt) Device(i int) schedulers.DeviceView {
	for _, d := range a.members {
		if d.index == i {
			return d
		}
	}
	return a.state.Device(i)
}

func (a *attempt) Latest() int {
	if n := len(a.members); n > 0 {
		return a.members[n-1].index
	}
	return a.state.Latest()
}

// join puts a member of t at p.
func (a *attempt) join(t schedulers.Task, p schedulers.Placement) {
	d := a.devices[p.Device]
	d.contexts, d.jobs, d.sms = maps.Clone(d.contexts), maps.Clone(d.jobs), slices.Clone(d.sms)
	bytes := d.charged(t, p)
	if !d.contexts[t.Process()] {
		d.contexts[t.Process()] = true
		d.usedBytes += d.limits.ContextBytes
	}
	d.usedBytes += bytes
	d.join(t, p)
	d.member = true
	a.members = append(a.members, &d)
}

// together places all members of t in s, or none. The places are in node order.
func (e *Engine) together(t schedulers.Task, s *state) ([]schedulers.Placement, bool) {
	if t.Terms.Devices > s.Len() {
		return nil, false
	}
	a := &attempt{state: s}
	at := make([]schedulers.Placement, 0, t.Terms.Devices)
	for range t.Terms.Devices {
		p, ok := e.policy.Place(t, a)
		if !ok {
			return nil, false
		}
		at = append(at, p)
		a.join(t, p)
	}
	slices.SortFunc(at, func(p, q schedulers.Placement) int { return cmp.Compare(p.Device, q.Device) })
	return at, true
}

// checkSeveral refuses a task for several devices that cannot be, and one beside such a task.
func (e *Engine) checkSeveral(t schedulers.Task) error {
	if t.Several() {
		switch {
		case t.OnDevice != nil:
			return fmt.Errorf("submit task %d of job %d: it asks for %d devices, and for device %d only", t.ID, t.Job, t.Terms.Devices, *t.OnDevice)
		case t.Can != 0 || t.Need != nil:
			return fmt.Errorf("submit task %d of job %d: it asks for %d devices, and its memory moves", t.ID, t.Job, t.Terms.Devices)
		case len(e.queue.ofJob(t.Job)) > 0 || len(e.state.contextsOf(t.Job)) > 0:
			return fmt.Errorf("submit task %d of job %d: it asks for %d devices, and its job has other tasks, or has had", t.ID, t.Job, t.Terms.Devices)
		}
		return nil
	}
	waits, has := e.queue.ofJob(t.Job), e.state.tasksOf(t.Job)
	if len(waits) > 0 && waits[0].task.Several() || len(has) > 0 && e.held[has[0]].task.Several() {
		return fmt.Errorf("submit task %d of job %d: its job has a task for several devices", t.ID, t.Job)
	}
	return nil
}

// askSeveral asks the policy where t may go now, unless its job may not use so many devices, or the index knows that t may not.
func (e *Engine) askSeveral(t schedulers.Task) ([]schedulers.Placement, bool) {
	if e.limitsBelow(t) {
		return nil, false
	}
	if x := e.queue.index; x != nil {
		if x.refresh(); !x.hasSeveral(t) {
			return nil, false
		}
	}
	return e.together(t, e.state)
}

// hasSeveral reports whether t, which asks for several devices, may fit on so many. The state has not changed since refresh. Its job has no
// context, so only fresh counts.
func (m *measures) hasSeveral(t schedulers.Task) bool { return t.Bytes <= m.kindOf(t).room() }

// grantSeveral is grant for a task for several devices, which has just been placed.
func (e *Engine) grantSeveral(w *waiting) schedulers.Decision {
	var first, last *holding
	devices := make([]int, 0, len(w.at))
	for _, p := range w.at {
		h := &holding{task: w.task, bytes: e.state.add(w.task, p), allocated: w.task.Bytes, at: p, grant: e.grants}
		if e.preempter != nil {
			e.enlist(h, w)
		}
		if devices = append(devices, p.Device); first == nil {
			first = h
		} else {
			last.other = h
		}
		last = h
	}
	e.held[w.task.ID] = first
	e.pay(first, len(devices))
	e.touch(w.task.Job)
	return schedulers.Decision{Kind: schedulers.Granted, Task: w.task, Device: devices[0], Devices: devices, Passed: w.passed}
}

// one returns the task's place on its only device. What only such a task can do, doing says.
func (e *Engine) one(id schedulers.TaskID, doing string) (*holding, error) {
	h, ok := e.held[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s task %d: it has no device", doing, id)
	case h.task.Several():
		return nil, fmt.Errorf("%s task %d: it has several devices", doing, id)
	}
	return h, nil
}
