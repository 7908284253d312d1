package sweep

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
)

// Every arm has its repetitions, each repetition all arms, warm-ups come first,
// and what a run is given does not depend on what else is in the
func TestPlanIsFair(t *testing.T) {
	planOf := func(mixes []string, scheds ...string) []results.Cell {
		o := Options{Mixes: mixes, Scheds: scheds, Reps: 5, Warmups: 2, Jobs: 1}
		p, err := New(t.Context(), harness.Options{Node: "sim:2xV100", Seed: 3, Noise: 0.1}, o, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		return p.Cells()
	}
	four := []string{"W1", "W2", "W3", "W4"}
	plan := planOf(four, "sa", "cg", "case-alg3")
	if len(plan) != 2*4+5*12 {
		t.Fatalf("%d cells, want 68", len(plan))
	}
	type run struct {
		mix, scheduler string
		repetition     int
		warmup         bool
	}
	seeds := map[uint64]bool{}
	seedOf := map[run]uint64{}
	var orders []string
	for i, c := range plan {
		if c.Position != i || c.Warmup != (i < 8) {
			t.Errorf("cell %d: %+v", i, c)
		}
		if !c.Warmup {
			if want := (i-8)/12 + 1; c.Repetition != want {
				t.Errorf("cell %d is of repetition %d, want %d", i, c.Repetition, want)
			}
			if (i-8)%12 == 0 {
				orders = append(orders, "")
			}
			orders[len(orders)-1] += c.Mix + c.Scheduler + " "
		}
		seeds[c.Seed] = true
		seedOf[run{c.Mix, c.Scheduler, c.Repetition, c.Warmup}] = c.Seed
	}
	if len(seeds) != len(plan) || len(seedOf) != len(plan) {
		t.Errorf("%d seeds and %d runs that differ among %d cells", len(seeds), len(seedOf), len(plan))
	}
	slices.Sort(orders)
	if len(slices.Compact(orders)) != 5 {
		t.Error("two repetitions run the arms in the same order")
	}
	if diff := cmp.Diff(plan, planOf(four, "sa", "cg", "case-alg3")); diff != "" {
		t.Errorf("the same seed gave another plan:\n%s", diff)
	}
	for _, c := range planOf([]string{"W3"}, "cg") {
		if !c.Warmup && c.Seed != seedOf[run{c.Mix, c.Scheduler, c.Repetition, c.Warmup}] {
			t.Errorf("%+v has another seed than in the larger sweep", c)
		}
	}
}

// unseen is a display that shows nothing.
type unseen struct{}

func (unseen) Ended(results.Cell, results.Run, *Progress, time.Time)     {}
func (unseen) Run(mixes.Mix, results.Mode, profiles.Set) harness.Display { return quiet{} }
func (unseen) Stop()                                                     {}

// quiet is a run's display that shows nothing.
type quiet struct{}

func (quiet) Start(bool)          {}
func (quiet) Job(results.Job)     {}
func (quiet) Event(results.Event) {}
func (quiet) Stop()               {}

func TestResumeNeedsAsManyGPUs(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, err := New(t.Context(), harness.Options{Node: "sim:1xV100"}, Options{Mixes: []string{"W1"}, Scheds: []string{"sa"}, Warmups: -1, Jobs: 1}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for range 2 { // of the second there is no run
		id, err := p.Store(t.Context(), db, false, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := (&Call{Plan: p, ID: ids[0], Store: db, Jobs: 1, Now: time.Now, Say: t.Logf, Display: unseen{}}).Run(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sweep   int64
		devices int
		says    string
	}{{ids[0], 1, ""}, {ids[0], 4, "its runs so far had 1 GPUs, and here are 4"}, {ids[1], 4, ""}} {
		p.devices = c.devices
		err := p.SameSize(t.Context(), db, c.sweep)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("sweep %d on %d devices: %v, want %q", c.sweep, c.devices, err, c.says)
		}
	}
}
