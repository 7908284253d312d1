package regress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// scatter has the factors by which seven repetitions vary a figure.
var scatter = []float64{1, 1.004, 0.996, 1.008, 0.992, 1.002, 0.998}

// runs returns n repetitions of a batch of 32 jobs with the given makespan on the local node.
// change alters each run.
func runs(mix, scheduler string, makespan float64, n int, change func(*Observation)) []Observation {
	var out []Observation
	for i := range n {
		s := makespan * scatter[i%len(scatter)]
		throughput, turnaround := 32/s, s/2
		o := Observation{Run: results.Run{Mix: mix, Scheduler: scheduler, Node: "local", Mode: results.Live, Status: results.Complete, Jobs: 32,
			Metrics: results.Metrics{OK: 32, MakespanS: &s, ThroughputJobsPerS: &throughput, TurnaroundMeanS: &turnaround}}}
		if change != nil {
			change(&o)
		}
		out = append(out, o)
	}
	return out
}

func TestParseLimits(t *testing.T) {
	got, err := ParseLimits("throughput=3%, turnaround=5%,makespan=0.5%,crashes=2,slowdown=1.5pp")
	if err != nil {
		t.Fatal(err)
	}
	var bounds []float64
	var again []string
	for _, l := range got {
		bounds = append(bounds, l.Bound)
		again = append(again, l.String())
	}
	if diff := cmp.Diff([]float64{0.03, 0.05, 0.005, 2, 0.015}, bounds, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Error(diff)
	}
	if want := "throughput=3%,turnaround=5%,makespan=0.5%,crashes=2,slowdown=1.5pp"; strings.Join(again, ",") != want {
		t.Errorf("as text: %s, want %s", again, want)
	}
	for text, want := range map[string][2]string{
		"sa:crashes=1": {"", "sa"}, "W7/sa:crashes=1": {"W7", "sa"}, "coloc/sa:crashes=1": {"", "coloc/sa"}, "W7/coloc:nodes=2/sa:crashes=1": {"W7", "coloc:nodes=2/sa"},
	} {
		if got, err := ParseLimits(text); err != nil || got[0].Mix != want[0] || got[0].Scheduler != want[1] {
			t.Errorf("ParseLimits(%q): %+v, %v; want %q", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "METRIC=LIMIT", "throughput": "METRIC=LIMIT", "speed=3%": "one of throughput", "throughput=3": "percentage such as",
		"throughput=99999999999999999999%": "at most 1000000 and with at most 6 digits after the point", "throughput=3.0000001%": "at most 6 digits", "crashes=1000001": "at most 1000000", "slowdown=0.0000001pp": "at most 6 digits",
		"throughput=-3%": "not negative", "throughput=x%": "percentage such as", "throughput=NaN%": "percentage such as",
		"crashes=1%": "jobs per run", "slowdown=1%": "percentage points", "crashes=0,crashes=1": "already",
	} {
		if _, err := ParseLimits(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseLimits(%q): %v; must say %q", text, err, says)
		}
	}
}

// Each class follows from its cause.
func TestGateClasses(t *testing.T) {
	driver := func(v string) func(*Observation) {
		return func(o *Observation) { o.Provenance.Driver = &v }
	}
	crashed := func(n int) func(*Observation) {
		return func(o *Observation) { o.Metrics.OK, o.Metrics.Crashed = 32-n, n }
	}
	share := func(v float64) func(*Observation) {
		return func(o *Observation) { o.Traced, o.Metrics.Slowdown = true, &v }
	}
	// lower scales the throughput, whose values scatter as before.
	lower := func(version string, factor float64) func(*Observation) {
		i := 0
		return func(o *Observation) {
			v := factor * []float64{50, 54, 46, 52, 48, 56, 44}[i%7]
			i++
			o.Metrics.ThroughputJobsPerS, o.Provenance.Driver = &v, &version
		}
	}
	wide := func(i int) func(*Observation) {
		return func(o *Observation) {
			v := []float64{40, 90, 55, 75, 60, 48, 82}[i%7]
			i += 3
			o.Metrics.ThroughputJobsPerS = &v
		}
	}
	for name, c := range map[string]struct {
		baseline, candidate []Observation
		limits              string
		class               Class
		says                string
	}{
		"no change":            {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 60, 7, nil), "throughput=3%", Passed, "+0.0 %"},
		"within the limit":     {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 61.2, 7, nil), "throughput=3%", Passed, "-2.0 %"},
		"slower":               {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 66, 7, nil), "throughput=3%", Regression, "worse: -9.1 %"},
		"longer turnaround":    {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 66, 7, nil), "turnaround=5%", Regression, "worse: +10.0 %"},
		"faster":               {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 50, 7, nil), "throughput=3%", Passed, "better: +20.0 %"},
		"faster turnaround":    {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 50, 7, nil), "turnaround=3%", Passed, "better"},
		"three repetitions":    {runs("W1", "sa", 60, 3, nil), runs("W1", "sa", 90, 3, nil), "throughput=3%", Noise, "measure 4 of each"},
		"one repetition":       {runs("W1", "sa", 60, 1, nil), runs("W1", "sa", 60, 1, nil), "throughput=3%", Noise, "too few repetitions"},
		"scatter":              {runs("W1", "sa", 60, 7, wide(0)), runs("W1", "sa", 60, 7, wide(1)), "throughput=3%", Noise, "would not stand out"},
		"lower in the noise":   {runs("W1", "sa", 60, 7, lower("550", 1)), runs("W1", "sa", 60, 7, lower("550", 0.9)), "throughput=3%", Noise, "beyond the limit, but not significant"},
		"lower, new driver":    {runs("W1", "sa", 60, 7, lower("550", 1)), runs("W1", "sa", 60, 7, lower("580", 0.9)), "throughput=3%", Noise, "beyond the limit, but not significant"},
		"new driver":           {runs("W1", "sa", 60, 7, driver("550")), runs("W1", "sa", 66, 7, driver("580")), "throughput=3%", EnvironmentChanged, "(driver)"},
		"new driver, as fast":  {runs("W1", "sa", 60, 7, driver("550")), runs("W1", "sa", 60, 7, driver("580")), "throughput=3%", Passed, ""},
		"crashes":              {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 60, 7, crashed(1)), "crashes=0", Crash, "3.1 % of jobs crashed, 0.0 % before"},
		"no more crashes":      {runs("W1", "sa", 60, 7, crashed(8)), runs("W1", "sa", 60, 7, crashed(8)), "crashes=0", Passed, "25.0 % of jobs crashed"},
		"crashes per run":      {runs("W1", "sa", 60, 7, crashed(2)), runs("W1", "sa", 60, 3, crashed(2)), "crashes=0", Passed, "6.2 % of jobs crashed"},
		"crashes in the limit": {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 60, 7, crashed(1)), "crashes=1", Passed, "3.1 % of jobs crashed, 0.0 % before"},
		"nothing":              {runs("W1", "sa", 60, 7, nil), nil, "throughput=3%", NothingMeasured, "no complete run of it"},
		"nothing at all":       {nil, nil, "crashes=0", NothingMeasured, "in common"},
		"not complete":         {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 60, 7, func(o *Observation) { o.Status = results.Interrupted }), "crashes=0", NothingMeasured, "no complete run of it"},
		"all crashed":          {runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 60, 7, func(o *Observation) { o.Metrics.TurnaroundMeanS = nil }), "turnaround=5%", NothingMeasured, "no value in 7 runs of the candidate"},
		"all had crashed":      {runs("W1", "sa", 60, 7, func(o *Observation) { o.Metrics.ThroughputJobsPerS = new(0.0) }), runs("W1", "sa", 60, 7, nil), "throughput=3%", Passed, "better: up from 0, limit 3%"},
		"kernels slower":       {runs("W1", "cg", 60, 7, share(0.02)), runs("W1", "cg", 60, 7, share(0.05)), "slowdown=1pp", Regression, "+3.0 pp"},
		"kernels as fast":      {runs("W1", "cg", 60, 7, share(0.02)), runs("W1", "cg", 60, 7, share(0.025)), "slowdown=1pp", Passed, "+0.5 pp"},
		"untraced":             {runs("W1", "cg", 60, 7, nil), runs("W1", "cg", 60, 7, nil), "slowdown=1pp", NothingMeasured, "--trace"},
		"traced without sa": {runs("W1", "cg", 60, 7, func(o *Observation) { o.Traced = true }), runs("W1", "cg", 60, 7, func(o *Observation) { o.Traced = true }),
			"slowdown=1pp", NothingMeasured, "it needs traced runs, under sa on each side too"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Gate(Side{Label: "old", Runs: c.baseline}, Side{Label: "new", Runs: c.candidate}, limits(t, c.limits), stats.DefaultAlpha)
			if len(r.Checks) != 1 {
				t.Fatalf("%d checks: %+v", len(r.Checks), r.Checks)
			}
			got := r.Checks[0]
			if got.Class != c.class || !strings.Contains(got.Text, c.says) {
				t.Errorf("%s: %q, want %s: %q", got.Class, got.Text, c.class, c.says)
			}
			if (r.Failed() == 1) != c.class.Fails() || (r.Unsettled() == 1) != c.class.Unsettled() {
				t.Errorf("%d failed and %d unsettled of class %s", r.Failed(), r.Unsettled(), c.class)
			}
		})
	}
}

// Times of traced runs do not count if there are untraced runs, and are not compared with them.
func TestTracedRunsAreArmsOfTheirOwn(t *testing.T) {
	traced := func(o *Observation) { v := 0.01; o.Traced, o.Metrics.Slowdown = true, &v }
	side := func(label string, tracedMakespan float64) Side {
		alone := func(o *Observation) { o.Traced = true } // the baseline of slowdowns has no slowdown itself
		return Side{Label: label, Runs: slices.Concat(runs("W1", "cg", 60, 7, nil), runs("W1", "cg", tracedMakespan, 7, traced),
			runs("W1", "sa", 60, 7, nil), runs("W1", "sa", tracedMakespan, 7, alone))}
	}
	r := Gate(side("old", 70), side("new", 90), limits(t, "throughput=3%,slowdown=1pp,crashes=0"), stats.DefaultAlpha)
	var got []string
	for _, c := range r.Checks {
		got = append(got, fmt.Sprint(c.Limit.Metric.Name, " ", c.Arm, " ", c.Class))
	}
	want := []string{"throughput W1 under cg on local ok", "crashes W1 under cg on local ok", "slowdown W1 under cg on local, traced ok",
		"crashes W1 under cg on local, traced ok", "throughput W1 under sa on local ok", "crashes W1 under sa on local ok", "crashes W1 under sa on local, traced ok"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A night's checks share alpha. With 86 checks seven repetitions do not suffice, and the gate
// says how many do.
func TestGateOfManyChecks(t *testing.T) {
	var a, b Side
	for i := range 43 {
		a.Runs = append(a.Runs, runs(fmt.Sprint("W", i), "sa", 60, 7, nil)...)
		b.Runs = append(b.Runs, runs(fmt.Sprint("W", i), "sa", 60, 7, nil)...)
	}
	copy(b.Runs, runs("W0", "sa", 90, 7, nil))
	r := Gate(a, b, limits(t, "throughput=3%,makespan=3%"), stats.DefaultAlpha)
	// Two of the 86 differ, but the smaller p times 86 is above alpha.
	if c := r.Checks[0]; c.Class != Noise || !strings.Contains(c.Text, "measure 8 of each") {
		t.Errorf("%s: %s", c.Class, c.Text)
	}
}

func TestPairs(t *testing.T) {
	labels := func(pairs []Pair, names results.Names) []string {
		var out []string
		for _, p := range pairs {
			out = append(out, p.title(names))
		}
		return out
	}
	sim := func(o *Observation) { o.Mode, o.Node = results.Simulated, "sim:4xV100" }
	queue := func(q string) func(*Observation) {
		return func(o *Observation) { o.Parameters = "queue=" + q }
	}
	workers := func(n string) func(*Observation) {
		return func(o *Observation) { o.Parameters = "workers=" + n }
	}
	static := func(o *Observation) { o.Probe = results.Static }
	for name, c := range map[string]struct {
		a, b       []Observation
		want       []string
		warns      string
		ambiguous  string // what the error says; empty: there is none
		onlyA      int
		onlyB      int
		noWarnings bool
	}{
		"same arms": {a: slices.Concat(runs("W1", "sa", 60, 2, nil), runs("W2", "sa", 60, 2, nil)), b: slices.Concat(runs("W1", "sa", 60, 2, nil), runs("W3", "sa", 60, 2, nil)),
			want: []string{"W1 under sa on local"}, onlyA: 1, onlyB: 1, noWarnings: true},
		"schedulers": {a: slices.Concat(runs("W1", "sa", 60, 2, nil), runs("W2", "sa", 60, 2, nil)), b: slices.Concat(runs("W1", "cg", 60, 2, nil), runs("W2", "cg", 60, 2, nil)),
			want: []string{"W1 under sa on local and W1 under cg on local", "W2 under sa on local and W2 under cg on local"}, noWarnings: true},
		"parameters": {a: runs("W1", "sa", 60, 2, queue("fifo")), b: runs("W1", "sa", 60, 2, queue("largest")), want: []string{"W1 under sa:queue=fifo on local and W1 under sa:queue=largest on local"}, warns: "parameters of sa differ"},
		"two schedulers": {a: slices.Concat(runs("W1", "sa", 60, 2, nil), runs("W1", "cg", 60, 2, nil)), b: runs("W1", "zero", 60, 2, nil),
			ambiguous: "W1 under zero on local could be W1 under sa on local or W1 under cg on local; name one scheduler, as in sweep:3/sa"},
		"two partners": {a: runs("W1", "zero", 60, 2, nil), b: slices.Concat(runs("W1", "sa", 60, 2, nil), runs("W1", "cg", 60, 2, nil)),
			ambiguous: "W1 under zero on local could be W1 under cg on local or W1 under sa on local; name one scheduler, as in sweep:3/cg"},
		"two sets of parameters": {a: runs("W1", "zero", 60, 2, nil), b: slices.Concat(runs("W1", "cg", 60, 2, workers("2")), runs("W1", "cg", 60, 2, workers("4"))),
			ambiguous: "W1 under zero on local could be W1 under cg:workers=2 on local or W1 under cg:workers=4 on local; name one scheduler, as in sweep:3/cg:workers=2"},
		"probes": {a: runs("W1", "sa", 60, 2, nil), b: runs("W1", "sa", 60, 2, static),
			want: []string{"W1 under sa:probe=lazy on local and W1 under sa:probe=static on local"}, warns: "the probes differ: lazy and static"},
		"two probes": {a: runs("W1", "zero", 60, 2, nil), b: slices.Concat(runs("W1", "cg", 60, 2, static), runs("W1", "cg", 60, 2, nil)),
			ambiguous: "W1 under zero on local could be W1 under cg:probe=lazy on local or W1 under cg:probe=static on local; name one scheduler, as in sweep:3/cg:probe=lazy"},
		"simulated": {a: runs("W1", "sa", 60, 2, sim), b: runs("W1", "sa", 60, 2, nil), want: []string{"W1 under sa on sim:4xV100, simulated and W1 under sa on local"}, warns: "SIMULATED figures are compared with measured ones"},
		"traced": {a: runs("W1", "sa", 60, 2, nil), b: runs("W1", "sa", 60, 2, func(o *Observation) { o.Traced = true }),
			want: []string{"W1 under sa on local and W1 under sa on local, traced"}, warns: "traced runs are compared with untraced ones"},
		"mixes": {a: runs("W1", "sa", 60, 2, nil), b: runs("W2", "sa", 60, 2, nil), want: []string{"W1 under sa on local and W2 under sa on local"}, warns: "the batches differ"},
		"never by chance": {a: slices.Concat(runs("W1", "sa", 60, 2, nil), runs("W2", "sa", 60, 2, nil)), b: slices.Concat(runs("W1", "sa", 60, 2, sim), runs("W2", "sa", 60, 2, sim)),
			onlyA: 2, onlyB: 2},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := Side{Runs: c.a}.arms(), Side{Runs: c.b}.arms()
			names := namesOf(a, b)
			pairs, onlyA, onlyB, err := pairsOf(a, b, names)
			if errors.Is(err, ErrAmbiguous) != (c.ambiguous != "") || err != nil && !strings.Contains(err.Error(), c.ambiguous) {
				t.Fatalf("%v, want %q", err, c.ambiguous)
			}
			if diff := cmp.Diff(c.want, labels(pairs, names)); diff != "" {
				t.Error(diff)
			}
			if len(onlyA) != c.onlyA || len(onlyB) != c.onlyB {
				t.Errorf("without a partner: %v and %v", onlyA, onlyB)
			}
			for _, p := range pairs {
				if all := strings.Join(p.Warnings, "\n"); !strings.Contains(all, c.warns) || c.noWarnings && all != "" {
					t.Errorf("warnings %q, want %q", all, c.warns)
				}
			}
		})
	}
}

func TestCompare(t *testing.T) {
	a := Side{Label: "old", Runs: runs("W1", "sa", 60, 7, nil)}
	b := Side{Label: "new", Runs: append(runs("W1", "sa", 66, 7, nil), runs("W1", "sa", 99, 1, func(o *Observation) { o.Status = results.Interrupted })...)}
	r, err := Compare(a, b, Options{MinEffect: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range r.Rows {
		got = append(got, fmt.Sprintf("%s %+.1f %s", row.Metric.Name, 100*row.Change, row.Verdict))
	}
	want := []string{"throughput -9.1 worse", "turnaround +10.0 worse", "makespan +10.0 worse", "crashes +0.0 same"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "runs of new that are not complete, and are left out: 1") {
		t.Errorf("notes: %s", notes)
	}
}

// A retry of some of a mix's jobs is not a repetition of the mix.
func TestPartsOfAMixAreArmsOfTheirOwn(t *testing.T) {
	a := Side{Label: "old", Runs: runs("W1", "sa", 60, 7, nil)}
	b := Side{Label: "new", Runs: append(runs("W1", "sa", 60, 7, nil), runs("W1", "sa", 3, 7, func(o *Observation) { o.Jobs = 2 })...)}
	r, err := Compare(a, b, Options{Metrics: []results.Metric{Metrics()[0]}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 1 || r.Rows[0].B.N != 7 {
		t.Errorf("rows: %+v", r.Rows)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "runs of new called W1 have different numbers of jobs (2 32)") {
		t.Errorf("notes: %s", notes)
	}
}

// No run is compared with itself.
func TestSidesAreApart(t *testing.T) {
	side := func(label string, ids ...int64) Side {
		s := Side{Label: label}
		for _, id := range ids {
			s.Runs = append(s.Runs, Observation{Run: results.Run{ID: id}})
		}
		return s
	}
	for name, c := range map[string]struct {
		a, b  []int64
		want  [2][]int64
		says  string // a note, or what the error says
		fails bool
	}{
		"apart":           {[]int64{1, 2}, []int64{3}, [2][]int64{{1, 2}, {3}}, "", false},
		"part of the old": {[]int64{1, 2, 3}, []int64{3}, [2][]int64{{1, 2}, {3}}, "runs that are in both old and new are left out of old: 1", false},
		"part of the new": {[]int64{2}, []int64{1, 2, 3}, [2][]int64{{2}, {1, 3}}, "runs that are in both new and old are left out of new: 1", false},
		"overlapping":     {[]int64{1, 2}, []int64{2, 3}, [2][]int64{}, "have runs in common (1)", true},
		"the same":        {[]int64{1, 2}, []int64{1, 2}, [2][]int64{}, "old and new are the same runs", true},
		"nothing new":     {[]int64{1}, nil, [2][]int64{{1}, nil}, "", false},
	} {
		a, b, err := Apart(side("old", c.a...), side("new", c.b...))
		if c.fails {
			if !errors.Is(err, ErrNotApart) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: error %v, want one that says %q", name, err, c.says)
			}
			continue
		}
		var got [2][]int64
		for i, s := range []Side{a, b} {
			for _, o := range s.Runs {
				got[i] = append(got[i], o.ID)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if notes := strings.Join(append(a.Notes, b.Notes...), "\n"); notes != c.says {
			t.Errorf("%s: notes %q, want %q", name, notes, c.says)
		}
	}
}

// A side has no slowdown against runs that belong to the other side.
func TestSlowdownsStayWithTheirBaseline(t *testing.T) {
	of := func(id int64, scheduler string, slowdown *float64) Observation {
		return Observation{Run: results.Run{ID: id, Mix: "W1", Scheduler: scheduler, Node: "local", Mode: results.Live, Jobs: 32, Traced: true, Status: results.Complete, Metrics: results.Metrics{Slowdown: slowdown}}}
	}
	a, b, err := Apart(Side{Label: "tag", Runs: []Observation{of(1, "cg", new(0.5)), of(2, "sa", nil), of(3, "cg", new(0.5))}},
		Side{Label: "sweep", Runs: []Observation{of(2, "sa", nil), of(3, "cg", new(0.4))}})
	if err != nil || len(a.Runs) != 1 || a.Runs[0].Metrics.Slowdown != nil || *b.Runs[1].Metrics.Slowdown != 0.4 {
		t.Errorf("%+v and %+v, %v", a.Runs, b.Runs, err)
	}
}

// A side may be a sweep that was resumed on another machine. As a whole its environment equals
// the other side's, so a note must say so.
func TestSidesOfSeveralMachinesAreNoted(t *testing.T) {
	side := func(label string, id int64) Side {
		s := Side{Label: label, Runs: runs("W1", "sa", 60, 7, nil)}
		for i := range s.Runs {
			s.Runs[i].ID = id + int64(i)
			s.Runs[i].Devices = []results.Device{{UUID: fmt.Sprintf("GPU-%d", i%2)}}
		}
		return s
	}
	r := Gate(side("old", 1), side("new", 11), limits(t, "throughput=3%"), stats.DefaultAlpha)
	want := []string{"runs of old are of several machines (host names: 1, sets of GPUs: 2)",
		"runs of new are of several machines (host names: 1, sets of GPUs: 2)", "compared machine by machine, on 2"}
	if diff := cmp.Diff(want, r.Notes); diff != "" {
		t.Error(diff)
	}
}

// A warning about all arms is given once. A warning about one arm names it.
func TestWarningsAreGathered(t *testing.T) {
	as := func(driver, revision string) func(*Observation) {
		return func(o *Observation) { o.Provenance.Driver, o.Provenance.Revision = &driver, revision }
	}
	a := Side{Label: "old", Runs: slices.Concat(runs("W1", "sa", 60, 4, as("1", "x")), runs("W2", "sa", 60, 4, as("1", "x")), runs("W3", "sa", 60, 4, as("1", "x")))}
	b := Side{Label: "new", Runs: slices.Concat(runs("W1", "sa", 60, 4, as("1", "y")), runs("W2", "sa", 60, 4, as("2", "y")), runs("W3", "sa", 60, 4, as("2", "y")))}
	r := Gate(a, b, limits(t, "crashes=0"), stats.DefaultAlpha)
	want := []string{"different version:  x and  y",
		"W2 under sa on local and 1 more: different driver: 1 with CUDA unknown and 2 with CUDA unknown"}
	if diff := cmp.Diff(want, r.Notes); diff != "" {
		t.Error(diff)
	}
}

// One crash in a hundred jobs matters, although one percent of another metric does not.
func TestAnyCrashMatters(t *testing.T) {
	side := func(label string, crashed int) Side {
		return Side{Label: label, Runs: runs("W1", "sa", 60, 7, func(o *Observation) { o.Jobs, o.Metrics.Crashed = 100, crashed })}
	}
	r, err := Compare(side("old", 0), side("new", 1), Options{MinEffect: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	if last := r.Rows[len(r.Rows)-1]; !last.Metric.Counts() || last.Verdict != stats.Worse {
		t.Errorf("%s: %s", last.Metric.Name, last.Verdict)
	}
}

// The same seed twice under one tag is one sample twice: eight runs of four draws of noise are
// four samples, and a difference that needs eight is not found.
func TestCopiesAreNotRepetitions(t *testing.T) {
	side := func(label string, seed uint64, makespan float64, noise string) Side {
		s := Side{Label: label}
		for range 2 {
			i := uint64(0)
			s.Runs = append(s.Runs, runs("W1", "sa", makespan, 4, func(o *Observation) {
				o.Mode, o.Seed, o.Provenance.Configuration = results.Simulated, seed+i, noise
				i++
			})...)
		}
		return s
	}
	const noisy = `{"sim-noise":0.01}`
	r, err := Compare(side("old", 1, 60, noisy), side("new", 11, 66, noisy), Options{MinEffect: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Rows[0].Comparison; c.A.N != 4 || c.B.N != 4 || c.Verdict != stats.Inconclusive || c.P < 0.01 {
		t.Errorf("%+v", c)
	}
	if want := "old: simulated runs that repeat another one, with the same seed or without noise, and are left out: 4"; !slices.Contains(r.Notes, want) {
		t.Errorf("notes %q lack %q", r.Notes, want)
	}
	r, err = Compare(side("old", 1, 60, noisy), side("new", 1, 66, noisy), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "both sides have the same seeds") {
		t.Errorf("notes %q", notes)
	}
}

// Energy is compared only where it is named, and less of it is better.
func TestEnergyIsComparedWhereNamed(t *testing.T) {
	side := func(label string, joules float64) Side {
		s := Side{Label: label}
		for i := range 7 {
			o := Observation{Run: results.Run{ID: int64(i), Mix: "W1", Scheduler: "sa", Node: "local", Mode: results.Live, Jobs: 1, Status: results.Complete}}
			o.Metrics.OK, o.Metrics.MakespanS = 1, new(1+float64(i)/1000)
			o.Metrics.Energy.UsedJ, o.Metrics.Energy.PerOK = new(joules+float64(i)), new(joules/10+float64(i)/10)
			s.Runs = append(s.Runs, o)
		}
		return s
	}
	base, worse := side("base", 1000), side("worse", 1200)
	r, err := Compare(base, worse, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Metric.Compared == results.IfNamed {
			t.Errorf("%s is compared without being named", row.Metric.Name)
		}
	}
	for _, name := range []string{"energy", "energy-per-job"} {
		m, err := LookupMetric(name)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = Compare(base, worse, Options{Metrics: []results.Metric{m}, MinEffect: 0.02}); err != nil || len(r.Rows) != 1 || r.Rows[0].Verdict != stats.Worse {
			t.Errorf("%s, 20 %% more: %+v (%v), want worse", name, r.Rows, err)
		}
		limits, err := ParseLimits(name + "=5%")
		if err != nil {
			t.Fatal(err)
		}
		if class := Gate(base, worse, limits, 0.05).Checks[0].Class; class != Regression {
			t.Errorf("a gate of %s finds %s, want a regression", name, class)
		}
		if class := Gate(worse, base, limits, 0.05).Checks[0].Class; class != Passed {
			t.Errorf("a gate of less %s finds %s, want ok", name, class)
		}
	}
}
