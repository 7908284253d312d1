package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/results"
)

func (e Withdraw) apply(b *Batch, now time.Duration) error {
	i := e.Job
	switch {
	case i < 0 || i >= len(b.records):
		return fmt.Errorf("job %d is withdrawn: the batch has %d jobs, counted from 0", i, len(b.records))
	case i >= b.arrived && i < len(b.config.Jobs):
		return fmt.Errorf("job %d is withdrawn, which has not arrived", i)
	}
	if b.withdrawJob(e, now) {
		b.admit(now)
	}
	return nil
}

// withdrawJob is Withdraw. It reports whether the job's place is free for others, which are not admitted yet.
func (b *Batch) withdrawJob(e Withdraw, now time.Duration) (free bool) {
	i := e.Job
	switch r, j := &b.records[i], b.jobs[i]; {
	case r.Outcome != nil || j != nil && j.exited != nil: // it has ended meanwhile
	case j != nil && j.started && e.Unstarted:
	case j != nil && j.started:
		if e.Lost {
			j.lost = e.Why
		} else {
			j.withdrawn = e.Why
		}
		b.stopJob(i)
	default:
		decisions, err := b.engine.Release(binding(i))
		admitted := err == nil
		if again := slices.Index(b.waitsToRestart, i); again >= 0 {
			b.waitsToRestart, admitted = slices.Delete(b.waitsToRestart, again, again+1), true
		}
		outcome := results.Cancelled
		if e.Lost {
			outcome = results.Lost
		}
		b.endUnstarted(i, outcome, e.Why, admitted, now)
		b.carryOut(decisions, now)
		return true
	}
	return false
}

// endPortions ends the other portions of a job, because one has failed: those that run, and those that have not started. None of them is
// admitted meanwhile.
func (b *Batch) endPortions(failed int, now time.Duration) {
	spec := b.spec(failed)
	if spec.Portion == 0 || b.cancelled || !b.records[failed].Outcome.Crashed() {
		return
	}
	first := failed - (spec.Portion - 1)
	for i := first; i < first+spec.Portions; i++ {
		if b.records[i].Outcome == nil {
			b.withdrawJob(Withdraw{Job: i, Why: fmt.Sprintf("ended because portion %d had failed", spec.Portion-1)}, now)
		}
	}
}

// endUnstarted ends a job whose process does not run. One that was not admitted stays among those that wait for that (admit).
func (b *Batch) endUnstarted(i int, outcome results.Outcome, why string, admitted bool, now time.Duration) {
	r := &b.records[i]
	r.EndS, r.WaitS = new(seconds(now)), new(seconds(now-b.job(i).arrived))
	r.Outcome, r.Detail = &outcome, why
	b.recordJob(r)
	b.forget(i)
	if admitted {
		b.left(i)
	} else {
		b.over(i)
	}
}
