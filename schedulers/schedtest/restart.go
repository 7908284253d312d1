package schedtest

import (
	"errors"
	"fmt"

	"github.com/caserun/caserun/schedulers"
)

// restart enters that e's job is to start again. What it asks for gets no other answer.
func (b *books) restart(e *entry, d schedulers.Decision) error {
	job := e.task.Job
	switch {
	case e.task.Terms.OrNone().Restarts == 0:
		return errors.New("its job may not be started again")
	case e.state != growing && e.state != waiting:
		return fmt.Errorf("it is in state %d, and waits for nothing", e.state)
	case d.Bytes != b.footprint(e) && !b.anyWhole(job):
		return fmt.Errorf("%d bytes, where it has and asks for %d", d.Bytes, b.footprint(e))
	case !b.fitsSomewhere(e.task, d.Bytes):
		return fmt.Errorf("%d bytes, which no device has", d.Bytes)
	case !b.hasCompany(job, 0, len(b.nodes)-1):
		return errors.New("no other job is in the deadlock")
	}
	if e.state == growing {
		if other, ok := b.idle(e.device); ok {
			return fmt.Errorf("job %d has a context there, waits for nothing, and may exit", other)
		}
	}
	for _, own := range b.entries {
		if own.task.Job != job {
			continue
		}
		switch own.state {
		case growing:
			own.state = held
		case waiting, asking:
			own.state = ended
		}
	}
	return nil
}

// refusedInDeadlock says why a job must not be refused what it could have been started again for.
func (b *books) refusedInDeadlock(e *entry, r *schedulers.Refusal) error {
	if r == nil || !r.Deadlock || e.task.Terms.OrNone().Restarts == 0 || b.anyWhole(e.task.Job) {
		return nil
	}
	first, last := 0, len(b.nodes)-1
	if e.state == growing { // perhaps with the others on its device
		first, last = e.device, e.device
	}
	if need := b.footprint(e); b.hasCompany(e.task.Job, first, last) && b.fitsSomewhere(e.task, need) {
		return fmt.Errorf("its job may be started again, and a device has the %d bytes that it needs", need)
	}
	return nil
}

// footprint is what e's job has and asks for where e would grow, or what e asks for.
func (b *books) footprint(e *entry) (sum int64) {
	if e.state != growing { // and no task has a device
		return e.task.Bytes
	}
	for _, own := range b.on(e.device) {
		if own.task.Job == e.task.Job {
			sum += own.bytes
			if own.state == growing {
				sum += own.request
			}
		}
	}
	return sum
}

func (b *books) anyWhole(job schedulers.JobID) bool {
	for _, e := range b.entries {
		if e.task.Job == job && e.whole && (e.state == held || e.state == growing) {
			return true
		}
	}
	return false
}

// fitsSomewhere reports whether a device has so much beside a context.
func (b *books) fitsSomewhere(t schedulers.Task, bytes int64) bool {
	for i, d := range b.nodes {
		if (t.OnDevice == nil || *t.OnDevice == i) && (b.memory.only < 0 || b.memory.only == i) && bytes <= d.CapacityBytes-d.ContextBytes {
			return true
		}
	}
	return false
}

// hasCompany reports whether another job has a context on one of the devices.
func (b *books) hasCompany(job schedulers.JobID, first, last int) bool {
	for i := first; i <= last; i++ {
		for other := range b.jobsOn(i) {
			if other != job {
				return true
			}
		}
	}
	return false
}
