package schedtest

import (
	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// memory says where a task's memory fits, by the rules of a scheduler that considers only
// memory.
type memory struct {
	only   int     // the only device that the scheduler uses; -1: all
	room   float64 // the scheduler's parameters
	exceed bool
}

// fits reports whether the task fits on an open device, or as many as it asks for, beside what the jobs in beside hold.
func (b *books) fits(t schedulers.Task, beside func(schedulers.JobID) bool, open func(device int) bool) bool {
	fit := 0
	for i := range b.nodes {
		if open(i) && b.fitsOn(t, i, beside) {
			fit++
		}
	}
	return fit >= max(1, t.Terms.OrNone().Devices)
}

func (b *books) fitsOn(t schedulers.Task, i int, beside func(schedulers.JobID) bool) bool {
	d, share := b.nodes[i], t.Terms.OrNone().Share
	if t.OnDevice != nil && *t.OnDevice != i || b.memory.only >= 0 && b.memory.only != i ||
		share > 0 && share > schedulers.WholeDevice-b.shares(i, beside, t.Job) {
		return false
	}
	used, tasks, others, context := b.looks.charged(i, beside), 0, false, d.ContextBytes
	closed := false
	for p := range b.contexts[i] {
		if !beside(p.Job) {
			continue
		}
		used += d.ContextBytes
		if p == t.Process() {
			context = 0
		}
		closed = closed || p.Job != t.Job && (t.Isolate || b.isolates(p.Job, i))
	}
	for _, e := range b.on(i) {
		if beside(e.task.Job) {
			used += e.bytes
			tasks++
			others = others || e.task.Job != t.Job
			closed = closed || e.whole
		}
	}
	left := d.CapacityBytes - used - context
	if b.memory.exceed && t.Managed && t.Bytes > d.CapacityBytes-d.ContextBytes {
		return !closed && tasks == 0 && left >= 0
	}
	if others {
		left -= int64(b.memory.room * float64(d.CapacityBytes))
	}
	return !closed && t.Bytes <= left
}

// isolates reports whether a task of the job on the device has asked to be isolated. The job
// then shares the device with no other job.
func (b *books) isolates(job schedulers.JobID, device int) bool {
	for _, e := range b.entries {
		if e.task.Job == job && e.task.Isolate && e.has(device) {
			return true
		}
	}
	return false
}

func anyJob(schedulers.JobID) bool { return true }
func anyDevice(int) bool           { return true }

// stalled returns the requests that do not fit even if every job that does not wait ends.
func (b *books) stalled() map[schedulers.TaskID]bool {
	waits, holds := b.waits(waiting, growing), false
	for _, id := range b.in(held) {
		holds = holds || waits[b.entries[id].task.Job]
	}
	out := map[schedulers.TaskID]bool{}
	if !holds {
		return out
	}
	beside := func(job schedulers.JobID) bool { return waits[job] }
	for _, id := range b.in(waiting) {
		out[id] = !b.fits(b.entries[id].task, beside, anyDevice)
	}
	for _, id := range b.in(growing) {
		out[id] = !b.canGrow(b.entries[id], beside)
	}
	return out
}

func (b *books) canGrow(e *entry, beside func(schedulers.JobID) bool) bool {
	d := b.nodes[e.device]
	left := d.CapacityBytes - b.looks.charged(e.device, beside)
	for p := range b.contexts[e.device] {
		if beside(p.Job) {
			left -= d.ContextBytes
		}
	}
	for _, other := range b.on(e.device) {
		if beside(other.task.Job) {
			left -= other.bytes
		}
	}
	return e.request <= left
}

// checkTurns checks that a task that fits waits only behind a task whose turn comes first and
// that is not stalled.
func (m *machine) checkTurns(rt *rapid.T) {
	if !m.rules.MemoryHard || m.rules.hidesTurns() || len(m.books.in(waiting)) == 0 {
		return
	}
	stalled := m.books.stalled()
	for _, id := range m.books.in(waiting) {
		if m.books.isTurn(m.books.entries[id], stalled) {
			rt.Fatalf("task %d fits and waits, and of the others (%v, stalled %v) none holds it back", id, m.books.in(waiting), stalled)
		}
	}
}

// couldGo reports whether a task that does not wait must be granted. It returns nil if the task
// waits, or if the books cannot tell.
func (m *machine) couldGo(id schedulers.TaskID) *bool {
	e := m.books.entries[id]
	if e.state != asking || !m.rules.MemoryHard || m.rules.hidesTurns() {
		return nil
	}
	return new(m.books.isTurn(e, m.books.stalled()))
}

// isTurn reports whether the task fits and no task that waits holds it back.
func (b *books) isTurn(e *entry, stalled map[schedulers.TaskID]bool) bool {
	open := func(device int) bool {
		for _, id := range b.in(growing) {
			if b.entries[id].device == device && !stalled[id] {
				return false
			}
		}
		return true
	}
	if !b.fits(e.task, anyJob, open) {
		return false
	}
	for _, id := range b.in(waiting) {
		if !stalled[id] && b.goesBefore(b.entries[id], e) {
			return false
		}
	}
	return true
}

// goesBefore reports whether x, which does not fit, holds back y.
func (b *books) goesBefore(x, y *entry) bool {
	aged := func(e *entry) bool { return b.config.AgeLimit > 0 && e.passed >= b.config.AgeLimit }
	first := x.task.ID < y.task.ID
	switch {
	case x == y:
		return false
	case aged(x) && aged(y):
		return first
	case aged(x) || aged(y):
		return aged(x)
	}
	switch b.config.Queue {
	case engine.FIFO:
		return first
	case engine.PriorityFIFO, engine.PriorityFirstFit:
		return x.task.Priority > y.task.Priority
	}
	return false
}

// settleTurns lets the jobs that do not wait exit, until every job waits. Each request then waits
// for a job that waits and holds something.
func (m *machine) settleTurns(rt *rapid.T) {
	for {
		waits := m.books.waits(waiting, growing)
		exits := false
		for _, job := range m.books.jobs() {
			if !waits[job] {
				m.exitJob(rt, job)
				m.check(rt)
				exits = true
				break
			}
		}
		if !exits {
			break
		}
	}
	for _, id := range m.books.in(waiting) {
		if m.books.entries[id].task.Several() { // which checkTurns knows
			continue
		}
		if at, ok := m.scheduler.Policy.Place(m.books.entries[id].task, m.engine.View()); ok {
			rt.Fatalf("every job waits, and task %d does although it fits device %d", id, at.Device)
		}
	}
	for _, id := range m.books.in(growing) {
		e := m.books.entries[id]
		if m.scheduler.Policy.CanGrow(e.request, m.engine.View().Device(e.device)) {
			rt.Fatalf("every job waits, and task %d does although it can grow", id)
		}
	}
}
