package sweep

import (
	"maps"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/policies"
)

// The time left is that of the runs that are left, divided by the runs at once. A run under sa
// takes what the first run took, 134.4 s. A run under cg takes 50 s and the 11 s that runs take
// beside their makespans.
func TestTimeLeft(t *testing.T) {
	cells := []results.Cell{{Mix: "W1", Scheduler: "sa", Repetition: 1, Warmup: true}, {Mix: "W1", Scheduler: "sa", Repetition: 2},
		{Mix: "W1", Scheduler: "cg", Repetition: 2}}
	times := Estimates{{"W1", "sa", results.Lazy}: {Seconds: 100}, {"W1", "cg", results.Lazy}: {Seconds: 50}}
	for jobs, left := range map[int][3]string{1: {"3m15s", "1m1s", "0s"}, 2: {"1m38s", "31s", "0s"}} {
		f := newForecast(results.Live, times)
		p := newProgress(cells, 7, jobs, f)
		for i, c := range cells {
			took := []time.Duration{134440, 110000, 100000}[i] * time.Millisecond
			f.learn(c, results.Run{Metrics: results.Metrics{MakespanS: new([]float64{123.44, 99, 99}[i])}}, took)
			p.ended(c)
			if got := p.Left().Round(time.Second).String(); got != left[i] || p.Done != 8+i || p.Total != 10 {
				t.Errorf("%d at once: %s left after %d of %d, want %s", jobs, got, p.Done, p.Total, left[i])
			}
		}
	}
}

func TestRunsThatFit(t *testing.T) {
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		limit, elapsed, run time.Duration
		fits                bool
	}{
		{10 * time.Minute, 0, 10 * time.Minute, true},
		{10 * time.Minute, 1, 10 * time.Minute, false},
		{10 * time.Minute, 8 * time.Minute, 2 * time.Minute, true},
		{10 * time.Minute, 11 * time.Minute, 0, false},
		{0, 1000 * time.Hour, time.Hour, true}, // no limit
	} {
		l := TimeLimit{Began: began, Total: c.limit}
		if got := l.fits(began.Add(c.elapsed), Estimate{Seconds: c.run.Seconds()}); got != c.fits {
			t.Errorf("%v of %v elapsed, a run of %v: fits %v, want %v", c.elapsed, c.limit, c.run, got, c.fits)
		}
	}
}

// Before this call has done a run of an arm, its estimate and what runs take
// beside their makespans; then what its own took. On a simulated node estimates are rough, and are corrected by the runs under
// the same scheduler, or else by all.
func TestForecast(t *testing.T) {
	sa, cg, other := arm{"W1", "sa", results.Lazy}, arm{"W1", "cg", results.Lazy}, arm{"W2", "sa", results.Lazy}
	times := Estimates{sa: {100, "earlier runs"}, cg: {300, "profiles"}, other: {200, "profiles"}}
	type ran struct{ makespan, took float64 }
	for name, c := range map[string]struct {
		mode   results.Mode
		sa     []ran // under sa, in this call
		wantSA Estimate
		wantCG Estimate
		other  float64 // another mix under sa
	}{
		"nothing done":        {results.Live, nil, Estimate{100, "earlier runs"}, Estimate{300, "profiles"}, 200},
		"one run":             {results.Live, []ran{{90, 96}}, Estimate{96, "runs of this call"}, Estimate{306, "profiles"}, 206},
		"one that stands out": {results.Live, []ran{{90, 150}, {91, 95}, {92, 97}}, Estimate{97, "runs of this call"}, Estimate{305, "profiles"}, 205},
		"virtual makespans":   {results.Simulated, []ran{{90, 400}, {90, 400}}, Estimate{400, "runs of this call"}, Estimate{1200, "profiles"}, 800},
		"under another":       {results.Simulated, nil, Estimate{200, "earlier runs"}, Estimate{600, "runs of this call"}, 400},
	} {
		f := newForecast(c.mode, times)
		for _, r := range c.sa {
			f.learn(results.Cell{Mix: "W1", Scheduler: "sa"}, results.Run{Metrics: results.Metrics{MakespanS: &r.makespan}},
				Estimate{Seconds: r.took}.duration())
		}
		if name == "under another" {
			f.learn(results.Cell{Mix: "W1", Scheduler: "cg"}, results.Run{}, Estimate{Seconds: 600}.duration())
		}
		if got := f.of(other); got != (Estimate{c.other, "profiles"}) {
			t.Errorf("%s: another mix %v, want %v s", name, got, c.other)
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
	p := &Plan{Spec: results.Spec{Scheds: []string{"sa", "cg"}, Probes: []results.Probe{results.Lazy}}, Options: harness.Options{Node: nodes.Local}, Mode: results.Live, devices: 4, allDevices: 4,
		mixes: both, profiles: profiles.Catalog()}
	for _, text := range p.Spec.Scheds {
		settled, err := policies.Parse(text, 4)
		if err != nil {
			t.Fatal(err)
		}
		p.scheds = append(p.scheds, settled)
	}
	for name, c := range map[string]struct {
		db   *store.Store
		want Estimates
	}{
		"with a store": {s, Estimates{{"W1", "sa", results.Lazy}: {100, "earlier runs"}, {"W5", "sa", results.Lazy}: {alone[1] * (100 / alone[0]), "profiles and its other runs"},
			{"W1", "cg", results.Lazy}: {alone[0], "profiles"}, {"W5", "cg", results.Lazy}: {alone[1], "profiles"}}},
		"without": {nil, Estimates{{"W1", "sa", results.Lazy}: {alone[0], "profiles"}, {"W5", "sa", results.Lazy}: {alone[1], "profiles"},
			{"W1", "cg", results.Lazy}: {alone[0], "profiles"}, {"W5", "cg", results.Lazy}: {alone[1], "profiles"}}},
	} {
		times, err := p.Estimates(t.Context(), c.db)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(times, c.want) {
			t.Errorf("%s: %v, want %v", name, times, c.want)
		}
	}
}

// The estimates of simulated runs are near what runs took: 0.15 s, 0.8 s and 20.7 s of a core's time under plan, and 0.2 s
// under case-alg3.
func TestEstimatesOfSimulatedRuns(t *testing.T) {
	for _, c := range []struct {
		sched    string
		jobs     int
		low, top float64
	}{{"plan", 16, 0.1, 0.3}, {"plan", 32, 0.5, 1.2}, {"plan", 128, 13, 30}, {"plan:search=200", 128, 1.5, 4}, {"case-alg3", 128, 0.1, 0.3}} {
		s, err := policies.Parse(c.sched, 4)
		if err != nil {
			t.Fatal(err)
		}
		if got := simulatedRun(s, c.jobs).Seconds; got < c.low || got > c.top {
			t.Errorf("%d jobs under %s: %.3g s, want %g to %g", c.jobs, c.sched, got, c.low, c.top)
		}
	}
}
