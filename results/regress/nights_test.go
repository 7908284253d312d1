package regress

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// week is a side of several nights, each of which takes so many times as long.
func week(rng *rand.Rand, label string, first int64, slower ...float64) Side {
	all := Side{Label: label}
	for i, by := range slower {
		one := night(rng, label, 2, 7, by, 0.01)
		for j := range one.Runs {
			o := &one.Runs[j]
			o.Sweep, o.Tag, o.ID = new(first+int64(i)), fmt.Sprintf("night-%d", first+int64(i)), first*100+int64(i*20+j)
		}
		all.Runs = append(all.Runs, one.Runs...)
	}
	return all
}

// A regression within a week is not hidden in one figure of the week: compare takes the nights as the sample and says so,
// and a gate does not pass.
func TestNightsOfASideThatDiffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 3+chance.Seed()))
	even, slid := week(rng, "old", 1, 1, 1, 1, 1), week(rng, "new", 11, 1, 1, 1, 1.05)
	const says = "new differs between its nights in "
	r, err := Compare(even, slid, Options{MinEffect: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(r.Notes, "\n"); !strings.Contains(text, says) || !strings.Contains(text, "% more on night-14 than on night-") && !strings.Contains(text, "than on night-14") || strings.Contains(text, "old differs") {
		t.Errorf("notes: %s", text)
	}
	for _, row := range r.Rows {
		if want := 4; row.Mixes == 1 && !row.Metric.Counts() && (row.A.N != want || row.B.N != want || row.Settles != 0) {
			t.Errorf("%s of %s: %d and %d values, want the %d nights of each side", row.Metric.Name, row.Pair.A.Mix, row.A.N, row.B.N, want)
		}
	}
	gate := Gate(even, slid, limits(t, "throughput=3%"), stats.DefaultAlpha)
	if !strings.Contains(strings.Join(gate.Notes, "\n"), says) || gate.Unsettled()+gate.Failed() != len(gate.Checks) ||
		!slices.ContainsFunc(gate.Checks, func(c Check) bool { return c.Short == "nights differ" }) {
		t.Errorf("the last night is 5 %% slower: %+v", gate.Checks)
	}
	same := Gate(even, week(rng, "new", 11, 1, 1, 1, 1), limits(t, "throughput=3%"), stats.DefaultAlpha)
	if same.Unsettled()+same.Failed() > 0 || strings.Contains(strings.Join(same.Notes, "\n"), "differs between") {
		t.Errorf("nights that do not differ: %+v, %q", same.Checks, same.Notes)
	}
}

// Outside of sweeps a tag is a night, and a run without one is a night alone. A tag of several nights does not name them.
func TestNightsOutsideOfSweeps(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 4+chance.Seed()))
	even, slid := week(rng, "old", 1, 1, 1, 1, 1), week(rng, "new", 11, 1, 1, 1, 1.05)
	for i := range slid.Runs {
		slid.Runs[i].Sweep = nil
	}
	r, err := Compare(even, slid, Options{MinEffect: 0.02})
	if text := strings.Join(r.Notes, "\n"); err != nil || !strings.Contains(text, "new differs between its nights in ") || !strings.Contains(text, "night-14") {
		t.Errorf("nights by tag: %v, notes: %s", err, text)
	}
	names := NightNames([]Observation{{Run: results.Run{ID: 1, Sweep: new(int64(7)), Tag: "a"}}, {Run: results.Run{ID: 2, Sweep: new(int64(8)), Tag: "a"}},
		{Run: results.Run{ID: 3, Tag: "b"}}, {Run: results.Run{ID: 4, Tag: "b"}}, {Run: results.Run{ID: 5}}, {Run: results.Run{ID: 6}}})
	if want := "map[a, sweep 7 a, sweep 8 b run 5 run 6]"; fmt.Sprint("map", slices.Sorted(maps.Values(names))) != want {
		t.Errorf("names %v, want %s", names, want)
	}
}

// Schedulers that ran in the same nights are compared night by night, so that what a night did to both is not in the
// ratio. A ratio that changes is said.
func TestSameNightsAreBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 4+chance.Seed()))
	base, other := week(rng, "all", 1, 1, 1.3, 0.8), week(rng, "all", 1, 0.5, 0.65, 0.4)
	for i := range base.Runs {
		base.Runs[i].Scheduler = "sa"
		other.Runs[i].ID += 50
	}
	both := Side{Label: "all", Runs: slices.Concat(base.Runs, other.Runs)}
	ratioOf := func(m Matrix) (Ratio, string) { return m.Rows[1].Over[0].Ratio, strings.Join(m.Notes, "\n") }
	ratio, notes := ratioOf(matrixOf(t, both, "sa"))
	if ratio.Value < 1.97 || ratio.Value > 2.03 || ratio.High-ratio.Low > 0.06 || !strings.Contains(notes, "compared night by night, over 3") || strings.Contains(notes, "differs between") {
		t.Errorf("%+v, %s", ratio, notes)
	}
	for i := range both.Runs {
		if o := &both.Runs[i]; *o.Sweep == 3 && o.Scheduler != "sa" {
			o.Metrics = results.Metrics{OK: 32, MakespanS: new(*o.Metrics.MakespanS * 1.1), ThroughputJobsPerS: new(*o.Metrics.ThroughputJobsPerS / 1.1), TurnaroundMeanS: new(*o.Metrics.TurnaroundMeanS * 1.1)}
		}
	}
	if _, notes := ratioOf(matrixOf(t, both, "sa")); !strings.Contains(notes, "the ratio of case-alg3 to sa differs between its nights") {
		t.Errorf("a ratio that changed: %s", notes)
	}
	r, err := Compare(base, other, Options{MinEffect: 0.02})
	if err != nil || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "compared night by night, over 3") }) {
		t.Errorf("%q (%v)", r.Notes, err)
	}
}
