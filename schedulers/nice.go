package schedulers

import (
	"cmp"
	"slices"
	"time"
)

// NiceLevels is the number of host priorities of a job. Level 0 is the harness's own; a higher one is
// nicer to others, as nice levels of Linux are.
const NiceLevels = 20

// niceWeights is the kernel's sched_prio_to_weight (kernel/sched/core.c), as parts of the weight of level 0. Processes share cores
// in proportion to it.
var niceWeights = func() (parts [NiceLevels]float64) {
	for level, weight := range [NiceLevels]float64{1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15} {
		parts[level] = weight / 1024
	}
	return parts
}()

// NiceShares tells how fast work of each nice level goes, as a part of its full speed, when it wants so many
// cores of a host, level by level. Levels share by weight. A level that cannot use its share leaves the
// rest to the others. rates is as long as wanted.
func NiceShares(cores float64, wanted, rates []float64) {
	weight := 0.0 // of the levels from this one on
	for level := len(wanted) - 1; level >= 0; level-- {
		weight += wanted[level] * niceWeights[level]
		rates[level] = weight
	}
	for level, weight := range rates {
		if wanted[level] == 0 {
			rates[level] = 1
			continue
		}
		rates[level] = min(1, cores*niceWeights[level]/weight)
		if rates[level] == 1 { // it has all that it wants, and so have those with a larger weight
			cores -= wanted[level]
			continue
		}
		for l := level + 1; l < len(rates); l++ {
			rates[l] = cores * niceWeights[l] / weight
		}
		return
	}
}

// UntilRequest is the length of a job's first work on the host.
func UntilRequest(p *Prediction) time.Duration { return p.Before }

// NiceByLength gives each job a nice level from the second to the last, the shortest first. A job of which
// nothing is known (nil) is in the middle.
func NiceByLength(expected []*Prediction, length func(*Prediction) time.Duration) []int {
	levels, known := make([]int, len(expected)), make([]int, 0, len(expected))
	for i, e := range expected {
		levels[i] = NiceLevels / 2
		if e != nil {
			known = append(known, i)
		}
	}
	slices.SortStableFunc(known, func(a, b int) int { return cmp.Compare(length(expected[a]), length(expected[b])) })
	for rank, i := range known {
		levels[i] = 1 + rank*(NiceLevels-1)/len(known)
	}
	return levels
}
