package stats

import (
	"math"
	"math/rand/v2"
	"slices"
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
	series := nights(r, 10, 0.002, 100, 90, 95)
	got := Steps(series, StepOptions{MinEffect: 0.02})
	if len(got) != 2 || got[0].At != 10 || got[1].At != 20 {
		t.Fatalf("steps at %v, want at 10 and 20", positions(got))
	}
	if math.Abs(got[0].Change+0.1) > 0.005 || math.Abs(got[0].Before-100) > 0.5 || math.Abs(got[0].After-90) > 0.5 || got[0].P > 0.001 ||
		got[0].Low > -0.1 || got[0].High < -0.1 || got[0].Low < -0.105 || got[0].High > -0.095 || got[0].First != 10 || got[0].Last != 10 {
		t.Errorf("first step %+v, want one of -10 %% from 100 at 10 exactly", got[0])
	}
	if got = Steps(series, StepOptions{MinEffect: 0.07}); len(got) != 1 || got[0].At != 10 {
		t.Errorf("steps of at least 7 %%: at %v, want at 10", positions(got))
	}
}

// Of series without a step, fewer than StepAlpha have one; where some nights scatter more, or values are rare crashes, up to
// 2 %. docs/reference/statistics.md has the numbers.
func TestStepsInNoiseAreRare(t *testing.T) {
	const series, length = 1000, 30
	for name, c := range map[string]struct {
		draw    func(*rand.Rand) float64
		options StepOptions
		most    int
	}{
		"normal": {func(r *rand.Rand) float64 { return 100 * (1 + 0.01*r.NormFloat64()) }, StepOptions{}, 9},
		"a tenth of the nights scatters ten times as much": {func(r *rand.Rand) float64 {
			return 100 * (1 + 0.01*(1+9*float64(r.IntN(10)/9))*r.NormFloat64())
		}, StepOptions{}, 33},
		"rare crashes": {func(r *rand.Rand) float64 { return float64(r.IntN(10) / 9 * (1 + r.IntN(2))) }, StepOptions{Absolute: true, Counts: true}, 25},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		alarms := 0
		for range series {
			values := make([]float64, length)
			for i := range values {
				values[i] = c.draw(r)
			}
			alarms += min(1, len(Steps(values, c.options)))
		}
		t.Logf("%s: %d of %d series without a step have one", name, alarms, series)
		if alarms > c.most || alarms == 0 {
			t.Errorf("%s: %d of %d series without a step have one, want 1 to %d", name, alarms, series, c.most)
		}
	}
}

// Losses at the end of 30 nights of 1 % noise: how many are found, and how often their interval has their night.
func TestRecentStepIsFound(t *testing.T) {
	const series = 150
	for _, c := range []struct {
		loss          float64
		after         int
		found, inside int // percent, at least
	}{{0.05, 2, 98, 98}, {0.05, 5, 99, 98}, {0.02, 5, 40, 90}, {0.02, 12, 75, 90}} {
		r := rand.New(rand.NewPCG(9, 10))
		found, inside, width := 0, 0, 0
		for range series {
			at := 30 - c.after
			values := append(nights(r, at, 0.01, 100), nights(r, c.after, 0.01, 100*(1-c.loss))...)
			steps := Steps(values, StepOptions{})
			if len(steps) == 0 {
				continue
			}
			s := steps[len(steps)-1]
			found++
			width += s.Last - s.First + 1
			if s.First <= at && at <= s.Last {
				inside++
			}
		}
		t.Logf("%g %% after %d nights: found %d of %d, in the interval %d, of %.1f nights", 100*c.loss, c.after, found, series, inside, float64(width)/float64(found))
		if 100*found < c.found*series || 100*inside < c.inside*found {
			t.Errorf("%g %% after %d nights: found %d of %d, in the interval %d", 100*c.loss, c.after, found, series, inside)
		}
	}
}

// A loss of 5 % that is mended after three nights is two steps, also if either side is longer.
func TestMendedLossIsTwoSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	found := 0
	for range 100 {
		values := slices.Concat(nights(r, 14, 0.01, 100), nights(r, 3, 0.01, 95), nights(r, 13, 0.01, 100))
		steps := Steps(values, StepOptions{MinEffect: 0.02})
		if len(steps) == 2 && steps[0].First <= 14 && 14 <= steps[0].Last && steps[1].First <= 17 && 17 <= steps[1].Last && steps[0].Change < 0 && steps[1].Change > 0 {
			found++
		}
	}
	if found < 95 {
		t.Errorf("found %d of 100", found)
	}
}

// A series that changes once for certain: the interval covers the place, also for a level of one value.
func TestTurnCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, c := range []struct{ length, after int }{{2, 1}, {3, 1}, {10, 1}, {10, 5}, {30, 1}, {30, 12}} {
		covered := 0
		for range 100 {
			at := c.length - c.after
			turn := TurnOf(append(nights(r, at, 0.01, 100), nights(r, c.after, 0.01, 97)...))
			if turn.First < 1 || turn.Last >= c.length || turn.First > turn.At || turn.Last < turn.At {
				t.Fatalf("%+v: %+v", c, turn)
			}
			if turn.First <= at && at <= turn.Last {
				covered++
			}
		}
		if covered < 94 {
			t.Errorf("%d values, the last %d lower: covered in %d of 100", c.length, c.after, covered)
		}
	}
	if got := TurnOf([]float64{5, 5, 5, 5, 9, 9}); got != (Turn{4, 4, 4}) {
		t.Errorf("constant levels: %+v, want 4", got)
	}
}

// Two values are a level, at either end of a series.
func TestTwoValuesAreALevel(t *testing.T) {
	for name, c := range map[string]struct{ levels, at int }{"the last two": {28, 28}, "the first two": {2, 2}} {
		series := make([]float64, 30)
		for i := range series {
			series[i] = 100 + 0.01*float64(i*7%30)
			if i >= c.levels {
				series[i] -= 10
			}
		}
		if got := Steps(series, StepOptions{MinEffect: 0.02}); len(got) != 1 || got[0].At != c.at {
			t.Errorf("%s: steps at %v, want at %d", name, positions(got), c.at)
		}
	}
}

func TestSeriesWithoutSteps(t *testing.T) {
	for name, series := range map[string][]float64{
		"empty": nil, "one value": {1}, "three": {1, 1, 9}, "equal": {5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
		"too few for any": {1, 1.1, 1.2, 9, 9.1, 9.2}, "an outlier": {5, 5.1, 5.2, 5.05, 5.15, 50, 5.12, 5.03, 5.17, 5.08},
	} {
		if got := Steps(series, StepOptions{}); len(got) != 0 {
			t.Errorf("%s: steps at %v", name, positions(got))
		}
	}
}

// Levels that are exactly equal, as in simulated runs without noise, and a level of 0.
func TestStepBetweenConstants(t *testing.T) {
	series := []float64{0, 0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25, 0.25}
	got := Steps(series, StepOptions{Absolute: true, Counts: true})
	if len(got) != 1 || got[0].At != 5 || got[0].Change != 0.25 {
		t.Errorf("steps %+v, want one of 0.25 at 5", got)
	}
}

// The shortest series with a step has as many values as Length says, and no fewer.
func TestShortestSeriesWithAStep(t *testing.T) {
	for _, o := range []StepOptions{{}, {Counts: true}} {
		n := o.Length()
		for _, length := range []int{n - 1, n} {
			var values []float64
			for i := range length {
				values = append(values, float64(i)/1000+float64(i/((length+1)/2)))
			}
			if found := len(Steps(values, o)) > 0; found != (length == n) {
				t.Errorf("%+v, %d values: a step is found: %t", o, length, found)
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
	for _, s := range Steps(values, StepOptions{MinEffect: DefaultMinEffect}) {
		t.Errorf("%+v", s)
	}
}
