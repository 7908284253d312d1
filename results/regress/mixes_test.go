package regress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

var lastID int64

// of changes a run to one of a mix from source with these commands.
func of(source string, commands ...string) func(*Observation) {
	return func(o *Observation) {
		lastID++
		o.ID, o.MixSource, o.Commands, o.Jobs = lastID, source, strings.Join(commands, "\n"), len(commands)
	}
}

// said changes a run to one whose jobs a build defined in these words.
func said(definition, build string) func(*Observation) {
	return func(o *Observation) {
		of("my.yaml", "lud", "bfs")(o)
		o.Definition, o.PlannedBy = definition, build
	}
}

// Seven mixes are a little faster, and one is slower in most runs: over all of them nothing is shown, and the mix is
// not settled by it.
func TestGateOfMixesThatDifferInDirection(t *testing.T) {
	var a, b []Observation
	for i := range 8 {
		mix := fmt.Sprintf("W%d", i+1)
		a = append(a, runs(mix, "sa", 60, 7, nil)...)
		if i < 7 {
			b = append(b, runs(mix, "sa", 58.2, 7, nil)...)
			continue
		}
		for j, slower := range []float64{0.9, 0.99, 1.3, 1.4, 1.6, 1.02, 1.2} {
			b = append(b, runs(mix, "sa", 60*slower, 7, nil)[j])
		}
	}
	faster, slower := Side{Runs: a}, Side{Runs: b}
	for _, c := range []struct {
		old, new  Side
		limit     string
		over, one string // over all mixes, and of W8
	}{
		{faster, slower, "makespan=0.1%", "noise: -0.4 % (-2.7 to +2.0), limit 0.1%: it scatters so much", "noise: +19.8 % (-1.0 to +41.7), limit 0.1%: beyond the limit"},
		{faster, slower, "makespan=3%", "ok: -0.4 % (-2.7 to +2.0), limit 3%", "noise: +19.8 % (-1.0 to +41.7), limit 3%: beyond the limit, but not significant"},
		{slower, faster, "makespan=0.1%", "noise: +0.4 % (-2.0 to +2.8), limit 0.1%: beyond the limit, but the blocks differ in different directions", "noise: -16.5 % (-29.4 to +1.0), limit 0.1%: it scatters so much"},
	} {
		for _, check := range Gate(c.old, c.new, limits(t, c.limit), stats.DefaultAlpha).Checks {
			want := map[string]string{"W1..W8": c.over, "W8": c.one}[check.Arm.Mix]
			if got := fmt.Sprintf("%s: %s", check.Class, check.Text); !strings.HasPrefix(got, want) {
				t.Errorf("%s of %s: %s, want %s", c.limit, check.Arm.Mix, got, want)
			}
		}
	}
}

func TestMixesOfOneName(t *testing.T) {
	catalog := func() []Observation { return runs("W1", "sa", 60, 7, of("catalog", "lud", "bfs")) }
	for name, c := range map[string]struct {
		a, b  []Observation
		class Class
		says  string // the only note, or nothing
	}{
		"the same":      {catalog(), runs("W1", "sa", 66, 7, of("catalog", "lud", "bfs")), Regression, ""},
		"other jobs":    {catalog(), runs("W1", "sa", 66, 7, of("catalog", "lud", "needle")), EnvironmentChanged, "different jobs: catalog with bfs and catalog with needle"},
		"another order": {catalog(), runs("W1", "sa", 66, 7, of("catalog", "bfs", "lud")), EnvironmentChanged, "different jobs: catalog and catalog with the same commands in another order or number"},
		"another place": {catalog(), runs("W1", "sa", 66, 7, of("my.yaml", "lud", "bfs")), Regression, "the mixes called W1 have the same commands and come from different places: catalog and my.yaml"},
		"other properties": {runs("W1", "sa", 60, 7, said("sha256 aa", "v1")), runs("W1", "sa", 66, 7, said("sha256 bb", "v1")), EnvironmentChanged,
			"different jobs: my.yaml (sha256 aa) and my.yaml (sha256 bb), with the same commands"},
		"other builds said them": {runs("W1", "sa", 60, 7, said("sha256 aa", "v1")), runs("W1", "sa", 66, 7, said("sha256 bb", "v2")), Regression, ""},
		"nobody said them":       {runs("W1", "sa", 60, 7, said("", "")), runs("W1", "sa", 66, 7, said("sha256 bb", "")), Regression, ""},
		"unknown":                {catalog(), runs("W1", "sa", 66, 7, func(o *Observation) { o.MixSource, o.Jobs = "catalog", 2 }), Regression, ""},
		"settings on a side": {catalog(), slices.Concat(runs("W1", "sa", 60, 1, func(o *Observation) { of("catalog", "lud", "bfs")(o); o.Workers = 3 }), runs("W1", "sa", 60, 6, func(o *Observation) { of("catalog", "lud", "bfs")(o); o.Workers = 4 })), Passed,
			`runs of new called W1 under sa on local have different settings (workers: "3" and "4"), and are taken together`},
		"together on a side": {catalog(), slices.Concat(runs("W1", "sa", 60, 1, of("my.yaml", "lud", "needle")), catalog()[:6]), Passed,
			"runs of new called W1 under sa on local are of different mixes of that name (sources: catalog and my.yaml, lists of commands: 2), and are taken together"},
	} {
		r := Gate(Side{Label: "old", Runs: c.a}, Side{Label: "new", Runs: c.b}, limits(t, "throughput=3%"), stats.DefaultAlpha)
		if len(r.Checks) != 1 || r.Checks[0].Class != c.class {
			t.Errorf("%s: %+v, want %s", name, r.Checks, c.class)
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, c.says) || c.says == "" && notes != "" {
			t.Errorf("%s: notes %q, want %q", name, notes, c.says)
		}
	}
}

// If the mix has a different number of jobs on the other side, the note says so, and not that
// the other side did not run it.
func TestMixesOfAnotherSize(t *testing.T) {
	sized := func(label string, jobs int) Side {
		return Side{Label: label, Runs: runs("W1", "sa", 60, 7, func(o *Observation) { o.Jobs = jobs })}
	}
	r := Gate(sized("old", 16), sized("new", 4), limits(t, "throughput=3%"), stats.DefaultAlpha)
	if want := "the mix differs: 16 jobs in old, and 4 jobs in new"; len(r.Checks) != 1 || r.Checks[0].Class != NothingMeasured || r.Checks[0].Text != want {
		t.Errorf("%+v, want %q", r.Checks, want)
	}
	if want := []string{"W1 (4 jobs) under sa on local is new: old ran it with 16 jobs"}; !slices.Equal(r.Notes, want) {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	a, b := sized("old", 16), sized("new", 4)
	more := runs("W2", "sa", 60, 7, nil)
	a.Runs, b.Runs = append(a.Runs, more...), append(b.Runs, more...)
	found, err := Compare(a, b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"W1 (16 jobs) under sa on local is left out: new ran it with 4 jobs", "W1 (4 jobs) under sa on local is left out: old ran it with 16 jobs"} {
		if !slices.Contains(found.Notes, want) {
			t.Errorf("notes %q lack %q", found.Notes, want)
		}
	}
}

// Without noise an arm is one sample: it has no interval and no verdict, and a gate cannot pass or
// fail it. With noise, equal figures of several seeds are samples.
func TestRepetitionsOfOneSimulatedRun(t *testing.T) {
	for noise, free := range map[string]bool{`[{"Key":"sim-noise","Value":0}]`: true, `[]`: true, `{"sim-noise":0}`: true, `[{"Key":"sim-noise","Value":0.01}]`: false} {
		side := func(seed uint64, makespan float64) Side {
			return Side{Runs: runs("W1", "sa", makespan, 7, func(o *Observation) {
				seed++
				o.Mode, o.Provenance.Configuration, o.Seed = results.Simulated, noise, seed
				o.Metrics.MakespanS, o.Metrics.ThroughputJobsPerS, o.Metrics.TurnaroundMeanS = &makespan, new(32/makespan), new(makespan/2)
			})}
		}
		n, verdict, class := 7, stats.Worse, Regression
		if free {
			n, verdict, class = 1, stats.Inconclusive, Noise
		}
		r, err := Compare(side(0, 60), side(10, 70), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Rows[0].Comparison; c.A.N != n || c.Verdict != verdict || free && (c.Bounded() || c.Reason != "no noise: one sample of each") {
			t.Errorf("%s: %+v", noise, c)
		}
		if slices.Contains(r.Notes, results.NoNoise) != free {
			t.Errorf("%s: notes %q", noise, r.Notes)
		}
		two := func(s Side) Side {
			for _, o := range slices.Clone(s.Runs) {
				o.Mix = "W2"
				s.Runs = append(s.Runs, o)
			}
			return s
		}
		for _, c := range Gate(two(side(0, 60)), two(side(10, 70)), limits(t, "throughput=3%"), stats.DefaultAlpha).Checks {
			if c.Mixes == 2 && (c.Class != class || free && !strings.Contains(c.Text, "-14.3 %, limit 3%: one sample of each mix")) {
				t.Errorf("%s, over two mixes: %+v", noise, c)
			}
		}
		if g := Gate(side(0, 60), side(10, 70), limits(t, "throughput=3%"), stats.DefaultAlpha); g.Checks[0].Class != class {
			t.Errorf("%s: %+v", noise, g.Checks[0])
		}
	}
}
