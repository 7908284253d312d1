package regress

import (
	"fmt"
	"math"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// A side that lost significantly more jobs than the other one did less work, or other work. Its figures
// flatter it, so that no metric of it counts as better, and none passes a check.

// losses are tests of sets of pairs, each of which may have several mixes.
type losses []loss

type loss struct {
	pairs       []Pair
	excess      float64 // jobs that B lost per run less those of A: the mean over the pairs
	significant bool
}

// lossesOf tests sets of pairs together.
func lossesOf(sets [][]Pair, alpha float64) losses {
	out := make(losses, len(sets))
	samples := make([]stats.Pair, len(sets))
	for i, pairs := range sets {
		out[i].pairs = pairs
		samples[i], out[i].excess = lossSample(pairs, alpha)
	}
	for i, c := range stats.CompareAll(samples) {
		out[i].significant = c.Significant
	}
	return out
}

// lossSample is what is compared of the jobs that each run of pairs lost: their numbers, by an exact
// permutation test. Numbers of two batches that differ in their size are made those of one size.
func lossSample(pairs []Pair, alpha float64) (sample stats.Pair, excess float64) {
	values := numbersLost
	if a, b := pairs[0].A.Jobs, pairs[0].B.Jobs; len(pairs) == 1 && a != b && a > 0 && b > 0 {
		values = func(runs []Observation) (out []float64) {
			for _, o := range runs {
				out = append(out, float64(o.Metrics.Crashed*a*b/o.Jobs))
			}
			return out
		}
	}
	for _, p := range pairs {
		on := byBlock(p.ARuns, p.BRuns, values)
		for _, s := range on {
			excess += (stats.Mean(s.B) - stats.Mean(s.A)) / float64(len(on)*len(pairs))
		}
	}
	return blockSample(pairs, values, stats.Options{Alpha: alpha, Counts: true, Absolute: true, NoiseFree: !anyNoise(pairs)}), excess
}

// numbersLost are the numbers of jobs that runs lost.
func numbersLost(runs []Observation) (out []float64) {
	for _, o := range runs {
		out = append(out, float64(o.Metrics.Crashed))
	}
	return out
}

// more says of A and B whether it lost significantly more jobs in a set of pairs. A test of other pairs
// counts too if it is of a part of the set, and if it has a part of the set in which that side lost more.
func (l losses) more(set []Pair) (out [2]bool) {
	own := 0.0
	for _, one := range l {
		if within(one.pairs, set) && within(set, one.pairs) {
			own = one.excess
		}
	}
	for _, one := range l {
		if !one.significant || !slices.ContainsFunc(one.pairs, func(p Pair) bool { return has(set, p) }) {
			continue
		}
		part := within(one.pairs, set)
		out[0] = out[0] || one.excess < 0 && (part || own < 0)
		out[1] = out[1] || one.excess > 0 && (part || own > 0)
	}
	return out
}

// LostMore says of a base and each of the others whether it lost significantly more jobs than the other
// one. The runs of each are of one arm, and samples of their own.
func LostMore(base []results.Run, others [][]results.Run, alpha float64) [][2]bool {
	sets := make([][]Pair, len(others))
	for i, runs := range others {
		sets[i] = []Pair{{A: results.ArmOf(base[0]), B: results.ArmOf(runs[0]), ARuns: observations(base), BRuns: observations(runs)}}
	}
	lost := lossesOf(sets, alpha)
	out := make([][2]bool, len(sets))
	for i, set := range sets {
		out[i] = lost.more(set)
	}
	return out
}

func observations(runs []results.Run) (out []Observation) {
	for _, r := range runs {
		out = append(out, Observation{Run: r})
	}
	return out
}

// Beside is a comparison of a metric beside the jobs that A and B lost: if one of them lost significantly
// more, only a verdict against it counts.
func Beside(c stats.Comparison, lostMore [2]bool, a, b string) (judged stats.Comparison, changed bool) {
	name := b
	switch {
	case c.A.N == 0 || c.B.N == 0:
		return c, false
	case lostMore[1] && c.Verdict != stats.Worse:
	case lostMore[0] && c.Verdict != stats.Better:
		name = a
	default:
		return c, false
	}
	c.Verdict, c.Reason, c.Settles = stats.Inconclusive, fmt.Sprintf("not comparable: %s lost more jobs", name), 0
	return c, true
}

// Flatters reports whether a ratio of B to A makes the side look better that lost significantly more jobs.
func Flatters(ratio float64, higherIsBetter bool, lostMore [2]bool) bool {
	switch {
	case math.IsNaN(ratio) || ratio == 1:
		return false
	case ratio > 1 == higherIsBetter:
		return lostMore[1]
	}
	return lostMore[0]
}

// within reports whether all pairs are in a set.
func within(pairs, set []Pair) bool {
	return !slices.ContainsFunc(pairs, func(p Pair) bool { return !has(set, p) })
}

// has reports whether a pair of the same arms is in a set.
func has(set []Pair, p Pair) bool {
	return slices.ContainsFunc(set, func(o Pair) bool { return o.A == p.A && o.B == p.B })
}

// dead reports whether no job of any of the runs ended ok.
func dead(runs []Observation) bool {
	return len(runs) > 0 && !slices.ContainsFunc(runs, func(o Observation) bool { return o.Metrics.OK > 0 })
}
