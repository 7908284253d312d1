package stats

import (
	"math"
	"slices"
)

// change returns the shift of b against a: the median over all pairs of one value of each
// (Hodges and Lehmann 1963), with its interval. The interval belongs to the Mann-Whitney test:
// ties aside, it contains 0 exactly if the test at the same level finds no difference. A
// relative change is b/a - 1, an absolute one b - a. Of samples that are both 0, in half of their
// values at least, the ratio is 0/0, which has no value.
func change(a, b []float64, absolute bool, confidence float64) (median, low, high float64) {
	if len(a) == 0 || len(b) == 0 {
		return math.NaN(), math.Inf(-1), math.Inf(1)
	}
	p := newPairs(a, b, absolute)
	if !absolute && mostlyZero(p.a) && mostlyZero(p.b) {
		return math.NaN(), math.Inf(-1), math.Inf(1)
	}
	n := len(a) * len(b)
	median = p.nth(n / 2)
	if below := p.nth((n - 1) / 2); below != median {
		median = below/2 + median/2
	}
	outside := outsidePairs(len(a), len(b), 1-confidence)
	if outside < 0 {
		return median, math.Inf(-1), math.Inf(1)
	}
	return median, p.nth(outside), p.nth(n - 1 - outside)
}

// mostlyZero reports whether half of a sample at least is 0. The sample is ascending and not negative.
func mostlyZero(sorted []float64) bool { return sorted[(len(sorted)-1)/2] == 0 }

// pairs are the n1 * n2 changes between two samples, which are too many to list.
type pairs struct {
	a, b     []float64 // ascending; a is not negative unless absolute
	absolute bool
}

func newPairs(a, b []float64, absolute bool) pairs {
	return pairs{slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)), absolute}
}

// change rises with y and falls with x.
func (p pairs) change(x, y float64) float64 {
	switch {
	case p.absolute:
		return y - x
	case x == y:
		return 0 // also for 0/0, which is a tie where most values are not 0
	}
	return y/x - 1
}

// upTo counts the pairs whose change is at most v.
func (p pairs) upTo(v float64) int {
	n, j := 0, 0
	for _, x := range p.a {
		for j < len(p.b) && p.change(x, p.b[j]) <= v {
			j++
		}
		n += j
	}
	return n
}

// nth returns the nth smallest change, counted from 0. It bisects the range of changes until no
// floating-point number lies inside.
func (p pairs) nth(n int) float64 {
	low := math.Nextafter(p.change(p.a[len(p.a)-1], p.b[0]), math.Inf(-1))
	high := p.change(p.a[0], p.b[len(p.b)-1])
	if math.IsInf(high, 1) {
		if p.upTo(math.MaxFloat64) <= n {
			return high
		}
		high = math.MaxFloat64
	}
	for {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			return high
		}
		if p.upTo(middle) > n {
			high = middle
		} else {
			low = middle
		}
	}
}

// exact is the largest size of a sample for which the orders without ties are counted.
const exact = 50

// outsidePairs returns how many of the ordered changes lie beyond each bound of the interval.
// It is negative if even the interval over all changes has less confidence than 1 - alpha.
func outsidePairs(n1, n2 int, alpha float64) int {
	if n1 > exact || n2 > exact {
		// Normal approximation with continuity correction.
		mean := float64(n1) * float64(n2) / 2
		sd := math.Sqrt(float64(n1) * float64(n2) * float64(n1+n2+1) / 12)
		z := math.Sqrt2 * math.Erfinv(1-alpha)
		return int(math.Floor(mean - z*sd - 0.5))
	}
	return outsideOf(rankings(n1, n2), alpha)
}

// outsideOf is outsidePairs for the orders counted in ways.
func outsideOf(ways []float64, alpha float64) int {
	total := 0.0
	for _, w := range ways {
		total += w
	}
	outside, below := -1, 0.0
	for u := 0; u < len(ways); u++ {
		if below += ways[u]; 2*below > alpha*total {
			break
		}
		outside = u
	}
	return outside
}

// rankings counts for each value of Mann and Whitney's U the orders of two samples without ties
// that give this value. The counts are the coefficients of a Gaussian binomial, the product of
// (1 - q^(n2+i)) / (1 - q^i) over i from 1 to n1.
func rankings(n1, n2 int) []float64 {
	ways := make([]float64, n1*n2+1)
	ways[0] = 1
	for i := 1; i <= n1; i++ {
		for u := len(ways) - 1; u >= n2+i; u-- {
			ways[u] -= ways[u-n2-i]
		}
		for u := i; u < len(ways); u++ {
			ways[u] += ways[u-i]
		}
	}
	return ways
}

// leastP is the smallest p value that a two-sided Mann-Whitney test of samples of these sizes
// can give, with ties or without: 2 over the number of ways to choose n1 of the n1 + n2 values.
func leastP(n1, n2 int) float64 {
	if n1 == 0 || n2 == 0 {
		return 1
	}
	lg := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	return min(1, 2*math.Exp(lg(n1)+lg(n2)-lg(n1+n2)))
}

// repetitions is the number of values that each side needs in each of so many blocks so that the
// smallest possible p value of one among the given number of tests is significant at alpha.
func repetitions(alpha float64, tests, blocks int) int {
	const most = 1000
	n := 1
	for n < most && 2*math.Pow(leastP(n, n)/2, float64(blocks))*float64(tests) >= alpha {
		n++
	}
	return n
}
