package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// everyChoice is permutationP by listing every choice of B's scores in every block.
func everyChoice(blocks []draw) float64 {
	want, low, high, all := 0, 0, 0, 0
	for _, b := range blocks {
		want += b.total()
	}
	var try func(block, from, left, sum int)
	try = func(block, from, left, sum int) {
		switch {
		case block == len(blocks):
			all++
			if sum <= want {
				low++
			}
			if sum >= want {
				high++
			}
		case left == 0 && block+1 == len(blocks):
			try(block+1, 0, 0, sum)
		case left == 0:
			try(block+1, 0, len(blocks[block+1].chosen), sum)
		default:
			for i := from; i <= len(blocks[block].scores)-left; i++ {
				try(block, i+1, left-1, sum+blocks[block].scores[i])
			}
		}
	}
	try(0, 0, len(blocks[0].chosen), 0)
	return min(1, 2*float64(min(low, high))/float64(all))
}

func TestPermutationsAreCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var blocks []draw
		for range 1 + rng.IntN(3) {
			values := func() []float64 {
				out := make([]float64, 1+rng.IntN(3))
				for i := range out {
					out[i] = float64(rng.IntN(4)) // with ties
				}
				return out
			}
			if a, b := values(), values(); rng.IntN(2) == 0 {
				blocks = append(blocks, ranks(a, b))
			} else {
				blocks = append(blocks, counts(a, b))
			}
		}
		blocks = weighted(blocks)
		if got, want := permutationP(blocks), everyChoice(blocks); math.Abs(got-want) > 1e-12 {
			t.Fatalf("p %v, counted %v, of %+v", got, want, blocks)
		}
	}
}

// One block is Mann and Whitney's test, blocks of one value each are the sign test, and counts of
// one job for each run are Fisher's exact test (the lady who got three of four cups right).
func TestPermutationsOfKnownTests(t *testing.T) {
	a, b := []float64{1, 4, 2, 8, 5}, []float64{7, 9, 3, 11, 10, 6}
	if got, want := pooled([]Stratum{{a, b}}, Options{}).P, compareOne(a, b, Options{}).P; math.Abs(got-want) > 1e-12 {
		t.Errorf("one block: %v, Mann-Whitney %v", got, want)
	}
	pairs := slices.Repeat([]Stratum{{A: []float64{1}, B: []float64{2}}}, 8)
	if got, want := pooled(pairs, Options{}).P, 2.0/256; math.Abs(got-want) > 1e-12 {
		t.Errorf("signs: %v, want %v", got, want)
	}
	cups := pooled([]Stratum{{A: []float64{1, 0, 0, 0}, B: []float64{0, 1, 1, 1}}}, Options{Counts: true, Absolute: true})
	if want := 34.0 / 70; math.Abs(cups.P-want) > 1e-12 {
		t.Errorf("cups: %v, want %v", cups.P, want)
	}
}

// The normal approximation of large blocks is near the exact p value.
func TestNormalTails(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for range 50 {
		var blocks []draw
		for range 6 {
			a, b := make([]float64, 7), make([]float64, 9)
			for i := range a {
				a[i] = rng.NormFloat64()
			}
			for i := range b {
				b[i] = rng.NormFloat64() + 0.2
			}
			blocks = append(blocks, ranks(a, b))
		}
		if exact, near := permutationP(blocks), normalP(blocks); math.Abs(exact-near) > 0.02 {
			t.Errorf("p %v, normal %v", exact, near)
		}
	}
}

// blocksOf draws blocks of n values of each side, whose levels differ from block to block by more
// than their sides do.
func blocksOf(rng *rand.Rand, blocks, n int, effect float64, sigma func(block int) float64) []Stratum {
	out := make([]Stratum, blocks)
	for i := range out {
		level := math.Exp(2 * rng.NormFloat64())
		for range n {
			out[i].A = append(out[i].A, level*math.Exp(sigma(i)*rng.NormFloat64()))
			out[i].B = append(out[i].B, level*effect*math.Exp(sigma(i)*rng.NormFloat64()))
		}
	}
	return out
}

func noise(sigma float64) func(int) float64 { return func(int) float64 { return sigma } }

// Five repetitions cannot show the largest effect among 24 comparisons in one mix. Over eight
// mixes they can, and the change is the mixes' geometric mean.
func TestPoolingHasPower(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	strata := blocksOf(rng, 8, 5, 2.58, noise(0.02))
	var pairs []Pair
	for i := range 24 {
		pairs = append(pairs, Pair{A: strata[i%8].A, B: strata[i%8].B, Options: Options{MinEffect: 0.02, HigherIsBetter: true}})
	}
	pairs = append(pairs, Pair{Strata: strata, Options: Options{MinEffect: 0.02, HigherIsBetter: true}})
	all := CompareAll(pairs)
	if c := all[0]; c.Verdict != Inconclusive || c.Settles != 7 {
		t.Errorf("one mix: %s, settled by %d", c.Verdict, c.Settles)
	}
	c := all[24]
	if c.Verdict != Better || c.Strata != 8 || c.A.N != 40 || !c.Bounded() {
		t.Errorf("eight mixes: %+v", c)
	}
	if c.Low > 1.58 || c.High < 1.58 || c.Resolution() > 0.05 {
		t.Errorf("the change is +158 %%, not %v (%v to %v)", c.Change, c.Low, c.High)
	}
}

// The interval covers the geometric mean as often as it promises, also if the noise of the blocks
// differs tenfold, and without an effect the test finds one as rarely as alpha says.
func TestPooledIntervalsCover(t *testing.T) {
	for name, sigma := range map[string]func(int) float64{"equal": noise(0.05), "unequal": func(i int) float64 { return 0.01 + 0.014*float64(i) }} {
		rng := rand.New(rand.NewPCG(4, 8))
		const trials = 2000
		covered, found := 0, 0
		for range trials {
			if c := pooled(blocksOf(rng, 8, 5, 1.1, sigma), Options{}); c.Low <= 0.1 && 0.1 <= c.High {
				covered++
			}
			if pooled(blocksOf(rng, 8, 5, 1, sigma), Options{}).Significant {
				found++
			}
		}
		few := 3 * math.Sqrt(trials*0.05*0.95)
		if float64(covered) < trials*0.95-few || float64(found) > trials*0.05+few {
			t.Errorf("%s noise: of %d intervals %d cover the change, and %d tests find one that is not there", name, trials, covered, found)
		}
	}
}

// The same holds if a side has two clusters, as where a crash early in a run leaves the other jobs
// more room.
func TestPooledIntervalsCoverClusters(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 4))
	const trials, often, high = 2000, 0.4, 1.5
	const truth = often * (high - 1)
	covered := 0
	for range trials {
		strata := blocksOf(rng, 8, 7, 1, noise(0.01))
		for i := range strata {
			for j := range strata[i].B {
				if rng.Float64() < often {
					strata[i].B[j] *= high
				}
			}
		}
		if c := pooled(strata, Options{}); c.Low <= truth && truth <= c.High {
			covered++
		}
	}
	if least := trials*0.95 - 3*math.Sqrt(trials*0.05*0.95); float64(covered) < least {
		t.Errorf("of %d intervals %d cover the change, want %.0f", trials, covered, least)
	}
}

// The sides are means of the blocks' means, of ratios geometric ones, and the change is of these.
func TestPooledSidesAreMeans(t *testing.T) {
	strata := []Stratum{{[]float64{1, 1, 7}, []float64{6, 6, 6}}, {[]float64{12, 12, 12}, []float64{2, 2, 14}}}
	for absolute, want := range map[bool][3]float64{true: {7.5, 6, -1.5}, false: {6, 6, 0}} {
		c := pooled(strata, Options{Absolute: absolute})
		for i, got := range []float64{c.A.Median, c.B.Median, c.Change} {
			if math.Abs(got-want[i]) > 1e-12 {
				t.Errorf("absolute %v: %v, want %v", absolute, got, want[i])
			}
		}
	}
}

// A gain of some blocks that is a loss of others is not a gain.
func TestDividedBlocksAreInconclusive(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	strata := append(blocksOf(rng, 7, 7, 1.03, noise(0.005)), blocksOf(rng, 1, 7, 0.75, noise(0.2))...)
	if c := pooled(strata, Options{HigherIsBetter: true}); !c.Significant || c.Verdict != Inconclusive || c.Reason != "the blocks differ in different directions" {
		t.Errorf("%+v", c)
	}
}

// Blocks with a side missing do not count. Without any there is nothing to compare.
func TestEmptyBlocks(t *testing.T) {
	full := Stratum{[]float64{1, 1.01, 1.02, 1.03}, []float64{2, 2.01, 2.02, 2.03}}
	if c := pooled([]Stratum{{A: full.A}, full, {B: full.B}}, Options{}); c.Strata != 1 || c.Verdict != Worse {
		t.Errorf("%+v", c)
	}
	if c := pooled([]Stratum{{A: full.A}}, Options{}); c.Verdict != Inconclusive || c.Reason != "nothing measured" {
		t.Errorf("%+v", c)
	}
}

func pooled(strata []Stratum, o Options) Comparison {
	return CompareAll([]Pair{{Strata: strata, Options: o}})[0]
}

// The mean over blocks has Student's interval, which takes two values of each block.
func TestMeanOver(t *testing.T) {
	got := MeanOver([][]float64{{1, 3}, {}, {10, 10}}, 0.05)
	// One block alone varies: its mean has the variance 1, halved twice, with one degree of freedom.
	if half := 12.7062047 * 0.5; got.N != 4 || got.Median != 6 || math.Abs(got.High-6-half) > 1e-6 || math.Abs(6-got.Low-half) > 1e-6 {
		t.Errorf("%+v", got)
	}
	if got := MeanOver([][]float64{{1, 3}, {5}}, 0.05); got.Median != 3.5 || got.Bounded() {
		t.Errorf("of one value in a block: %+v", got)
	}
	if got := MeanOver(nil, 0.05); got.N != 0 || !math.IsNaN(got.Median) || got.Bounded() {
		t.Errorf("of nothing: %+v", got)
	}
}
