package main

import (
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers"
)

func TestSweepProgressTellsTheTimeLeft(t *testing.T) {
	var out strings.Builder
	cells := []results.Cell{{Mix: "W1", Scheduler: "sa", Repetition: 1, Warmup: true}, {Mix: "W1", Scheduler: "sa", Repetition: 2},
		{Mix: "W1", Scheduler: "cg", Repetition: 2}}
	times := estimates{{"W1", "sa"}: {seconds: 100}, {"W1", "cg"}: {seconds: 50}}
	p := newSweepProgress(&out, results.Live, cells, 7, times)
	run := results.Run{ID: 12, Mode: results.Live, Jobs: 16, Metrics: results.Metrics{OK: 15, MakespanS: new(123.44)}}
	for i, c := range cells {
		p.began = time.Now().Add(-time.Duration(i+1) * 120 * time.Second)
		p.ended(c, run)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"[8/10] run 12: W1 under sa, warm-up 1: 15 of 16 jobs ok, makespan 123.4 s; about 3m0s left",
		"[9/10] run 12: W1 under sa, repetition 2: 15 of 16 jobs ok, makespan 123.4 s; about 1m0s left",
		"[10/10] run 12: W1 under cg, repetition 2: 15 of 16 jobs ok, makespan 123.4 s",
	} {
		if lines[i] != want {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

// Of a simulated sweep, a line now and then, and the word in each.
func TestSimulatedSweepsAreQuiet(t *testing.T) {
	var out strings.Builder
	p := newSweepProgress(&out, results.Simulated, make([]results.Cell, 100), 0, estimates{{"", ""}: {seconds: 1}})
	for range 99 {
		p.ended(results.Cell{}, results.Run{Mode: results.Simulated})
	}
	if out.Len() > 0 {
		t.Errorf("within %v it said\n%s", simulatedEvery, out.String())
	}
	p.last = p.last.Add(-simulatedEvery)
	p.ended(results.Cell{}, results.Run{Mode: results.Simulated})
	if got := out.String(); !strings.HasPrefix(got, "[100/100]") || !strings.Contains(got, "SIMULATED") {
		t.Errorf("line %q", got)
	}
}

// An arm's time is that of its own earlier runs, or what its profiles say.
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
	} {
		r.Mix, r.Node, r.Mode, r.Status = "W1", "local", results.Live, results.Complete
		id, err := s.BeginRun(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Writer(id).Finish(t.Context(), r); err != nil {
			t.Fatal(i, err)
		}
	}
	mix, err := mixes.Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	alone := 0.0
	for _, j := range mix.Jobs {
		p, err := profiles.Catalog().Lookup(j)
		if err != nil {
			t.Fatal(err)
		}
		alone += p.WallS()
	}
	m := &matrix{spec: sweepSpec{Scheds: []string{"sa", "cg"}}, config: config{Node: localNode}, mode: results.Live, devices: 4,
		mixes: []mixes.Mix{mix}, profiles: profiles.Catalog()}
	for _, text := range m.spec.Scheds {
		settled, err := schedulers.Parse(text, 4)
		if err != nil {
			t.Fatal(err)
		}
		m.scheds = append(m.scheds, settled)
	}
	for name, c := range map[string]struct {
		db     *store.Store
		sa, cg estimate
	}{
		"with a store": {s, estimate{100, "earlier runs"}, estimate{alone / 4, "profiles"}},
		"without":      {nil, estimate{alone / 4, "profiles"}, estimate{alone / 4, "profiles"}},
	} {
		times, err := m.estimates(t.Context(), c.db)
		if err != nil {
			t.Fatal(err)
		}
		if sa, cg := times[[2]string{"W1", "sa"}], times[[2]string{"W1", "cg"}]; sa != c.sa || cg != c.cg {
			t.Errorf("%s: sa %v, cg %v; want %v and %v", name, sa, cg, c.sa, c.cg)
		}
	}
}
