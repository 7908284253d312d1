package runner

import (
	"fmt"
	"strconv"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
)

func (e Stuck) apply(b *Batch, now time.Duration) error {
	waits, holds := b.standings()
	why := fmt.Sprintf("stuck: nothing can happen any more. Waiting for other ranks: %s. Waiting for a device: %s. Holding: %s. %s",
		e.Why, listed(waits), listed(holds), b.stuckRemedy())
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventStuck, Detail: why})
	b.endAll(func(j *job) {
		j.stuck = "the run was stuck, because ranks of another job waited for each other"
		if j.ranks != nil {
			j.stuck = why
		}
	}, results.Refused, "the run was stuck before it got its turn")
	return nil
}

// stuckRemedy says what ranks need that wait for each other.
func (b *Batch) stuckRemedy() string {
	const takesBack = "demand"
	if b.config.Scheduler.Name == takesBack {
		return "All ranks of a job that meet need a device at the same time for their CUDA contexts and the memory that cannot " +
			"move, which " + takesBack + " does not take back: give the job fewer ranks, or the node more devices"
	}
	return "All ranks of a job that meet need their devices at the same time: give the job fewer ranks, the node more " +
		"devices or slots, or use a scheduler that takes devices back from ranks that wait, such as " + takesBack
}

// Ranks is ranks as text.
func Ranks(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + strconv.Itoa(ranks[0])
	}
	const shown = 8
	var text []string
	for _, r := range ranks {
		text = append(text, strconv.Itoa(r))
	}
	return "ranks " + size.Few(text, shown, ", ")
}
