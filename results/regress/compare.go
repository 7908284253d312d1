package regress

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// Options of a comparison. Zero fields take the defaults of package stats.
type Options struct {
	Alpha     float64
	MinEffect float64
	Metrics   []results.Metric // nil: those of Unnamed
	// Unnamed are the metrics of batches or of open loads without Metrics; nil: results.Unnamed.
	Unnamed func(open bool) []results.Metric
}

// metrics are those of batches or of open loads.
func (o Options) metrics(open bool) []results.Metric {
	switch {
	case o.Metrics != nil:
		return o.Metrics
	case o.Unnamed != nil:
		return o.Unnamed(open)
	}
	return results.Unnamed(open)
}

// Row compares one metric of a pair of arms, or of two schedulers over all their mixes.
type Row struct {
	Pair   Pair // over several mixes, Mix of its arms names them together and Jobs is 0
	Mixes  int
	Metric results.Metric
	stats.Comparison
	LostMore bool // a side lost significantly more jobs, so that the figures are not comparable: Reason has its name
}

// Survivors reports whether the figures are others because jobs crashed, on either side: see
// results.Metric.
func (r Row) Survivors() bool {
	return r.Metric.OfSurvivors && lost(r.Pair.ARuns)+lost(r.Pair.BRuns) > 0
}

// Result is the comparison of B with A.
type Result struct {
	A, B      string
	Rows      []Row
	pairs     []Pair
	Names     results.Names // of the arms of both sides
	Notes     []string      // what limits the comparison
	Alpha     float64
	MinEffect float64
}

// Compare compares every metric of every pair of arms, and before that of schedulers over all their
// mixes. It adjusts the p values for the number of comparisons.
func Compare(a, b Side, o Options) (Result, error) {
	if o.Alpha == 0 {
		o.Alpha = stats.DefaultAlpha
	}
	out := Result{A: a.Label, B: b.Label, Alpha: o.Alpha, MinEffect: o.MinEffect}
	aArms, bArms := a.arms(), b.arms()
	out.Names = namesOf(aArms, bArms)
	pairs, onlyA, onlyB, err := pairsOf(aArms, bArms, out.Names)
	if err != nil {
		return out, fmt.Errorf("compare %s with %s: %w", a.Label, b.Label, err)
	}
	out.Notes = markNights(pairs, a, b, o, out.Names)
	out.pairs = pairs
	out.Notes = slices.Concat(out.Notes, out.Names.Notes(), together(a.notes(aArms, out.Names), b.notes(bArms, out.Names)), together(a.ofOpenLoad(aArms), b.ofOpenLoad(bArms)), remarks(pairs, out.Names))
	for _, arm := range onlyA {
		out.Notes = append(out.Notes, leftOut(arm, b, bArms, out.Names))
	}
	for _, arm := range onlyB {
		out.Notes = append(out.Notes, leftOut(arm, a, aArms, out.Names))
	}
	out.compare(slices.Concat(blocks(pairs), single(pairs)), o)
	for _, m := range o.Metrics {
		if !slices.ContainsFunc(out.Rows, func(r Row) bool { return r.Metric.Name == m.Name }) {
			out.Notes = append(out.Notes, noValue(m))
		}
	}
	return out, nil
}

func noValue(m results.Metric) string { return "no run has a value of " + m.Name + m.Needs }

// compare makes the rows of sets of pairs, each of which may have several mixes.
func (r *Result) compare(sets [][]Pair, o Options) {
	lost := lossesOf(sets, o.Alpha)
	var samples []stats.Pair
	var lostMore [][2]bool // of each row
	for _, block := range sets {
		all := block[0]
		if len(block) > 1 {
			all = merged(block)
		}
		for _, m := range o.metrics(all.A.Open || all.B.Open) {
			x, y := valuesOf(m)(all.ARuns), valuesOf(m)(all.BRuns)
			if len(x) == 0 && len(y) == 0 {
				continue
			}
			options := stats.Options{Alpha: o.Alpha, MinEffect: o.MinEffect, HigherIsBetter: m.HigherIsBetter, Absolute: m.Absolute}
			if m.Exact {
				options.MinEffect = 0
			}
			options.NoiseFree = !anyNoise(block)
			samples = append(samples, blockSample(block, valuesOf(m), options))
			r.Rows = append(r.Rows, Row{Pair: all, Mixes: len(block), Metric: m})
			lostMore = append(lostMore, lost.more(block))
		}
	}
	for i, c := range stats.CompareAll(samples) {
		row := &r.Rows[i]
		c.Settles *= onEach(samples[i], row.Mixes)
		if row.Pair.byNights { // it takes nights, not repetitions
			c.Settles = 0
		}
		switch {
		case c.B.N == 0 && dead(row.Pair.BRuns):
			c.Reason = "no job of " + r.B + " ended ok"
		case c.A.N == 0 && dead(row.Pair.ARuns):
			c.Reason = "no job of " + r.A + " ended ok"
		}
		row.Comparison = c
		if !row.Metric.Counts() {
			row.Comparison, row.LostMore = Beside(c, lostMore[i], r.A, r.B)
		}
	}
}

// blockSample is what is compared of a block: strata, or the values themselves if one arm ran on one
// machine.
func blockSample(block []Pair, values func([]Observation) []float64, o stats.Options) stats.Pair {
	if byNights := slices.ContainsFunc(block, func(p Pair) bool { return p.byNights }); byNights && !o.Counts {
		runs := values
		values = func(of []Observation) []float64 { return nightMeans(of, runs) }
	}
	if len(block) > 1 {
		all := strata(block, values)
		o.Paired = len(all) > len(block)
		return stats.Pair{Strata: all, Options: o}
	}
	on := byBlock(block[0].ARuns, block[0].BRuns, values)
	if len(on) > 1 {
		o.Paired = true
		return stats.Pair{Strata: on, Options: o}
	}
	return stats.Pair{A: on[0].A, B: on[0].B, Options: o}
}

// onEach is on how many machines an arm ran of which a sample is, on average over so many mixes. Its
// strata need so many times the repetitions of one stratum.
func onEach(sample stats.Pair, mixes int) int {
	return max(1, (len(sample.Strata)+mixes-1)/mixes)
}

func leftOut(arm results.Arm, other Side, arms map[results.Arm][]Observation, names results.Names) string {
	if sizes := otherSizes(arm, arms); sizes != "" {
		return fmt.Sprintf("%s is left out: %s ran it with %s", names.Of(arm), other.Label, sizes)
	}
	return fmt.Sprintf("%s is left out: %s has no run to compare it with", names.Of(arm), other.Label)
}

// together returns the notes of both sides, each note once: both sides may come from one sweep.
func together(a, b []string) []string {
	out := slices.Clone(a)
	for _, note := range b {
		if !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// Simulated reports whether any figure comes from a model.
func (r Result) Simulated() bool {
	return slices.ContainsFunc(r.pairs, func(p Pair) bool {
		return p.A.Mode == results.Simulated || p.B.Mode == results.Simulated
	})
}
