package plan

import (
	"math"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// mostCompared is how many jobs a batch has at most whose priorities are found by playing it. Larger ones take too long.
const mostCompared = 256

// Nice returns the nice level of each job of a batch that is to begin, by its schedulers.JobID, until the job has a
// device. Of several rules it takes the one with the best candidate. Shortest first is the rule where the host
// is crowded, and longest first where a few long jobs end last.
func Nice(s Situation, expected []schedulers.Prediction, with Settings) []int {
	unknown, all := make([]*schedulers.Prediction, len(expected)), make([]*schedulers.Prediction, len(expected))
	for i := range expected {
		all[i] = &expected[i]
	}
	shortest := schedulers.NiceByLength(all, schedulers.UntilRequest)
	if len(expected) > mostCompared {
		return shortest
	}
	s.Jobs = possible(s)
	with.Candidates &= Alg3 | Greedy // the others take too long with so many jobs
	best, least := shortest, math.Inf(1)
	for _, levels := range [][]int{
		shortest,
		schedulers.NiceByLength(unknown, schedulers.UntilRequest), // all equal
		schedulers.NiceByLength(all, func(p *schedulers.Prediction) time.Duration { return -p.Before - p.Held - p.After }),
	} {
		for i := range s.Jobs {
			s.Jobs[i].Nice = levels[s.Jobs[i].ID]
		}
		x := newSearch(s, with, math.Inf(1))
		x.candidates(func() bool { return false })
		if x.score < least {
			best, least = levels, x.score
		}
	}
	return best
}
