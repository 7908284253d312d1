package runner

import (
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// check reports what cannot be.
func check(m schedulers.Moved) error {
	if m.Bytes < 0 || m.Drain < 0 || m.Copy < 0 || m.Bookkeeping < 0 {
		return fmt.Errorf("%d bytes moved in %v, %v and %v", m.Bytes, m.Drain, m.Copy, m.Bookkeeping)
	}
	return nil
}

// revocation is what is known of a swap before its process answers.
func (b *Batch) revocation(d schedulers.Decision, now time.Duration) *results.Swap {
	t := b.tasks[d.Task.ID]
	s := &results.Swap{Job: t.record.Job, Task: t.record.Seq, Device: d.Device, Direction: schedulers.Out,
		Action: d.Revocation.Action.String(), StartS: seconds(now)}
	wants := d.Revocation.For
	switch w := b.tasks[wants]; {
	case w != nil:
		s.ForJob, s.ForTask = &w.record.Job, &w.record.Seq
	case wants == schedulers.Nobody:
	case wants >= wholeJob:
		s.ForJob = new(int(wants &^ wholeJob))
	}
	return s
}

// recordRevoked records the answer to t's revocation.
func (b *Batch) recordRevoked(t *task, answer schedulers.Revoked, now time.Duration) {
	s, late := *t.revocation, t.unanswered
	t.revocation, t.unanswered = nil, false
	if s.Action == schedulers.Move.String() && answer.Outcome == schedulers.Done {
		b.moved(t, now)
	}
	b.job(s.Job).lose(answer.Lost)
	if late && answer.Outcome == schedulers.Busy && answer.Lost == 0 { // as recorded
		return
	}
	s.Outcome, s.Why = answer.Outcome, answer.Why
	if b.isToldAgain(t, s, answer) {
		return
	}
	s.ResidentBytes, s.FixedBytes, s.LostS = &answer.Resident, &answer.Fixed, new(answer.Lost.Seconds())
	b.recordSwap(s, answer.Moved, now)
}

// isToldAgain reports whether t answers a request to leave its device as it answered the one before: it is asked again
// and again while its kernels run.
func (b *Batch) isToldAgain(t *task, s results.Swap, answer schedulers.Revoked) bool {
	if s.ForJob != nil || b.closed[s.Device] == isOpen {
		return false
	}
	if s.Action == schedulers.Move.String() {
		t.unable = answer.Why
	}
	before := t.told
	t.told = s.Action + " " + string(answer.Outcome)
	return t.told == before && answer.Outcome == schedulers.Busy && answer.Lost == 0
}

// lose notes that kernels of the job had run for so long that were stopped.
func (j *job) lose(lost time.Duration) {
	if lost == 0 {
		return
	}
	sum := lost.Seconds()
	if before := j.record.LostS; before != nil {
		sum += *before
	}
	j.record.LostS = &sum
}

// moved notes that t is where its move has taken it.
func (b *Batch) moved(t *task, now time.Duration) {
	j := b.job(t.record.Job)
	t.record.Device = &b.indexes[t.to]
	j.residencies = j.residencies.Enter(t.process.Serial, t.to, now)
	b.recordTask(t)
}

// recordUnanswered records that t's process has not answered a revocation in time. What it answers later is
// recorded beside it.
func (b *Batch) recordUnanswered(t *task, now time.Duration) {
	s := *t.revocation
	t.unanswered = true
	s.Outcome = schedulers.Busy
	b.recordSwap(s, schedulers.Moved{}, now)
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventUnanswered, Job: &s.Job, Device: &s.Device,
		Detail: fmt.Sprintf("a process was asked to move memory, and has not answered for %.1f s. "+
			"Other jobs get what others can give, and it is asked again only after its answer", seconds(now)-s.StartS)})
}

// recordSwap completes the record of a swap that ends now. Events can come out of the order of
// their times.
func (b *Batch) recordSwap(s results.Swap, m schedulers.Moved, now time.Duration) {
	s.EndS = max(s.StartS, seconds(now))
	s.Bytes, s.DrainS, s.CopyS, s.BookkeepingS = m.Bytes, m.Drain.Seconds(), m.Copy.Seconds(), m.Bookkeeping.Seconds()
	b.command(RecordSwap{s})
}
