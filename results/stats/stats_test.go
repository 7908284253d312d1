package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSummarize(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		values []float64
		want   Summary
	}{
		"empty": {nil, Summary{N: 0, Median: math.NaN(), Low: -inf, High: inf}},
		"one":   {[]float64{3}, Summary{N: 1, Median: 3, Low: -inf, High: inf}},
		"five":  {[]float64{5, 1, 4, 2, 3}, Summary{N: 5, Median: 3, Low: -inf, High: inf}},
		// Both tails beyond the extremes: 2 * 0.5^6 = 0.03125.
		"six": {[]float64{6, 1, 5, 2, 4, 3}, Summary{N: 6, Median: 3.5, Low: 1, High: 6}},
		// 2 * (1+10+45) / 1024 = 0.109 is above 0.05, 2 * 11 / 1024 is not.
		"ten": {[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, Summary{N: 10, Median: 5.5, Low: 2, High: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.values)
			got := Summarize(c.values, 0.95)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(before, c.values) {
				t.Errorf("it reordered the caller's values: %v", c.values)
			}
			if got.Bounded() != (len(c.values) >= 6) {
				t.Errorf("Bounded is %v", got.Bounded())
			}
		})
	}
}

// Computed by hand: the ordered p times 4, 3, 2, 1, at least the previous value and at most 1.
func TestHolm(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ p, want []float64 }{
		{nil, nil},
		{[]float64{0.03}, []float64{0.03}},
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.01, nan, 0.02}, []float64{0.02, nan, 0.02}},
		{[]float64{0.6, 0.5}, []float64{1, 1}},
	} {
		if diff := cmp.Diff(c.want, holm(c.p), cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("Holm(%v): %s", c.p, diff)
		}
	}
}

func TestLeastP(t *testing.T) {
	// 2/C(14,7), 2/C(8,4), 2/C(6,3), 2/C(10,3)
	for _, c := range []struct {
		n1, n2 int
		want   float64
	}{{7, 7, 2.0 / 3432}, {4, 4, 2.0 / 70}, {3, 3, 0.1}, {3, 7, 2.0 / 120}, {1, 1, 1}, {0, 5, 1}} {
		if got := leastP(c.n1, c.n2); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("LeastP(%d, %d) = %v, want %v", c.n1, c.n2, got, c.want)
		}
	}
	for _, c := range []struct{ tests, want int }{{1, 4}, {4, 5}, {32, 7}, {85, 7}, {86, 8}} {
		if got := repetitions(0.05, c.tests, 1); got != c.want {
			t.Errorf("Repetitions for %d tests: %d, want %d", c.tests, got, c.want)
		}
	}
}

// leastP is the smallest p value that benchmath gives.
func TestLeastPIsTheTests(t *testing.T) {
	for n := 1; n <= 12; n++ {
		var a, b []float64
		for i := range n {
			a, b = append(a, float64(i)), append(b, float64(100+i))
		}
		if got := compareOne(a, b, Options{}).P; math.Abs(got-leastP(n, n)) > 1e-9 {
			t.Errorf("n %d: p %v, LeastP %v", n, got, leastP(n, n))
		}
	}
}

func TestVerdicts(t *testing.T) {
	seven := []float64{100, 101, 99, 100.5, 99.5, 100.2, 99.8}
	times := func(f float64) []float64 {
		out := slices.Clone(seven)
		for i := range out {
			out[i] *= f
		}
		return out
	}
	wild := []float64{50, 160, 95, 130, 70, 110, 90}
	equal := []float64{5, 5, 5, 5, 5, 5, 5}
	for name, c := range map[string]struct {
		a, b   []float64
		o      Options
		want   Verdict
		reason string
		needed int
	}{
		"higher is worse":         {seven, times(1.05), Options{MinEffect: 0.02}, Worse, "", 0},
		"higher is better":        {seven, times(1.05), Options{MinEffect: 0.02, HigherIsBetter: true}, Better, "", 0},
		"lower is better":         {seven, times(0.95), Options{MinEffect: 0.02}, Better, "", 0},
		"the same":                {seven, seven, Options{MinEffect: 0.02}, Same, "", 0},
		"different, but too near": {seven, times(1.03), Options{MinEffect: 0.06}, Same, "", 0},
		"perhaps too near":        {seven, times(1.015), Options{MinEffect: 0.02}, Inconclusive, "they differ, perhaps by less than the minimum effect", 0},
		"perhaps too near, below": {seven, times(0.985), Options{MinEffect: 0.02}, Inconclusive, "they differ, perhaps by less than the minimum effect", 0},
		"noise":                   {wild, seven, Options{MinEffect: 0.02}, Inconclusive, "noise: a change of the minimum effect is neither shown nor excluded", 0},
		"three of each":           {seven[:3], times(2)[:3], Options{MinEffect: 0.02}, Inconclusive, "too few repetitions: needs 4 of each", 4},
		"one of each":             {seven[:1], seven[:1], Options{MinEffect: 0.02}, Inconclusive, "too few repetitions: needs 4 of each", 4},
		"nothing":                 {nil, seven, Options{}, Inconclusive, "nothing measured", 0},
		"equal values":            {equal, equal, Options{}, Same, "", 0},
		"equal values apart":      {equal, []float64{5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5}, Options{MinEffect: 0.02}, Worse, "", 0},
		"zeros":                   {[]float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}, Options{Absolute: true}, Same, "", 0},
		"0 to 0":                  {[]float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}, Options{}, Inconclusive, "both are 0, and 0/0 has no value", 0},
		"0 to 0 in most":          {[]float64{0, 0, 0, 4}, []float64{0, 0, 0, 5}, Options{}, Inconclusive, "both are 0, and 0/0 has no value", 0},
		"from zero":               {[]float64{0, 0, 0, 0}, []float64{0.25, 0.25, 0.25, 0.25}, Options{Absolute: true}, Worse, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := compareOne(c.a, c.b, c.o)
			if strings.Contains(c.reason, "0/0") && (!math.IsNaN(got.Change) || got.Bounded()) {
				t.Errorf("%+v", got)
			}
			if got.Verdict != c.want || got.Reason != c.reason || got.Needed != c.needed {
				t.Errorf("%s %q needed %d, want %s %q needed %d: %+v", got.Verdict, got.Reason, got.Needed, c.want, c.reason, c.needed, got)
			}
		})
	}
}

// Seven values on each side can be significant among 85 comparisons, but not among 86. Then the
// comparison says how many values are needed.
func TestManyComparisons(t *testing.T) {
	a := []float64{1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06}
	b := []float64{2, 2.01, 2.02, 2.03, 2.04, 2.05, 2.06}
	for _, n := range []int{85, 86} {
		pairs := make([]Pair, n)
		for i := range pairs {
			pairs[i] = Pair{A: a, B: a, Options: Options{MinEffect: 0.02}}
		}
		pairs[0].B = b
		got := CompareAll(pairs)[0]
		if n == 85 && got.Verdict != Worse {
			t.Errorf("of 85: %+v", got)
		}
		if n == 86 && (got.Verdict != Inconclusive || got.Needed != 8) {
			t.Errorf("of 86: %+v", got)
		}
	}
}

// A pair whose values are all equal does not weaken the other comparisons.
func TestConstantsDoNotCount(t *testing.T) {
	same, zero := []float64{2, 2, 2, 2}, []float64{0, 0, 0, 0}
	low, high := []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}
	got := CompareAll([]Pair{{A: same, B: same}, {A: low, B: high}, {A: nil, B: low}, {A: zero, B: zero}})
	if c := got[1]; c.Verdict != Worse || c.Adjusted != c.P {
		t.Errorf("adjusted p %v of %v, %s", c.Adjusted, c.P, c.Verdict)
	}
	if c := got[0]; c.Verdict != Same || c.Adjusted != 1 {
		t.Errorf("equal values: %+v", c)
	}
	if c := got[2]; c.Verdict != Inconclusive || !math.IsNaN(c.Adjusted) {
		t.Errorf("nothing measured: %+v", c)
	}
}

// The interval and the test agree: 0 lies outside the interval exactly if the test is
// significant.
func TestIntervalBelongsToTheTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	draw := func(n int, shift float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = math.Exp(shift + 0.1*rng.NormFloat64())
		}
		return out
	}
	for range 1500 {
		a, b := draw(1+rng.IntN(9), 0), draw(1+rng.IntN(9), 0.3*rng.Float64()-0.15)
		c := compareOne(a, b, Options{MinEffect: 0.01})
		outside := c.Low > 0 || c.High < 0
		if outside != (c.P <= 0.05) {
			t.Fatalf("p %v, interval %v to %v of %v and %v", c.P, c.Low, c.High, a, b)
		}
		if c.Low > c.Change || c.Change > c.High {
			t.Fatalf("change %v outside %v to %v", c.Change, c.Low, c.High)
		}
		if back := compareOne(b, a, Options{MinEffect: 0.01}); math.Abs(back.P-c.P) > 1e-12 {
			t.Fatalf("p depends on the order: %v and %v", c.P, back.P)
		}
	}
}

// The same of large samples, whose test and interval are approximate: in as many pairs as lie beyond the bound a
// is above b, and then in one more.
func TestIntervalOfLargeSamplesBelongsToTheTest(t *testing.T) {
	for _, n := range [][2]int{{51, 50}, {60, 60}, {80, 55}} {
		bound := outsidePairs(n[0], n[1], 0.05)
		for above, significant := range map[int]bool{bound: true, bound + 1: false} {
			a, b := make([]float64, n[0]), make([]float64, n[1])
			for i := range b {
				b[i] = 2000 + 10*float64(i)
			}
			for i := range a {
				a[i] = 1000 + float64(i) // below all of b
				if beaten := min(above, len(b)); beaten > 0 {
					a[i] = b[beaten-1] + 1 + 0.01*float64(i)
					above -= beaten
				}
			}
			c := compareOne(a, b, Options{MinEffect: 0.01})
			if outside := c.Low > 0 || c.High < 0; outside != significant || (c.P <= 0.05) != significant {
				t.Errorf("%v: p %v, interval %v to %v, want significant: %v", n, c.P, c.Low, c.High, significant)
			}
		}
	}
}

// nth agrees with sorting all changes, ties and zeros included.
func TestNthChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 200 {
		draw := func() []float64 {
			out := make([]float64, 1+rng.IntN(6))
			for i := range out {
				out[i] = float64(rng.IntN(5)) * []float64{1, 0.1}[rng.IntN(2)]
			}
			return out
		}
		p := newPairs(draw(), draw(), rng.IntN(2) == 0)
		var all []float64
		for _, x := range p.a {
			for _, y := range p.b {
				all = append(all, p.change(x, y))
			}
		}
		slices.Sort(all)
		for i, want := range all {
			if got := p.nth(i); got != want {
				t.Fatalf("change %d of %+v is %v, want %v of %v", i, p, got, want, all)
			}
		}
	}
}

// Intervals of the median and of the change cover the true value as often as they promise.
func TestCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	draw := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = math.Exp(0.05 * rng.NormFloat64())
		}
		return out
	}
	const trials = 1000
	median, shift := 0, 0
	for range trials {
		a, b := draw(7), draw(7)
		c := compareOne(a, b, Options{MinEffect: 0.01})
		if c.A.Low <= 1 && 1 <= c.A.High {
			median++
		}
		if c.Low <= 0 && 0 <= c.High {
			shift++
		}
	}
	// 0.95 less three standard deviations of a binomial share.
	least := int(trials * (0.95 - 3*math.Sqrt(0.95*0.05/trials)))
	if median < least || shift < least {
		t.Errorf("of %d intervals %d and %d cover the truth, want %d", trials, median, shift, least)
	}
}

// If one side hardly varies, the interval covers the true change less often than it promises, and the test finds
// one that is not there more often: docs/reference/statistics.md has these shares.
func TestCoverageOfUnequalNoise(t *testing.T) {
	const trials = 2000
	for ratio, want := range map[float64]float64{0.5: 0.956, 0.1: 0.905, 0.01: 0.877} {
		rng := rand.New(rand.NewPCG(4, 7))
		covered := 0
		for range trials {
			a, b := make([]float64, 7), make([]float64, 7)
			for i := range a {
				a[i], b[i] = math.Exp(0.01*rng.NormFloat64()), math.Exp(ratio*0.01*rng.NormFloat64())
			}
			c := compareOne(a, b, Options{MinEffect: 0.01})
			if c.Low <= 0 && 0 <= c.High {
				covered++
			}
		}
		share := float64(covered) / trials
		if math.Abs(share-want) > 0.02 { // three standard deviations
			t.Errorf("noise of %v times the other side's: %.3f of the intervals cover the change, want %.3f", ratio, share, want)
		}
	}
}

// For samples of 3 and 2 values, U is 0 to 6 in 1, 1, 2, 2, 2, 1, 1 of the 10 orders.
func TestRankings(t *testing.T) {
	if diff := cmp.Diff([]float64{1, 1, 2, 2, 2, 1, 1}, rankings(3, 2)); diff != "" {
		t.Error(diff)
	}
	sum := 0.0
	for _, w := range rankings(50, 50) {
		sum += w
	}
	if choose := 2 / leastP(50, 50); math.Abs(sum/choose-1) > 1e-9 {
		t.Errorf("%v orders of 50 and 50, want %v", sum, choose)
	}
}

// Large samples use the normal approximation, whose bounds are within one pair of the exact
// bounds.
func TestApproximation(t *testing.T) {
	for _, n := range [][2]int{{51, 50}, {60, 60}, {80, 55}} {
		exact, near := outsideOf(rankings(n[0], n[1]), 0.05), outsidePairs(n[0], n[1], 0.05)
		if near < exact-1 || near > exact+1 {
			t.Errorf("pairs outside of samples of %v: %d, exactly %d", n, near, exact)
		}
	}
}

// compareOne judges one pair alone.
func compareOne(a, b []float64, o Options) Comparison {
	return CompareAll([]Pair{{A: a, B: b, Options: o}})[0]
}
