package runner

import (
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// Moved is what moving a task's memory took.
type Moved struct {
	Bytes       int64         // that changed their place
	Drain       time.Duration // until the device had ended what was submitted
	Copy        time.Duration
	Bookkeeping time.Duration // to make, map, unmap and release memory
}

func (m Moved) check() error {
	if m.Bytes < 0 || m.Drain < 0 || m.Copy < 0 || m.Bookkeeping < 0 {
		return fmt.Errorf("%d bytes moved in %v, %v and %v", m.Bytes, m.Drain, m.Copy, m.Bookkeeping)
	}
	return nil
}

// revocation is what is known of a swap before its process answers.
func (b *Batch) revocation(d schedulers.Decision, now time.Duration) *results.Swap {
	t := b.tasks[d.Task.ID]
	s := &results.Swap{Job: t.record.Job, Task: t.record.Seq, Device: d.Device, Direction: results.SwapOut,
		Action: d.Revocation.Action.String(), StartS: seconds(now)}
	if wants := d.Revocation.For; wants >= wholeJob {
		s.ForJob = new(int(wants &^ wholeJob))
	} else if w := b.tasks[wants]; w != nil {
		s.ForJob, s.ForTask = &w.record.Job, &w.record.Seq
	}
	return s
}

// recordRevoked records the answer to t's revocation.
func (b *Batch) recordRevoked(t *task, e TaskRevoked, now time.Duration) {
	s := *t.revocation
	t.revocation = nil
	switch e.Outcome.Answer {
	case schedulers.Done:
		s.Outcome = results.SwapDone
	case schedulers.Busy:
		s.Outcome = results.SwapBusy
	case schedulers.Unable:
		s.Outcome, s.Why = results.SwapUnable, e.Why
	}
	s.ResidentBytes, s.FixedBytes = &e.Outcome.Resident, &e.Outcome.Fixed
	b.recordSwap(s, e.Moved, now)
}

// recordSwap completes the record of a swap that ends now. Events can come out of the order of
// their times.
func (b *Batch) recordSwap(s results.Swap, m Moved, now time.Duration) {
	s.EndS = max(s.StartS, seconds(now))
	s.Bytes, s.DrainS, s.CopyS, s.BookkeepingS = m.Bytes, m.Drain.Seconds(), m.Copy.Seconds(), m.Bookkeeping.Seconds()
	b.command(RecordSwap{s})
}
