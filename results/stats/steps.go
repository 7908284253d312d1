package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Step is a change of a series' level.
type Step struct {
	At            int     // position of the first value of the new level
	Before, After float64 // medians of the levels on both sides
	Change        float64 // After/Before - 1, or After - Before if absolute; 0 of equal levels, also of 0 and 0
	P             float64 // of the test that found it
}

// StepOptions say what counts as a step. Zero fields other than Absolute take the defaults of
// comparisons, and MinEffect is as in Options.
type StepOptions struct {
	Alpha     float64 // probability of any step in series that have none, over all series together
	MinEffect float64
	Absolute  bool
}

// leastLevel is the smallest number of values on a side of a step. One value that differs is an
// outlier.
const leastLevel = 2

// Steps returns for each series the positions at which its level changes.
//
// A series is divided where the standardized rank sum of its beginning differs most from its
// expectation. This is Pettitt's test (1979) with the weights of the two-sample test at each
// position, as in Hawkins and Deng (2010): a step near the end of a series counts as much as a
// step in its middle. The p value is that of a permutation test. Each part is divided again
// until no p value is at most alpha over the number of series. Steps that are smaller than the
// minimum effect are then removed, the smallest first. The same series gives the same steps.
func Steps(series [][]float64, o StepOptions) [][]Step {
	if o.Alpha == 0 {
		o.Alpha = DefaultAlpha
	}
	level := o.Alpha / float64(max(1, len(series)))
	out := make([][]Step, len(series))
	for i, values := range series {
		found := divide(values, 0, level)
		slices.SortFunc(found, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
		out[i] = o.large(values, found)
	}
	return out
}

// divide finds the steps of a part of a series that begins at the position from.
func divide(values []float64, from int, alpha float64) []Step {
	at, p := split(values, alpha)
	if at == 0 {
		return nil
	}
	found := append(divide(values[:at], from, alpha), Step{At: from + at, P: p})
	return append(found, divide(values[at:], from+at, alpha)...)
}

// split returns the most likely step of a series and its p value; 0 if the p value is above
// alpha.
func split(values []float64, alpha float64) (at int, p float64) {
	ranks := centeredRanks(values)
	at, observed := highest(ranks)
	if at == 0 {
		return 0, 1
	}
	// Enough permutations that the smallest p value is well below alpha.
	rounds := max(1999, int(math.Ceil(4/alpha)))
	most := alpha * float64(rounds+1)
	random := rand.New(rand.NewPCG(1, uint64(len(values)))) //nolint:gosec // a test's permutations, the same each time
	reached := 1.0                                          // the observed order is one of the permutations
	for range rounds {
		random.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if _, found := highest(ranks); found >= observed-1e-9 {
			if reached++; reached > most {
				return 0, 1
			}
		}
	}
	return at, reached / float64(rounds+1)
}

// highest returns the position with the largest standardized rank sum; 0 if there is none.
func highest(ranks []float64) (at int, value float64) {
	n, sum := len(ranks), 0.0
	for k := 1; k <= n-leastLevel; k++ {
		sum += ranks[k-1]
		if k < leastLevel {
			continue
		}
		if v := math.Abs(sum) / math.Sqrt(float64(k)*float64(n-k)); v > value+1e-12 {
			at, value = k, v
		}
	}
	return at, value
}

// centeredRanks returns the rank of each value less the mean rank; equal values share theirs.
func centeredRanks(values []float64) []float64 {
	sorted := slices.Sorted(slices.Values(values))
	out := make([]float64, len(values))
	for i, v := range values {
		low, _ := slices.BinarySearch(sorted, v)
		high := low
		for high < len(sorted) && sorted[high] == v {
			high++
		}
		out[i] = float64(low+high-len(sorted)) / 2
	}
	return out
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
			s.Before, s.After = median(values[from:s.At]), median(values[s.At:to])
			s.Change = s.After - s.Before
			if !o.Absolute && s.Change != 0 {
				s.Change = s.After/s.Before - 1
			}
			if small := math.Abs(s.Change) < o.MinEffect; small && (least < 0 || math.Abs(s.Change) < math.Abs(steps[least].Change)) {
				least = i
			}
		}
		if least < 0 {
			return steps
		}
		steps = slices.Delete(steps, least, least+1)
	}
}

func median(values []float64) float64 { return Summarize(values, 1-DefaultAlpha).Median }

// StepLength returns the smallest number of values in a series in which Steps can find a step.
// The smallest possible p value is that of two levels without overlap, in the middle of the
// series. As extreme are 2 of the ways to choose the first level's values, and 4 if the number of
// values is odd.
func StepLength(alpha float64, series int) int {
	n := 2 * leastLevel
	for leastP(n/2, n-n/2)*float64(1+n%2)*float64(max(1, series)) > alpha {
		n++
	}
	return n
}
