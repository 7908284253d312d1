package stats

import (
	"math"
	"slices"
)

// draw is one block of a permutation test: scores of all values of both sides, of which side B
// has the chosen ones.
type draw struct {
	scores []int
	chosen []int // indexes of scores
}

// total is the sum of side B's scores.
func (d draw) total() int {
	sum := 0
	for _, i := range d.chosen {
		sum += d.scores[i]
	}
	return sum
}

// mannWhitney is the p value of Mann and Whitney's two-sided test, given the ties of the values: twice
// the smaller tail, because the tails differ if values tie and the sides' sizes differ. It is exact
// as permutationP is, and without ties also up to the size that is called exact.
func mannWhitney(a, b []float64) float64 {
	d := ranks(a, b)
	if len(a) > exact || len(b) > exact || tied(d.scores) {
		return permutationP([]draw{d})
	}
	ways := rankings(len(a), len(b))
	u := d.total()/2 - len(b)*(len(b)+1)/2
	tail, all := 0.0, 0.0
	for i, w := range ways {
		all += w
		if i <= min(u, len(a)*len(b)-u) {
			tail += w
		}
	}
	return min(1, 2*tail/all)
}

// tied reports whether two scores are equal.
func tied(scores []int) bool {
	sorted := slices.Sorted(slices.Values(scores))
	return len(slices.Compact(sorted)) < len(scores)
}

// permutationP is the two-sided p value of the sum of B's scores over all blocks, if every choice
// of as many scores in each block is as likely. It is twice the smaller tail, and exact unless
// there are too many sums to count; then the sum is taken as normal.
func permutationP(blocks []draw) float64 {
	const work = 4e6  // additions, about 10 ms
	const most = 1000 // values of a block, of whose choices a float64 can hold the number
	if cost(blocks) > work || slices.ContainsFunc(blocks, func(b draw) bool { return len(b.scores) > most }) {
		return normalP(blocks)
	}
	total, ways := 0, []float64{1}
	for _, b := range blocks {
		least := slices.Min(b.scores)
		total += b.total() - least*len(b.chosen)
		ways = convolve(ways, b.distribution(least))
	}
	below, above := 0.0, 0.0
	for sum, p := range ways {
		if sum <= total {
			below += p
		}
		if sum >= total {
			above += p
		}
	}
	return min(1, 2*min(below, above))
}

// span is the largest sum of a choice, less the smallest possible score of each chosen value.
func (d draw) span() int {
	sorted := slices.Sorted(slices.Values(d.scores))
	sum := 0
	for _, s := range sorted[len(sorted)-len(d.chosen):] {
		sum += s - sorted[0]
	}
	return sum
}

func cost(blocks []draw) float64 {
	sum, reach := 0.0, 1.0
	for _, b := range blocks {
		span := float64(b.span())
		sum += float64(len(b.scores)*len(b.chosen))*span + reach*span
		reach += span
	}
	return sum
}

// distribution has the probability of each sum of a choice of the scores, which are counted from
// least.
func (d draw) distribution(least int) []float64 {
	m, span := len(d.chosen), d.span()
	ways := make([][]float64, m+1) // of choosing so many of the scores so far, by sum
	for i := range ways {
		ways[i] = make([]float64, span+1)
	}
	ways[0][0] = 1
	for _, score := range d.scores {
		s := score - least
		for k := m; k > 0; k-- {
			for sum := span; sum >= s; sum-- {
				ways[k][sum] += ways[k-1][sum-s]
			}
		}
	}
	all := 0.0
	for _, w := range ways[m] {
		all += w
	}
	for i := range ways[m] {
		ways[m][i] /= all
	}
	return ways[m]
}

func convolve(a, b []float64) []float64 {
	out := make([]float64, len(a)+len(b)-1)
	for i, x := range a {
		if x == 0 {
			continue
		}
		for j, y := range b {
			out[i+j] += x * y
		}
	}
	return out
}

// normalP uses the exact mean and variance of the sum, and half a step of it as continuity correction.
func normalP(blocks []draw) float64 {
	distance, variance := 0.0, 0.0
	for _, b := range blocks {
		n, m := float64(len(b.scores)), float64(len(b.chosen))
		mean, squares := 0.0, 0.0
		for _, s := range b.scores {
			mean += float64(s) / n
		}
		for _, s := range b.scores {
			squares += (float64(s) - mean) * (float64(s) - mean)
		}
		distance += float64(b.total()) - m*mean
		variance += m * (n - m) / (n * (n - 1)) * squares
	}
	if variance == 0 {
		return 1
	}
	return math.Erfc(max(0, math.Abs(distance)-float64(step(blocks))/2) / math.Sqrt(2*variance))
}

// step is what all sums of choices differ by, or a multiple of it.
func step(blocks []draw) int {
	out := 0
	for _, b := range blocks {
		for _, s := range b.scores {
			out = divisor(out, s-b.scores[0])
		}
	}
	return out
}

// ranks gives each value the double of its rank among both sides. Equal values share the mean of
// their ranks, so that the double is whole.
func ranks(a, b []float64) draw {
	all := slices.Concat(a, b)
	sorted := slices.Sorted(slices.Values(all))
	d := draw{scores: make([]int, len(all))}
	for i, v := range all {
		first, _ := slices.BinarySearch(sorted, v)
		last := first
		for last+1 < len(sorted) && sorted[last+1] == v {
			last++
		}
		d.scores[i] = first + 1 + last + 1
	}
	for i := range b {
		d.chosen = append(d.chosen, len(a)+i)
	}
	return d
}

// weighted multiplies the ranks of each block by what makes their weights proportional to
// 1 / (N + 1), where N is the number of the block's values: van Elteren's weights.
func weighted(blocks []draw) []draw {
	common := 1
	for _, b := range blocks {
		if common = multiple(common, len(b.scores)+1); common > 1e6 {
			break
		}
	}
	for _, b := range blocks {
		weight := max(1, common/(len(b.scores)+1))
		for i := range b.scores {
			b.scores[i] *= weight
		}
	}
	return blocks
}

// multiple is the least common multiple.
func multiple(a, b int) int { return a / divisor(a, b) * b }

// divisor is the greatest common divisor, not negative.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}
