// Package stats summarizes and compares repeated measurements without assuming a distribution:
// medians with confidence intervals, the Mann-Whitney U test, Holm's correction, and a verdict
// with a minimum effect. It does no I/O. docs/reference/statistics.md has the reasons and sources.
package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Summary is a sample's median with its confidence interval.
type Summary struct {
	N         int
	Median    float64 // NaN if N is 0
	Low, High float64 // order statistics; infinite if not Bounded
}

// Summarize returns the median of values, which may be in any order, and its interval. The
// bounds are order statistics (by the binomial distribution, without further assumptions). An
// interval at 0.95 takes 6 values.
func Summarize(values []float64, confidence float64) Summary {
	if len(values) == 0 {
		return Summary{Median: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
	}
	s := benchmath.AssumeNothing.Summary(sample(values, 1-confidence), confidence)
	out := Summary{N: len(values), Median: s.Center, Low: s.Lo, High: s.Hi}
	if !out.Bounded() { // benchmath bounds only one side if that is enough
		out.Low, out.High = math.Inf(-1), math.Inf(1)
	}
	return out
}

// Bounded reports whether there were enough values for an interval.
func (s Summary) Bounded() bool { return bounded(s.Low, s.High) }

func bounded(low, high float64) bool { return !math.IsInf(low, 0) && !math.IsInf(high, 0) }

// sample copies the values, because benchmath sorts its argument.
func sample(values []float64, alpha float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.Thresholds{CompareAlpha: alpha})
}

// holm adjusts the p values of several tests (Holm 1979, step-down). The probability of any
// false rejection is then at most the level with which the adjusted values are compared. A NaN
// is not a test: it stays NaN and does not count.
func holm(p []float64) []float64 {
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
