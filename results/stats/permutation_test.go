package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// tiedValues are n values of few different ones.
func tiedValues(rng *rand.Rand, n, different int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(rng.IntN(different))
	}
	return out
}

// The p value of sides of any sizes is that of every choice, whatever values tie. It is the same with
// the sides swapped, and neither less than leastP nor more than 1.
func TestMannWhitneyWithTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 11))
	for range 1000 {
		different := 1 + rng.IntN(9)
		a, b := tiedValues(rng, 1+rng.IntN(7), different), tiedValues(rng, 1+rng.IntN(5), different)
		got := compareOne(a, b, Options{}).P
		if want := everyChoice([]draw{ranks(a, b)}); math.Abs(got-want) > 1e-12 {
			t.Fatalf("p %v, counted %v, of %v and %v", got, want, a, b)
		}
		if back := compareOne(b, a, Options{}).P; math.Abs(got-back) > 1e-12 {
			t.Fatalf("p %v, swapped %v, of %v and %v", got, back, a, b)
		}
		if got < leastP(len(a), len(b))-1e-12 || got > 1 {
			t.Fatalf("p %v, at least %v, of %v and %v", got, leastP(len(a), len(b)), a, b)
		}
	}
}

// Sides that are dead or alive as a whole are as far apart as sides can be.
func TestMannWhitneyOfTwoValues(t *testing.T) {
	for _, n := range [][2]int{{2, 3}, {3, 2}, {5, 7}, {7, 5}, {7, 7}, {1, 7}, {25, 10}, {30, 31}} {
		a, b := make([]float64, n[0]), make([]float64, n[1])
		for i := range b {
			b[i] = 16
		}
		if got, want := compareOne(a, b, Options{Absolute: true}).P, leastP(n[0], n[1]); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%v: p %v, want %v", n, got, want)
		}
	}
}

// What is approximated lies near what is counted, is the same with the sides swapped, and is at most 1.
func TestMannWhitneyOfLargeSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for _, different := range []int{2, 5, 1e9} {
		for range 20 {
			a, b := tiedValues(rng, 52, different), tiedValues(rng, 20, different)
			near := normalP([]draw{ranks(a, b)})
			if exactly := permutationP([]draw{ranks(a, b)}); math.Abs(near-exactly) > 0.03 {
				t.Errorf("%d values: p %v, exactly %v", different, near, exactly)
			}
			if back := normalP([]draw{ranks(b, a)}); math.Abs(near-back) > 1e-9 || near > 1 {
				t.Errorf("%d values: p %v, swapped %v", different, near, back)
			}
		}
	}
	few := make([]float64, 1200)
	few[0] = 1
	if got := compareOne(few, make([]float64, 1200), Options{Counts: true, Absolute: true}).P; got != 1 {
		t.Errorf("one crash in 2400 runs: p %v", got)
	}
}
