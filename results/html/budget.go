package html

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
)

// Limits of a page, which keep it below about 2 MB.
const (
	maxSections    = 40
	maxJobs        = 500  // in all sections; the first section may have more
	maxPictured    = 2000 // jobs in pictures of mixes; the first picture of a node may have more
	maxPoints      = 60_000
	maxStderrBytes = 200_000
	maxTailBytes   = 4_000 // of one job
)

// budget is what remains of the limits. Every run gets equally many points, so that the last
// run does not look coarser.
type budget struct {
	points int // for each run
	stderr int // for the page
}

func newBudget(sections int) *budget {
	return &budget{points: maxPoints / max(sections, 1), stderr: maxStderrBytes}
}

// buckets returns the number of time buckets for each curve of a run. A curve takes up to four
// points in each bucket.
func (b *budget) buckets(curves int) int {
	return min(max(b.points/(4*max(curves, 1)), 30), 500)
}

// choose picks the runs that get a section: all runs if they are few, else one run of each arm
// in turn. It begins with the run that has the arm's median makespan.
func choose(runs []results.Run) map[int64]bool {
	arms := map[results.Arm][]results.Run{}
	var order []results.Arm
	for _, r := range runs {
		k := results.ArmOf(r)
		if arms[k] == nil {
			order = append(order, k)
		}
		arms[k] = append(arms[k], r)
	}
	for _, own := range arms {
		slices.SortStableFunc(own, func(a, b results.Run) int {
			return cmp.Compare(orElse(a.Metrics.MakespanS, math.Inf(1)), orElse(b.Metrics.MakespanS, math.Inf(1)))
		})
	}
	chosen := map[int64]bool{}
	want, jobs := min(len(runs), maxSections), 0
	for len(chosen) < want {
		for _, k := range order {
			own := arms[k]
			if len(own) == 0 || len(chosen) == want {
				continue
			}
			if jobs += own[0].Jobs; jobs > maxJobs && len(chosen) > 0 {
				return chosen
			}
			known := 0
			for _, r := range own {
				if r.Metrics.MakespanS != nil {
					known++
				}
			}
			pick := max(known-1, 0) / 2
			chosen[own[pick].ID] = true
			arms[k] = slices.Delete(own, pick, pick+1)
		}
	}
	return chosen
}

// tail returns the end of a job's stderr, as far as the page has room.
func (b *budget) tail(text string) string {
	limit := min(maxTailBytes, b.stderr)
	if limit == 0 && text != "" {
		return "(left out to keep the page small; the store has it)"
	}
	if len(text) > limit {
		text = "… " + strings.ToValidUTF8(text[len(text)-limit:], "") // the cut may split a character
	}
	b.stderr -= min(len(text), b.stderr)
	return printable(text)
}
