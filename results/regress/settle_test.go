package regress

import (
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
		if got := extending([]Pair{c.pair}, 6, " --db x.db"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
