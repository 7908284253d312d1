package stats

import (
	"fmt"
	"math"
	"slices"
)

// Defaults of Options; docs/reference/statistics.md says where they come from.
const (
	DefaultAlpha     = 0.05
	DefaultMinEffect = 0.02
)

// Verdict is the answer of a comparison of B with A.
type Verdict string

const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Same         Verdict = "same"         // the interval excludes a change of the minimum effect or more
	Inconclusive Verdict = "inconclusive" // neither a change nor sameness is shown
)

// Options say what a comparison decides.
type Options struct {
	Alpha          float64 // for all comparisons of one CompareAll together; 0: DefaultAlpha
	MinEffect      float64 // the smallest change that matters: a ratio, or a difference if Absolute
	HigherIsBetter bool
	Absolute       bool // changes are differences instead of ratios
	// Counts are whole numbers whose sums are compared instead of their ranks, by an exact
	// permutation test: how often would runs that are dealt to the sides at random differ as much.
	Counts bool
	// Paired says that strata repeat one another, as machines do, so that strata of one value of each
	// side are pairs.
	Paired bool
	// NoiseFree says that each side is one sample, because its values cannot but repeat. There is
	// no test then, no interval and no verdict.
	NoiseFree bool
}

func (o Options) alpha() float64 {
	if o.Alpha == 0 {
		return DefaultAlpha
	}
	return o.Alpha
}

// Pair is what one comparison compares: B against A, which are a sample each, or blocks of
// samples that are compared within the blocks.
type Pair struct {
	A, B    []float64
	Strata  []Stratum // if not nil, in place of A and B
	Options Options
}

// Comparison is the result for one pair.
type Comparison struct {
	// A and B are of each side. Over strata, N counts all values, and Median is the geometric mean
	// of the strata's means, or if Absolute their mean.
	A, B   Summary
	Strata int // blocks over which the sides were compared; 0: one sample each
	// Change of B against A is the median over all pairs of values: a ratio - 1, or a
	// difference if Absolute. Over strata it is of the means that Median has. It is NaN if a side is
	// empty, and if it would be a ratio of 0 to 0. Low and High bound the change with confidence
	// 1 - alpha for this comparison alone. They are infinite if there are too few values.
	Change, Low, High float64
	P                 float64 // two-sided Mann-Whitney, or van Elteren over strata; NaN if a side is empty
	Adjusted          float64 // P after Holm's correction for Tests comparisons
	Tests             int
	Significant       bool // Adjusted < alpha
	// Needed is the number of values that each side needs before any difference can be
	// significant among Tests comparisons; 0 if there are enough values.
	Needed    int
	MinEffect float64
	Verdict   Verdict
	Reason    string // why the verdict is Inconclusive
	// Settles is the number of values that each side, or each side of each stratum, needs so that
	// the verdict is probably not Inconclusive; 0 if the verdict is another one, or no number up
	// to a hundred would do.
	Settles int

	sizes [][2]int // of the sides, in each stratum
}

// Bounded reports whether there were enough values for the change's interval.
func (c Comparison) Bounded() bool { return bounded(c.Low, c.High) }

// Resolution is half the width of the change's interval; infinite if the interval is unbounded.
// A smaller true change does not stand out.
func (c Comparison) Resolution() float64 {
	if !c.Bounded() {
		return math.Inf(1)
	}
	return (c.High - c.Low) / 2
}

// CompareAll judges pairs together: it adjusts their p values so that alpha holds for all pairs
// together. A pair that cannot show a difference, because a side is empty or all values are
// equal, does not count as a test (Tarone 1990).
func CompareAll(pairs []Pair) []Comparison {
	out := make([]Comparison, len(pairs))
	p := make([]float64, len(pairs))
	tests := 0
	for i, pair := range pairs {
		if pair.Strata != nil {
			out[i] = pool(pair.Strata, pair.Options)
		} else {
			out[i] = measure(pair)
		}
		if pair.Options.NoiseFree {
			out[i].P, out[i].Low, out[i].High = math.NaN(), math.Inf(-1), math.Inf(1)
		}
		p[i] = out[i].P
		if constant(pair) {
			p[i] = math.NaN()
		}
		if !math.IsNaN(p[i]) {
			tests++
		}
	}
	for i, adjusted := range holm(p) {
		if math.IsNaN(adjusted) {
			adjusted = out[i].P
		}
		out[i].Adjusted = adjusted
		out[i].judge(pairs[i].Options, max(tests, 1))
	}
	return out
}

// constant reports whether all values of both sides are equal.
func constant(pair Pair) bool {
	for _, s := range used(pair.Strata) {
		if !constant(Pair{A: s.A, B: s.B}) {
			return false
		}
	}
	for _, v := range slices.Concat(pair.A, pair.B) {
		if len(pair.A) == 0 || v != pair.A[0] {
			return false
		}
	}
	return true
}

func measure(pair Pair) Comparison {
	alpha := pair.Options.alpha()
	c := Comparison{A: Summarize(pair.A, 1-alpha), B: Summarize(pair.B, 1-alpha), P: math.NaN(), MinEffect: pair.Options.MinEffect,
		sizes: [][2]int{{len(pair.A), len(pair.B)}}}
	c.Change, c.Low, c.High = change(pair.A, pair.B, pair.Options.Absolute, 1-alpha)
	if c.A.N > 0 && c.B.N > 0 {
		if pair.Options.Counts {
			c.P = permutationP([]draw{counts(pair.A, pair.B)})
		} else {
			c.P = mannWhitney(pair.A, pair.B)
		}
	}
	return c
}

// untestable says why there is no verdict; it is empty if there is one.
func (c *Comparison) untestable(o Options) string {
	switch {
	case o.NoiseFree && c.A.N > 0 && c.B.N > 0:
		return "no noise: one sample of each"
	case math.IsNaN(c.P):
		return "nothing measured"
	case math.IsNaN(c.Change):
		return "both are 0, and 0/0 has no value"
	}
	return ""
}

func (c *Comparison) judge(o Options, tests int) {
	if why := c.untestable(o); why != "" {
		c.Verdict, c.Reason = Inconclusive, why
		return
	}
	alpha := o.alpha()
	c.Tests = tests
	c.Significant = c.Adjusted < alpha
	if !c.Significant && leastOf(c.sizes)*float64(tests) >= alpha {
		c.Needed = repetitions(alpha, tests, len(c.sizes))
	}
	switch {
	case c.Significant && math.Abs(c.Change) >= o.MinEffect && c.Change != 0 && !c.Divided():
		c.Verdict = Worse
		if c.Change > 0 == o.HigherIsBetter {
			c.Verdict = Better
		}
	case c.Bounded() && c.excludesEffect(o.MinEffect):
		c.Verdict = Same
	case c.Needed > 0:
		c.Verdict, c.Reason = Inconclusive, tooFewIn(c.Strata, c.Needed, tests)
	case c.Divided():
		c.Verdict, c.Reason = Inconclusive, "the blocks differ in different directions"
	case c.Significant:
		c.Verdict, c.Reason = Inconclusive, "they differ, perhaps by less than the minimum effect"
	default:
		c.Verdict, c.Reason = Inconclusive, "noise: a change of the minimum effect is neither shown nor excluded"
	}
	if c.Verdict == Inconclusive {
		room := math.Abs(c.Change)
		if room < o.MinEffect {
			room = o.MinEffect - room
		}
		c.Settles = c.RepetitionsFor(room, alpha)
	}
}

// Divided reports whether the interval of a pooled change includes no change although the test
// found a difference: some blocks gained and others lost.
func (c Comparison) Divided() bool {
	return c.Strata > 0 && c.Significant && c.Bounded() && c.Low <= 0 && c.High >= 0
}

// RepetitionsFor is about how many values each side, or each side of each stratum, needs so that
// half the width of the change's interval, corrected for all tests, is less than room. It is 0 if
// this is not known, or more than a hundred.
func (c Comparison) RepetitionsFor(room, alpha float64) int {
	const most = 100
	least, now := repetitions(alpha, max(c.Tests, 1), len(c.sizes)), math.MaxInt
	for _, n := range c.sizes {
		now = min(now, n[0], n[1])
	}
	if !c.Bounded() {
		return max(least, now+1)
	}
	quantile := func(p float64) float64 { return math.Sqrt2 * math.Erfinv(1-p) }
	width := c.Resolution() * quantile(alpha/float64(max(c.Tests, 1))) / quantile(alpha)
	n := math.Ceil(float64(now) * (width / room) * (width / room))
	if !(n <= most) {
		return 0
	}
	return max(least, now+1, int(n))
}

// excludesEffect reports whether the interval lies within the minimum effect. If the minimum
// effect is 0, both bounds must be 0.
func (c *Comparison) excludesEffect(effect float64) bool {
	if effect == 0 {
		return c.Low == 0 && c.High == 0
	}
	return c.Low > -effect && c.High < effect
}

func tooFew(needed, tests int) string {
	if tests == 1 {
		return fmt.Sprintf("too few repetitions: needs %d of each", needed)
	}
	return fmt.Sprintf("too few repetitions: needs %d of each for %d comparisons at once", needed, tests)
}
