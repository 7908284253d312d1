package stats

import (
	"fmt"
	"math"

	"github.com/aclements/go-moremath/stats"
)

// Stratum has the values of both sides of one block, such as a mix. Values are compared within
// their block only.
type Stratum struct{ A, B []float64 }

// Pooled compares both sides over all strata, as one pair of CompareAll does.
func Pooled(strata []Stratum, o Options) Comparison {
	return CompareAll([]Pair{{Strata: strata, Options: o}})[0]
}

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
// weighted by 1 / (N + 1). The change is the geometric mean over the strata of each stratum's
// change, or the mean of differences. Its interval is Student's, from the variances of the
// logarithms within the strata (Welch and Satterthwaite), or if Paired and a stratum has one value of a
// side, from the variance of the strata's changes.
func pool(strata []Stratum, o Options) Comparison {
	strata = used(strata)
	alpha := o.alpha()
	infinite := math.Inf(1)
	side := Summary{Median: math.NaN(), Low: -infinite, High: infinite, Confidence: 1}
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
		a += scale.to(Summarize(s.A, 1-alpha).Median) / k
		b += scale.to(Summarize(s.B, 1-alpha).Median) / k
		middle, _, _ := change(s.A, s.B, o.Absolute, 1-alpha)
		changes[i] = scale.to(middle + scale.none)
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
	half := 0.0
	if variance > 0 {
		half = stats.InvCDF(stats.TDist{V: variance * variance / freedom})(1-alpha/2) * math.Sqrt(variance)
	}
	c.Low, c.High = scale.from(shift-half)-scale.none, scale.from(shift+half)-scale.none
	return c
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
	none     float64 // what no change is
}

var (
	relative = scale{math.Log, math.Exp, 1}
	absolute = scale{func(v float64) float64 { return v }, func(v float64) float64 { return v }, 0}
)

// variance is the sample variance; NaN if it is unknown.
func (s scale) variance(values []float64) float64 {
	n := float64(len(values))
	if n < 2 {
		return math.NaN()
	}
	mean := 0.0
	for _, v := range values {
		mean += s.to(v) / n
	}
	squares := 0.0
	for _, v := range values {
		squares += (s.to(v) - mean) * (s.to(v) - mean)
	}
	return squares / (n - 1)
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
		p *= LeastP(n[0], n[1]) / 2
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
