package stats

import (
	"slices"

	"github.com/aclements/go-moremath/mathx"
)

// KruskalWallis is the p value of the test that samples have one distribution (Kruskal and Wallis 1952), with the
// correction for ties, by the chi-squared distribution. It is 1 if there is nothing to tell apart.
func KruskalWallis(samples [][]float64) float64 {
	all := slices.Concat(samples...)
	n := float64(len(all))
	sorted := slices.Sorted(slices.Values(all))
	rank := func(v float64) float64 { // the mean of equal values' ranks
		first, _ := slices.BinarySearch(sorted, v)
		last := first
		for last+1 < len(sorted) && sorted[last+1] == v {
			last++
		}
		return float64(first+last)/2 + 1
	}
	groups, h := 0.0, 0.0
	for _, sample := range samples {
		if len(sample) == 0 {
			continue
		}
		groups++
		sum := 0.0
		for _, v := range sample {
			sum += rank(v) - (n+1)/2
		}
		h += sum * sum / float64(len(sample))
	}
	spread := 0.0 // of all ranks
	for _, v := range sorted {
		d := rank(v) - (n+1)/2
		spread += d * d
	}
	if groups < 2 || spread == 0 {
		return 1
	}
	h *= (n - 1) / spread
	return mathx.GammaIncComp((groups-1)/2, h/2)
}
