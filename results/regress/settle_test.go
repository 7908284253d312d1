package regress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// Repetitions are asked of the sweeps that lack them. An arm has those of all its sweeps together.
func TestSettleAsksTheSweepsThatLackRepetitions(t *testing.T) {
	runs := func(sweep int64, n int) []Observation {
		out := make([]Observation, n)
		for i := range out {
			out[i] = Observation{Run: results.Run{Sweep: &sweep}}
		}
		return out
	}
	const first, second = "caserun sweep --resume 1 --reps 6", "caserun sweep --resume 2 --reps 6"
	for name, c := range map[string]struct {
		pair Pair
		want string
	}{
		"both lack":               {Pair{ARuns: runs(1, 3), BRuns: runs(2, 4)}, first + " --db x.db && " + second + " --db x.db"},
		"one has them":            {Pair{ARuns: runs(1, 6), BRuns: runs(2, 5)}, second + " --db x.db"},
		"both have them":          {Pair{ARuns: runs(1, 6), BRuns: runs(2, 7)}, ""},
		"one arm of two sweeps":   {Pair{ARuns: append(runs(1, 2), runs(2, 3)...), BRuns: runs(3, 6)}, "caserun sweep --resume 1 --reps 3 --db x.db"},
		"a run that has no sweep": {Pair{ARuns: runs(1, 3), BRuns: []Observation{{}}}, ""},
	} {
		if got, fixed := extending([]Pair{c.pair}, 6, StoreHint{Flag: " --db x.db"}); got != c.want || fixed != nil {
			t.Errorf("%s: %q %q, want %q", name, got, fixed, c.want)
		}
	}
}

// No command adds runs of another build or machine to a sweep. A new one is made in its place.
func TestSettleDoesNotMixBuildsOrMachines(t *testing.T) {
	runs := func(sweep int64, tag string) []Observation {
		return slices.Repeat([]Observation{{Run: results.Run{Sweep: &sweep, Tag: tag}}}, 3)
	}
	pair := Pair{ARuns: runs(1, "v1.4"), BRuns: runs(2, "night")}
	driver := pair
	driver.environment = []Difference{{"driver", "580", "590"}}
	settings := pair
	settings.environment = []Difference{{"settings", "a", "b"}}
	old := func(id int64) SweepHint {
		h := SweepHint{Again: fmt.Sprintf("caserun sweep --mixes W%d --scheds sa", id)}
		if id == 1 {
			h.Fixed = "its runs are of another build"
		}
		return h
	}
	const first, second = "caserun sweep --resume 1 --reps 6 --db x.db", "caserun sweep --resume 2 --reps 6 --db x.db"
	const anew = "Make a new baseline, of the tag v1.4-6: caserun sweep --mixes W1 --scheds sa --reps 6 --tag v1.4-6 --db x.db"
	for name, c := range map[string]struct {
		pair     Pair
		hint     func(int64) SweepHint
		commands string
		fixed    string
	}{
		"as they were":             {pair, func(int64) SweepHint { return SweepHint{} }, first + " && " + second, ""},
		"other settings":           {settings, nil, first + " && " + second, ""},
		"an old baseline":          {pair, old, second, "sweep 1 (v1.4) cannot be extended: its runs are of another build. " + anew},
		"another driver":           {driver, nil, second, "sweep 1 (v1.4) cannot be extended: different driver: 580 and 590. Make a new baseline"},
		"the candidate's, in turn": {Pair{ARuns: runs(2, "v1.4"), BRuns: runs(1, "night")}, old, second, "sweep 1 (night) cannot be extended: its runs are of another build. Measure the candidate anew, of the tag night-6: caserun sweep --mixes W1 --scheds sa --reps 6 --tag night-6 --db x.db"},
	} {
		got, fixed := extending([]Pair{c.pair}, 6, StoreHint{Flag: " --db x.db", Sweep: c.hint})
		if got != c.commands || strings.Join(fixed, "\n") != c.fixed {
			t.Errorf("%s: %q and %q, want %q and %q", name, got, fixed, c.commands, c.fixed)
		}
	}
}
