package harness

import (
	"slices"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/engine"
)

// sayOrder says of which jobs the order of the queue knows nothing. known is what jobs are expected to do.
func (b Batch) sayOrder(known []*results.Known) {
	jobs := b.Mix.Jobs
	none := func(has func(mixes.Job) bool) bool { return len(jobs) > 0 && !slices.ContainsFunc(jobs, has) }
	switch b.Scheduler.Config.Queue {
	case engine.ShortestFirst:
		unknown, all := 0, 0
		for i, k := range known {
			if jobs[i].Portion > 1 { // its job is counted once
				continue
			}
			if all++; k == nil {
				unknown++
			}
		}
		if unknown > 0 {
			b.Say("nothing is known of %d of %d jobs, so queue=sjf serves them last, by arrival: caserun history shows what is known", unknown, all)
		}
	case engine.EarliestDeadline:
		if none(func(j mixes.Job) bool { return j.Deadline > 0 }) {
			b.Say("no job of %s has a deadline, so queue=deadline serves them by arrival: write deadline: for jobs in the mix", b.Mix.Name)
		}
	case engine.Credits:
		if none(func(j mixes.Job) bool { return j.User != "" }) {
			b.Say("no job of %s has a user, so queue=credits serves them by arrival: write user: for jobs in the mix", b.Mix.Name)
		}
	}
}
