package stats

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// Step is a change of a series' level.
type Step struct {
	At int // position of the first value of the new level
	// First and Last are the positions between which the new level begins, with confidence 95 %. At is one of them.
	First, Last   int
	Before, After float64 // medians of the levels on both sides
	Change        float64 // After/Before - 1, or After - Before if absolute; 0 of equal levels, also of 0 and 0
	Low, High     float64 // interval of the change, 95 %, over the values of both levels; infinite if there are too few
	P             float64 // of the test that found it
}

// StepOptions say what counts as a step.
type StepOptions struct {
	MinEffect float64 // as in Options
	Absolute  bool
	// Counts are shares of whole numbers that are often equal, such as 0. t takes such values for
	// constant, so that their ranks must differ as clearly as t does.
	Counts bool
}

// StepAlpha is the largest p value of a step. It is of one series, so that the steps of a series do not depend on which other
// series are looked at. docs/reference/statistics.md says how often a series without a step has one.
const StepAlpha = 0.01

// leastLevel is the smallest number of values on a side of a step. One value that differs is an
// outlier.
const leastLevel = 2

// leastStretch and mostStretch are the smallest and the largest number of values of a level that is looked for between values of
// another one. A longer one takes too long to look for, and its beginning is found without.
const (
	leastStretch = 3
	mostStretch  = 200
)

// Steps returns the positions at which the level of a series changes.
//
// A series is divided where Student's t between both sides is largest (Hawkins 1977), or else around the stretch whose t against
// all other values is largest (Olshen et al. 2004). The p value of t, times the number of positions or of stretches, bounds the
// probability of a step in a series of normal values that has none (Bonferroni). The ranks must differ too, so that an outlier is
// not a level. Each part is divided again. Steps that are smaller than the minimum effect, or whose levels do not differ by
// their ranks, are then removed, the smallest first.
func Steps(values []float64, o StepOptions) []Step {
	return o.large(values, o.divide(values, 0))
}

// divide finds the steps of a part of a series that begins at the position from, in order.
func (o StepOptions) divide(values []float64, from int) []Step {
	cuts, p := o.cuts(values)
	if cuts == nil {
		return nil
	}
	var found []Step
	begin := 0
	for _, at := range cuts {
		found = append(append(found, o.divide(values[begin:at], from+begin)...), Step{At: from + at, P: p})
		begin = at
	}
	return append(found, o.divide(values[begin:], from+begin)...)
}

// cuts are where a series is divided: at one position, or else around a stretch whose level is another one; nil if neither is
// found.
func (o StepOptions) cuts(values []float64) (at []int, p float64) {
	n, apart := len(values), separation(values)
	var best int
	var from, to int // of a stretch
	stretches := 0
	for k := leastLevel; k <= n-leastLevel; k++ {
		if best == 0 || apart(0, k) > apart(0, best) {
			best = k
		}
		for end := k + leastStretch; end <= min(k+mostStretch, n-leastLevel); end++ {
			if stretches++; stretches == 1 || apart(k, end) > apart(from, to) {
				from, to = k, end
			}
		}
	}
	if best > 0 {
		p := pOf(apart(0, best), n, n-2*leastLevel+1)
		if p <= StepAlpha && o.differ(values[:best], values[best:], 1) {
			return []int{best}, p
		}
	}
	if stretches > 0 {
		p := pOf(apart(from, to), n, stretches)
		if p <= StepAlpha && o.differ(slices.Concat(values[:from], values[to:]), values[from:to], n) {
			return []int{from, to}, p
		}
	}
	return nil, 1
}

// differ reports whether the Mann-Whitney test finds different levels, which could lie at so many places.
func (o StepOptions) differ(a, b []float64, places int) bool {
	return mannWhitney(a, b)*float64(places) <= o.ranksAlpha()
}

func (o StepOptions) ranksAlpha() float64 {
	if o.Counts {
		return StepAlpha
	}
	return DefaultAlpha
}

// pOf bounds the p value of the largest separation among so many of n values: that of Student's t for one, times their number.
func pOf(apart float64, n, tried int) float64 {
	freedom := float64(n - 2)
	t := math.Sqrt(freedom * apart / (1 - apart)) // infinite if both sides are constant
	if math.IsInf(t, 1) {
		return 0
	}
	return min(1, 2*stats.TDist{V: freedom}.CDF(-t)*float64(tried))
}

// separation returns a function of two positions: how much of the sum of squares of values lies between two means, that of the
// values from the first position up to the second, and that of all others. It is a share, and 0 of equal values.
func separation(values []float64) func(from, to int) float64 {
	n := float64(len(values))
	mean := stats.Mean(values)
	total, sums := 0.0, make([]float64, len(values)+1)
	for i, v := range values {
		total += (v - mean) * (v - mean)
		sums[i+1] = sums[i] + v - mean
	}
	return func(from, to int) float64 {
		k, sum := float64(to-from), sums[to]-sums[from]
		share := sum * sum * n / (k * (n - k) * total)
		switch {
		case total == 0:
			return 0
		case share > 1-1e-12: // but for rounding
			return 1
		}
		return share
	}
}

// Turn is where the level of a series changes that is known to change once.
type Turn struct{ At, First, Last int } // as in Step

// TurnOf finds where a series changes that has two values at least. First and Last bound the shortest interval that has 95 %
// of the posterior distribution (Smith 1975). The prior of the position is flat, and those of the levels and the variance of
// normal values are vague. Either level may be of one value.
func TurnOf(values []float64) Turn {
	n := len(values)
	apart := separation(values)
	weights := make([]float64, n)
	t, best := Turn{At: 1}, math.Inf(-1)
	for k := 1; k < n; k++ {
		rest := max(1-apart(0, k), 1e-12) // of the sum of squares; 0 of constant levels
		weights[k] = -float64(n-2)/2*math.Log(rest) - math.Log(float64(k)*float64(n-k))/2
		if weights[k] > best {
			best, t.At = weights[k], k
		}
	}
	total := 0.0
	for k := 1; k < n; k++ {
		weights[k] = math.Exp(weights[k] - best)
		total += weights[k]
	}
	t.First, t.Last = t.At, t.At
	for share := weights[t.At]; share < (1-DefaultAlpha)*total; {
		if t.Last+1 == n || t.First > 1 && weights[t.First-1] >= weights[t.Last+1] {
			t.First--
			share += weights[t.First]
		} else {
			t.Last++
			share += weights[t.Last]
		}
	}
	return t
}

// large completes steps with their levels, and removes those below the minimum effect.
func (o StepOptions) large(values []float64, steps []Step) []Step {
	for {
		least := -1
		for i := range steps {
			s := &steps[i]
			from, to := 0, len(values)
			if i > 0 {
				from = steps[i-1].At
			}
			if i+1 < len(steps) {
				to = steps[i+1].At
			}
			older, newer := values[from:s.At], values[s.At:to]
			s.Before, s.After = median(older), median(newer)
			s.Change = s.After - s.Before
			if !o.Absolute && s.Change != 0 {
				s.Change = s.After/s.Before - 1
			}
			_, s.Low, s.High = change(older, newer, o.Absolute, 1-DefaultAlpha)
			turn := TurnOf(values[from:to])
			s.First, s.Last = min(s.At, from+turn.First), max(s.At, from+turn.Last)
			small := math.Abs(s.Change) < o.MinEffect || !o.differ(older, newer, 1)
			if small && (least < 0 || math.Abs(s.Change) < math.Abs(steps[least].Change)) {
				least = i
			}
		}
		if least < 0 {
			return steps
		}
		steps = slices.Delete(steps, least, least+1)
	}
}

// Mean is NaN of nothing.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func median(values []float64) float64 { return Summarize(values, 1-DefaultAlpha).Median }

// Length is the smallest number of values in a series in which Steps can find a step: the
// Mann-Whitney test must be able to find two levels.
func (o StepOptions) Length() int {
	n := 2 * leastLevel
	for leastP(n/2, n-n/2) > o.ranksAlpha() {
		n++
	}
	return n
}
