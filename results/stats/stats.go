// Package stats summarizes and compares repeated measurements without assuming
// how they are distributed: medians with confidence intervals, the Mann-Whitney U
// test, Holm's correction, and a verdict with a minimum effect. It does no I/O.
// docs/statistics.md says why it is this way, with sources.
package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Summary is a sample's median with its confidence interval.
type Summary struct {
	N          int
	Median     float64 // NaN where N is 0
	Low, High  float64 // order statistics; infinite where Bounded says no
	Confidence float64 // of the interval: at least what was asked for
}

// Summarize gives the median of values, in any order, and its interval, whose
// bounds are order statistics (binomial distribution; no assumption). It takes
// 6 values for an interval at 0.95.
func Summarize(values []float64, confidence float64) Summary {
	if len(values) == 0 {
		return Summary{Median: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), Confidence: 1}
	}
	s := benchmath.AssumeNothing.Summary(sample(values, 1-confidence), confidence)
	out := Summary{N: len(values), Median: s.Center, Low: s.Lo, High: s.Hi, Confidence: s.Confidence}
	if !out.Bounded() { // benchmath bounds one side where that is enough
		out.Low, out.High, out.Confidence = math.Inf(-1), math.Inf(1), 1
	}
	return out
}

// Bounded reports whether there were enough values for an interval.
func (s Summary) Bounded() bool { return bounded(s.Low, s.High) }

func bounded(low, high float64) bool { return !math.IsInf(low, 0) && !math.IsInf(high, 0) }

// sample keeps the caller's order: benchmath sorts what it is given.
func sample(values []float64, alpha float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.Thresholds{CompareAlpha: alpha})
}

// Holm adjusts the p values of several tests so that the probability of any
// false rejection among them is at most the level that they are compared with
// (Holm 1979, step-down). A NaN is no test: it stays and does not count.
func Holm(p []float64) []float64 {
	out := slices.Clone(p)
	var order []int
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return 0
	})
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, p[i]*float64(len(order)-rank)))
		out[i] = least
	}
	return out
}

// pValue is benchmath's test. Samples whose values are all one value are no
// failure of it here: they do not differ.
func pValue(a, b []float64, alpha float64) float64 {
	return benchmath.AssumeNothing.Compare(sample(a, alpha), sample(b, alpha)).P
}
