package trend

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// rolling is the baseline of a night, and whether the night fails against it.
func (s *season) rolling(t *testing.T, nights, night int) (baseline regress.Side, fails bool, err error) {
	t.Helper()
	asked, candidate := limits(t, "throughput=3%,crashes=0"), s.side(night)
	baseline, err = Rolling{Name: "rolling", Nights: nights, Limits: asked, Alpha: stats.DefaultAlpha}.Baseline(candidate, s.runs)
	if err != nil {
		return baseline, false, err
	}
	return baseline, regress.Gate(baseline, candidate, asked, stats.DefaultAlpha).Failed() > 0, nil
}

// nightsOf are the tags of a side, in order.
func nightsOf(s regress.Side) (out []string) {
	for _, o := range s.Runs {
		if !slices.Contains(out, o.Tag) {
			out = append(out, o.Tag)
		}
	}
	return out
}

// The last night of each season, against five nights.
func TestRollingBaseline(t *testing.T) {
	for name, tt := range map[string]struct {
		nights int
		level  func(night int) float64
		host   func(night int) string
		want   string
		fails  bool
		note   string
	}{
		"quiet":              {9, func(int) float64 { return 1 }, nil, "night-4 night-5 night-6 night-7 night-8", false, "rolling is the last 5 nights that passed, night-4 to night-8"},
		"few nights":         {5, func(int) float64 { return 1 }, nil, "night-1 night-2 night-3 night-4", false, "the last 4 nights"},
		"a night that fails": {9, func(n int) float64 { return map[bool]float64{true: 0.9, false: 1}[n == 7] }, nil, "night-3 night-4 night-5 night-6 night-8", false, "failed: night-7"},
		"a loss that stays": {25, func(n int) float64 { return map[bool]float64{true: 0.95, false: 1}[n >= 12] }, nil, "night-7 night-8 night-9 night-10 night-11", true,
			"on a worse level than before: night-12, night-13, night-14, night-15, and 9 more"},
		"a loss that is mended": {25, func(n int) float64 { return map[bool]float64{true: 0.95, false: 1}[n >= 10 && n < 18] }, nil,
			"night-20 night-21 night-22 night-23 night-24", false, "on a worse level"},
		"another machine": {9, func(int) float64 { return 1 }, func(n int) string { return map[bool]string{true: "b", false: "a"}[n == 5 || n == 6] },
			"night-2 night-3 night-4 night-7 night-8", false, "nights on other machines than night-9, which are left out: 2"},
	} {
		rng := rand.New(rand.NewPCG(31, 1))
		s := season{level: func(_ string, n int) float64 { return tt.level(n) }, host: tt.host, one: true}
		for night := 1; night <= tt.nights+1; night++ { // the last one is after the candidate
			s.add(rng, night)
		}
		baseline, fails, err := s.rolling(t, 5, tt.nights)
		if got := strings.Join(nightsOf(baseline), " "); err != nil || got != tt.want || fails != tt.fails {
			t.Errorf("%s: baseline %s, fails %t, %v, want %s and %t", name, got, fails, err, tt.want, tt.fails)
		}
		if !strings.Contains(strings.Join(baseline.Notes, "\n"), tt.note) {
			t.Errorf("%s: notes %q do not say %q", name, baseline.Notes, tt.note)
		}
	}
}

// A loss of 0.3 % in each night, which no night before shows, is found before it is 6 %, and does not become the baseline later.
func TestSlowLossDoesNotEnterARollingBaseline(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 1))
	s := season{one: true, level: func(_ string, night int) float64 { return math.Pow(0.997, float64(max(0, night-15))) }}
	found := 0
	for night := 1; night <= 55; night++ {
		s.add(rng, night)
		if !slices.Contains([]int{15, 20, 30, 32, 35, 45, 55}, night) {
			continue
		}
		_, fails, err := s.rolling(t, 14, night)
		if err != nil {
			t.Fatal(err)
		}
		if fails {
			found++
		}
		if lost := 1 - s.level("", night); fails && lost < 0.03 || !fails && lost > 0.055 {
			t.Errorf("night %d, which lost %.1f %%: fails %t", night, 100*lost, fails)
		}
	}
	if found < 3 {
		t.Errorf("found in %d nights", found)
	}
}

// A candidate on another node is held against the nights on theirs.
func TestRollingBaselineOfAnotherNode(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 1))
	s := season{one: true, level: func(string, int) float64 { return 1 }}
	for night := 1; night <= 5; night++ {
		s.add(rng, night)
	}
	for i := range s.runs {
		if s.runs[i].Tag == "night-5" {
			s.runs[i].Node = "other"
		}
	}
	baseline, fails, err := s.rolling(t, 3, 5)
	if got := strings.Join(nightsOf(baseline), " "); err != nil || fails || got != "night-2 night-3 night-4" {
		t.Errorf("baseline %s, fails %t, %v", got, fails, err)
	}
}

func TestTooFewNightsForARollingBaseline(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 1))
	s := season{one: true, level: func(_ string, night int) float64 { return map[bool]float64{true: 0.8, false: 1}[night == 2] }}
	for night := 1; night <= 4; night++ {
		s.add(rng, night)
	}
	_, _, err := s.rolling(t, 14, 4)
	if want := "too few nights passed: 2 of the 3 nights before night-4, and rolling needs 3 at least; failed: night-2"; !errors.Is(err, ErrTooFewNights) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A night may be several sweeps under one tag, which run different arms.
func TestNightOfSeveralSweeps(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 1))
	s := season{level: func(string, int) float64 { return 1 }}
	for night := 1; night <= 9; night++ {
		s.add(rng, night)
	}
	for i, o := range s.runs {
		if o.Mix == "W2" {
			s.runs[i].Sweep = new(*o.Sweep + 100)
		}
	}
	baseline, fails, err := s.rolling(t, 5, 9)
	if got := strings.Join(nightsOf(baseline), " "); err != nil || fails || got != "night-4 night-5 night-6 night-7 night-8" {
		t.Errorf("baseline %s, fails %t, %v", got, fails, err)
	}
	if want := "rolling is the last 5 nights that passed, night-4 to night-8"; !slices.Contains(baseline.Notes, want) {
		t.Errorf("notes %q do not say %q", baseline.Notes, want)
	}
}
