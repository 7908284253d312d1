package stats

import (
	"fmt"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// Stratum has the values of both sides of one block, such as a mix. Values are compared within
// their block only.
type Stratum struct{ A, B []float64 }

// used are the strata that can be compared.
func used(strata []Stratum) []Stratum {
	var out []Stratum
	for _, s := range strata {
		if len(s.A) > 0 && len(s.B) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// pool measures strata together. The test is van Elteren's: Mann-Whitney within each stratum,
// weighted by 1 / (N + 1). The change is the geometric mean over the strata of the ratio of both
// sides' means, or the mean of the differences of means. Its interval is Student's, from the
// variances within the strata (Welch and Satterthwaite), or if Paired and a stratum has one value
// of a side, from the variance of the strata's changes. Means and variances belong together: the
// median of few values of two clusters, such as jobs that crash or not, varies far more than its
// sample's variance tells.
func pool(strata []Stratum, o Options) Comparison {
	strata = used(strata)
	alpha := o.alpha()
	infinite := math.Inf(1)
	side := Summary{Median: math.NaN(), Low: -infinite, High: infinite}
	c := Comparison{A: side, B: side, Strata: len(strata), P: math.NaN(), MinEffect: o.MinEffect,
		Change: math.NaN(), Low: -infinite, High: infinite, sizes: sizesOf(strata)}
	if len(strata) == 0 {
		return c
	}
	scale := relative
	if o.Absolute {
		scale = absolute
	}
	k := float64(len(strata))
	var a, b, shift, variance, freedom float64
	changes := make([]float64, len(strata))
	blocks := make([]draw, len(strata))
	for i, s := range strata {
		c.A.N, c.B.N = c.A.N+len(s.A), c.B.N+len(s.B)
		x, y := scale.to(stats.Mean(s.A)), scale.to(stats.Mean(s.B))
		a, b = a+x/k, b+y/k
		changes[i] = y - x
		shift += changes[i] / k
		for _, values := range [][]float64{s.A, s.B} {
			v := scale.variance(values) / float64(len(values)) / (k * k)
			variance += v
			if v > 0 {
				freedom += v * v / float64(len(values)-1)
			}
		}
		blocks[i] = ranks(s.A, s.B)
		if o.Counts {
			blocks[i] = counts(s.A, s.B)
		}
	}
	if !o.Counts {
		blocks = weighted(blocks)
	}
	c.P = permutationP(blocks)
	c.A.Median, c.B.Median = scale.from(a), scale.from(b)
	c.Change = scale.from(shift) - scale.none
	if o.Paired && math.IsNaN(variance) { // a stratum has one value of a side
		variance = absolute.variance(changes) / k
		freedom = variance * variance / (k - 1)
	}
	if math.IsNaN(variance) || math.IsInf(shift, 0) || math.IsNaN(shift) {
		return c
	}
	half := student(variance, freedom, alpha)
	c.Low, c.High = scale.from(shift-half)-scale.none, scale.from(shift+half)-scale.none
	return c
}

// MeanOver is the mean over the strata of their means, which the Summary has as its Median, with Student's interval
// from the variances within the strata (Welch and Satterthwaite). It takes two values of each stratum.
func MeanOver(strata [][]float64, alpha float64) Summary {
	out := Summary{Median: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
	strata = slices.DeleteFunc(slices.Clone(strata), func(values []float64) bool { return len(values) == 0 })
	if len(strata) == 0 {
		return out
	}
	k := float64(len(strata))
	var mean, variance, freedom float64
	for _, values := range strata {
		out.N += len(values)
		mean += stats.Mean(values) / k
		v := absolute.variance(values) / float64(len(values)) / (k * k)
		variance += v
		if v > 0 {
			freedom += v * v / float64(len(values)-1)
		}
	}
	out.Median = mean
	if half := student(variance, freedom, alpha); !math.IsNaN(half) {
		out.Low, out.High = mean-half, mean+half
	}
	return out
}

// student is half the width of Student's interval. freedom is the sum of v^2/(n-1) over the parts v of the variance.
func student(variance, freedom, alpha float64) float64 {
	if !(variance > 0) {
		return variance // 0, or unknown
	}
	return stats.InvCDF(stats.TDist{V: variance * variance / freedom})(1-alpha/2) * math.Sqrt(variance)
}

// counts are scores that are counts themselves.
func counts(a, b []float64) draw {
	var d draw
	for _, v := range a {
		d.scores = append(d.scores, int(v))
	}
	for i, v := range b {
		d.scores = append(d.scores, int(v))
		d.chosen = append(d.chosen, len(a)+i)
	}
	return d
}

// scale says where the mean over strata is taken.
type scale struct {
	to, from func(float64) float64
	none     float64               // what no change is
	slope    func(float64) float64 // of to
}

var (
	relative = scale{math.Log, math.Exp, 1, func(v float64) float64 { return 1 / v }}
	absolute = scale{same, same, 0, func(float64) float64 { return 1 }}
)

func same(v float64) float64 { return v }

// variance is the sample variance of values on the scale, to first order around their mean (the
// delta method), so that a value of 0 has a logarithm too. It is NaN if it is unknown.
func (s scale) variance(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	slope := s.slope(stats.Mean(values))
	return stats.Variance(values) * slope * slope
}

// sizesOf are the numbers of values of each side in each stratum.
func sizesOf(strata []Stratum) [][2]int {
	out := make([][2]int, len(strata))
	for i, s := range strata {
		out[i] = [2]int{len(s.A), len(s.B)}
	}
	return out
}

// leastOf is the smallest p value of a test over blocks of these sizes.
func leastOf(sizes [][2]int) float64 {
	p := 2.0
	for _, n := range sizes {
		p *= leastP(n[0], n[1]) / 2
	}
	return min(1, p)
}

// tooFewIn is tooFew for strata.
func tooFewIn(strata, needed, tests int) string {
	if strata == 0 {
		return tooFew(needed, tests)
	}
	return fmt.Sprintf("%s, in each of %d blocks", tooFew(needed, tests), strata)
}
