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
	if wants := d.Revocation.For; wants >= wholeJob {
		s.ForJob = new(int(wants &^ wholeJob))
	} else if w := b.tasks[wants]; w != nil {
		s.ForJob, s.ForTask = &w.record.Job, &w.record.Seq
	}
	return s
}

// recordRevoked records the answer to t's revocation.
func (b *Batch) recordRevoked(t *task, answer schedulers.Revoked, now time.Duration) {
	s := *t.revocation
	t.revocation = nil
	s.Outcome, s.Why = answer.Outcome, answer.Why
	s.ResidentBytes, s.FixedBytes = &answer.Resident, &answer.Fixed
	b.recordSwap(s, answer.Moved, now)
}

// recordSwap completes the record of a swap that ends now. Events can come out of the order of
// their times.
func (b *Batch) recordSwap(s results.Swap, m schedulers.Moved, now time.Duration) {
	s.EndS = max(s.StartS, seconds(now))
	s.Bytes, s.DrainS, s.CopyS, s.BookkeepingS = m.Bytes, m.Drain.Seconds(), m.Copy.Seconds(), m.Bookkeeping.Seconds()
	b.command(RecordSwap{s})
}
