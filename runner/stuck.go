package runner

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
)

// Standings are who waits for a device, who holds one, and which of some jobs' kernels never end.
type Standings struct{ Waits, Holds, Endless []string }

func (b *Batch) standingsWith(endless []int) (s Standings) {
	s.Waits, s.Holds = b.standings()
	for _, i := range endless {
		s.Endless = append(s.Endless, b.named(claimant{i, noRank}))
	}
	return s
}

func (e Stuck) apply(b *Batch, now time.Duration) error {
	all := b.standingsWith(e.Endless)
	if e.Cluster != nil {
		all = *e.Cluster
	}
	cause, short, remedy := "Waiting for other ranks: "+e.Ranks, "ranks of another job waited for each other", b.stuckRemedy()
	if len(all.Endless) > 0 {
		cause, short, remedy = "In kernels that never end: "+listed(all.Endless), "a kernel of another job never ends", endlessRemedy
	}
	why := fmt.Sprintf("stuck: nothing can happen any more. %s. Waiting for a device: %s. Holding: %s. %s", cause, listed(all.Waits), listed(all.Holds), remedy)
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventStuck, Detail: why})
	b.endAll(func(j *job) {
		j.stuck = "the run was stuck, because " + short
		if j.ranks != nil || slices.Contains(e.Endless, j.record.Index) {
			j.stuck = why
		}
	}, results.Refused, "the run was stuck before it got its turn")
	return nil
}

const endlessRemedy = "Use a scheduler that stops kernels, such as mfit, or limit the jobs with --timeout. If such a job is for the others, " +
	"give it until_others_end: true"

// stuckRemedy says what ranks need that wait for each other.
func (b *Batch) stuckRemedy() string {
	if s := b.config.Scheduler; s.FreesIdle() {
		return "All ranks of a job that meet need a device at the same time for their CUDA contexts and the memory that cannot " +
			"move, which " + s.Name + " does not take back: give the job fewer ranks, or the node more devices"
	}
	return "All ranks of a job that meet need their devices at the same time: give the job fewer ranks, the node more " +
		"devices or slots, or use a scheduler that takes devices back from ranks that wait, such as vgpu-preempt"
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
