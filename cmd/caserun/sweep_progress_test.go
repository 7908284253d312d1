package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers/policies"
)

func TestSweepProgressTellsTheTimeLeft(t *testing.T) {
	cells := []results.Cell{{Mix: "W1", Scheduler: "sa", Repetition: 1, Warmup: true}, {Mix: "W1", Scheduler: "sa", Repetition: 2},
		{Mix: "W1", Scheduler: "cg", Repetition: 2}}
	times := estimates{{"W1", "sa"}: {seconds: 100}, {"W1", "cg"}: {seconds: 50}}
	run := results.Run{ID: 12, Mode: results.Live, Jobs: 16, Metrics: results.Metrics{OK: 15}}
	// A run under sa takes what the first did, 134.4 s; one under cg 50 s and the 11 s that runs take beside their makespans.
	for jobs, left := range map[int][2]string{1: {"3m15s", "1m1s"}, 2: {"1m38s", "31s"}} {
		var out strings.Builder
		now := time.Time{}
		p := newSweepProgress(&out, cells, 7, jobs, newForecast(results.Live, times), now)
		for i, c := range cells {
			took := []time.Duration{134440, 110000, 100000}[i] * time.Millisecond
			run.Metrics.MakespanS = new([]float64{123.44, 99, 99}[i])
			p.forecast.learn(c, run, took)
			now = now.Add(took)
			p.ended(c, run, now)
		}
		lines := strings.Split(out.String(), "\n")
		for i, want := range []string{
			"[8/10] about " + left[0] + " left; run 12: W1 under sa, warm-up 1: 15 of 16 jobs ok, makespan 123.4 s",
			"[9/10] about " + left[1] + " left; run 12: W1 under sa, repetition 2: 15 of 16 jobs ok, makespan 99.0 s",
			"[10/10] run 12: W1 under cg, repetition 2: 15 of 16 jobs ok, makespan 99.0 s",
		} {
			if lines[i] != want {
				t.Errorf("%d at once: line %d is %q, want %q", jobs, i, lines[i], want)
			}
		}
	}
}

// Of a simulated sweep, a line now and then, and the word in each.
func TestSimulatedSweepsAreQuiet(t *testing.T) {
	var out strings.Builder
	now := time.Time{}
	p := newSweepProgress(&out, make([]results.Cell, 100), 0, 1, newForecast(results.Simulated, nil), now)
	for range 99 {
		p.ended(results.Cell{}, results.Run{Mode: results.Simulated}, now.Add(simulatedEvery-1))
	}
	if out.Len() > 0 {
		t.Errorf("within %v it said\n%s", simulatedEvery, out.String())
	}
	p.ended(results.Cell{}, results.Run{Mode: results.Simulated}, now.Add(simulatedEvery))
	if got := out.String(); !strings.HasPrefix(got, "[100/100] SIMULATED; run") {
		t.Errorf("line %q", got)
	}
}

// Before this call has done a run of an arm, its estimate and what runs take
// beside their makespans; then what its own took.
func TestForecast(t *testing.T) {
	sa, cg := [2]string{"W1", "sa"}, [2]string{"W1", "cg"}
	times := estimates{sa: {100, "earlier runs"}, cg: {300, "profiles"}}
	type ran struct{ makespan, took float64 }
	for name, c := range map[string]struct {
		mode   results.Mode
		sa     []ran // under sa, in this call
		wantSA estimate
		wantCG estimate
	}{
		"nothing done":        {results.Live, nil, estimate{100, "earlier runs"}, estimate{300, "profiles"}},
		"one run":             {results.Live, []ran{{90, 96}}, estimate{96, "runs of this call"}, estimate{306, "profiles"}},
		"one that stands out": {results.Live, []ran{{90, 150}, {91, 95}, {92, 97}}, estimate{97, "runs of this call"}, estimate{305, "profiles"}},
		"virtual makespans":   {results.Simulated, []ran{{90, 0.5}}, estimate{0.5, "runs of this call"}, estimate{300, "profiles"}},
	} {
		f := newForecast(c.mode, times)
		for _, r := range c.sa {
			f.learn(results.Cell{Mix: "W1", Scheduler: "sa"}, results.Run{Metrics: results.Metrics{MakespanS: &r.makespan}},
				estimate{seconds: r.took}.duration())
		}
		if gotSA, gotCG := f.of(sa), f.of(cg); gotSA != c.wantSA || gotCG != c.wantCG {
			t.Errorf("%s: sa %v and cg %v, want %v and %v", name, gotSA, gotCG, c.wantSA, c.wantCG)
		}
	}
}

// An arm's time is that of its own earlier runs, or what its profiles say, shorter
// by as much as they were too long for another mix under its scheduler.
func TestEstimates(t *testing.T) {
	s, err := store.Open(t.TempDir() + "/runs.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, r := range []results.Run{
		{Scheduler: "sa", Metrics: results.Metrics{MakespanS: new(90.0)}},
		{Scheduler: "sa", Metrics: results.Metrics{MakespanS: new(100.0)}},
		{Scheduler: "sa", Metrics: results.Metrics{MakespanS: new(400.0)}},
		{Scheduler: "sa", Metrics: results.Metrics{MakespanS: new(7.0)}, Traced: true},
		{Scheduler: "sa", Metrics: results.Metrics{MakespanS: new(7.0)}, Warmup: true},
		{Scheduler: "cg", Metrics: results.Metrics{MakespanS: new(7.0)}, Parameters: "workers=99"},
		{Scheduler: "sa", Metrics: results.Metrics{MakespanS: new(7.0)}, Jobs: 2}, // a retry of collateral jobs
		{Scheduler: "sa", Metrics: results.Metrics{MakespanS: new(7.0)}, Jobs: 2},
	} {
		r.Mix, r.Node, r.Mode, r.Status = "W1", "local", results.Live, results.Complete
		if r.Jobs == 0 {
			r.Jobs = 16
		}
		id, err := s.BeginRun(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Writer(id).Finish(t.Context(), r); err != nil {
			t.Fatal(i, err)
		}
	}
	var both []mixes.Mix
	var alone []float64 // seconds, of each mix on the node's four devices
	for _, name := range []string{"W1", "W5"} {
		mix, err := mixes.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, j := range mix.Jobs {
			p, err := profiles.Catalog().Lookup(j)
			if err != nil {
				t.Fatal(err)
			}
			sum += p.WallS()
		}
		both, alone = append(both, mix), append(alone, sum/4)
	}
	m := &matrix{spec: sweepSpec{Scheds: []string{"sa", "cg"}}, config: config{Node: localNode}, mode: results.Live, devices: 4,
		mixes: both, profiles: profiles.Catalog()}
	for _, text := range m.spec.Scheds {
		settled, err := policies.Parse(text, 4)
		if err != nil {
			t.Fatal(err)
		}
		m.scheds = append(m.scheds, settled)
	}
	for name, c := range map[string]struct {
		db   *store.Store
		want estimates
	}{
		"with a store": {s, estimates{{"W1", "sa"}: {100, "earlier runs"}, {"W5", "sa"}: {alone[1] * (100 / alone[0]), "profiles and its other mixes"},
			{"W1", "cg"}: {alone[0], "profiles"}, {"W5", "cg"}: {alone[1], "profiles"}}},
		"without": {nil, estimates{{"W1", "sa"}: {alone[0], "profiles"}, {"W5", "sa"}: {alone[1], "profiles"},
			{"W1", "cg"}: {alone[0], "profiles"}, {"W5", "cg"}: {alone[1], "profiles"}}},
	} {
		times, err := m.estimates(t.Context(), c.db)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(times, c.want) {
			t.Errorf("%s: %v, want %v", name, times, c.want)
		}
	}
}
