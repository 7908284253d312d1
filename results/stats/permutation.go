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

// permutationP is the two-sided p value of the sum of B's scores over all blocks, if every choice
// of as many scores in each block is as likely. It is twice the smaller tail, and exact unless
// there are too many sums to count; then the sum is taken as normal.
func permutationP(blocks []draw) float64 {
	const work = 4e6 // additions, about 10 ms
	if cost(blocks) > work {
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

// normalP uses the exact mean and variance of the sum.
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
	return math.Erfc(math.Abs(distance) / math.Sqrt(2*variance))
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
func multiple(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
