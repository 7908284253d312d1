package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// nights is a series of normal values around levels of equal length.
func nights(r *rand.Rand, each int, noise float64, levels ...float64) []float64 {
	var out []float64
	for _, level := range levels {
		for range each {
			out = append(out, level*(1+noise*r.NormFloat64()))
		}
	}
	return out
}

func positions(steps []Step) (out []int) {
	for _, s := range steps {
		out = append(out, s.At)
	}
	return out
}

func TestStepsAreFoundWhereTheyAre(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	series := [][]float64{nights(r, 10, 0.002, 100, 90, 95)}
	got := Steps(series, StepOptions{MinEffect: 0.02})[0]
	if len(got) != 2 || got[0].At != 10 || got[1].At != 20 {
		t.Fatalf("steps at %v, want at 10 and 20", positions(got))
	}
	if math.Abs(got[0].Change+0.1) > 0.005 || math.Abs(got[0].Before-100) > 0.5 || math.Abs(got[0].After-90) > 0.5 || got[0].P > 0.001 {
		t.Errorf("first step %+v, want one of -10 %% from 100", got[0])
	}
	if got = Steps(series, StepOptions{MinEffect: 0.07})[0]; len(got) != 1 || got[0].At != 10 {
		t.Errorf("steps of at least 7 %%: at %v, want at 10", positions(got))
	}
}

// Of 400 series without a step, about alpha have one: a one-sided binomial test at 1e-4 allows 37.
func TestStepsInNoiseAreRare(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	alarms := 0
	for range 400 {
		// Heavy tails: a tenth of the nights have ten times the noise.
		series := make([]float64, 24)
		for i := range series {
			noise := 0.01
			if r.IntN(10) == 0 {
				noise = 0.1
			}
			series[i] = 100 * (1 + noise*r.NormFloat64())
		}
		alarms += min(1, len(Steps([][]float64{series}, StepOptions{})[0]))
	}
	if alarms > 37 {
		t.Errorf("%d of 400 series without a step have one, want about 20", alarms)
	}
	if alarms == 0 {
		t.Error("no series has a step: the test finds nothing")
	}
}

// A table of 32 lines is one family.
func TestStepsCorrectForTheNumberOfSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	tables := 0
	for range 60 {
		var series [][]float64
		for range 32 {
			series = append(series, nights(r, 20, 0.01, 100))
		}
		for _, steps := range Steps(series, StepOptions{}) {
			if len(steps) > 0 {
				tables++
				break
			}
		}
	}
	if tables > 11 { // binomial(60, 0.05) at 1e-4
		t.Errorf("%d of 60 tables of 32 lines have a step, want about 3", tables)
	}
}

// A loss of 5 % with 1 % noise is found in the last 4 of 20 nights.
func TestRecentStepIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	found := 0
	for range 100 {
		series := append(nights(r, 16, 0.01, 100), nights(r, 4, 0.01, 95)...)
		if steps := Steps([][]float64{series}, StepOptions{MinEffect: 0.02})[0]; len(steps) == 1 && steps[0].At >= 15 && steps[0].At <= 17 {
			found++
		}
	}
	if found < 90 {
		t.Errorf("found %d of 100 steps, want 90", found)
	}
}

// Two values are a level, at either end of a series, although they are never significant at 5 %.
func TestTwoValuesAreALevel(t *testing.T) {
	for name, c := range map[string]struct{ levels, at int }{"the last two": {28, 28}, "the first two": {2, 2}} {
		series := make([]float64, 30)
		for i := range series {
			series[i] = 100 + 0.01*float64(i*7%30)
			if i >= c.levels {
				series[i] -= 10
			}
		}
		if got := Steps([][]float64{series}, StepOptions{Alpha: 0.5, MinEffect: 0.02})[0]; len(got) != 1 || got[0].At != c.at {
			t.Errorf("%s: steps at %v, want at %d", name, positions(got), c.at)
		}
	}
}

func TestSeriesWithoutSteps(t *testing.T) {
	for name, series := range map[string][]float64{
		"empty": nil, "one value": {1}, "three": {1, 1, 9}, "equal": {5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
		"too few for any": {1, 1.1, 1.2, 9, 9.1, 9.2}, "an outlier": {5, 5.1, 5.2, 5.05, 5.15, 50, 5.12, 5.03, 5.17, 5.08},
	} {
		if got := Steps([][]float64{series}, StepOptions{})[0]; len(got) != 0 {
			t.Errorf("%s: steps at %v", name, positions(got))
		}
	}
}

// Levels that are exactly equal, as in simulated runs without noise, and a level of 0.
func TestStepBetweenConstants(t *testing.T) {
	series := []float64{0, 0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25, 0.25}
	got := Steps([][]float64{series}, StepOptions{Absolute: true})[0]
	if len(got) != 1 || got[0].At != 5 || got[0].Change != 0.25 {
		t.Errorf("steps %+v, want one of 0.25 at 5", got)
	}
}

// The shortest series with a step has as many values as StepLength says, and no fewer.
func TestShortestSeriesWithAStep(t *testing.T) {
	clear := func(n int) []float64 {
		var out []float64
		for i := range n {
			out = append(out, float64(i)/1000+float64(i/((n+1)/2)))
		}
		return out
	}
	for _, lines := range []int{1, 10} {
		n := StepLength(DefaultAlpha, lines)
		for _, length := range []int{n - 1, n} {
			series := make([][]float64, lines)
			series[0] = clear(length)
			if found := len(Steps(series, StepOptions{})[0]) > 0; found != (length == n) {
				t.Errorf("%d lines, %d values: a step is found: %t", lines, length, found)
			}
		}
	}
}

// Two levels of 0 are no step: their ratio is none.
func TestStepFromNothingToNothing(t *testing.T) {
	values := make([]float64, 60)
	for i := range 30 {
		if i%5 == 0 || i%5 == 3 { // fewer than half of the first level
			values[i] = 1
		}
	}
	for i, steps := range Steps([][]float64{values}, StepOptions{MinEffect: DefaultMinEffect}) {
		for _, s := range steps {
			t.Errorf("series %d: %+v", i, s)
		}
	}
}
