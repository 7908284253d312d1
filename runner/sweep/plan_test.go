package sweep

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
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
		p.allDevices = c.devices
		err := p.SameSize(t.Context(), db, c.sweep)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("sweep %d on %d devices: %v, want %q", c.sweep, c.devices, err, c.says)
		}
	}
}

// A simulated sweep has seven repetitions with noise unless it is told otherwise. Without noise one
// repetition is enough.
func TestDefaultsOfASimulatedSweep(t *testing.T) {
	const ownNoise = 0.05
	for name, c := range map[string]struct {
		noise float64
		given bool
		reps  int
		want  string
		said  string // beside the plan
	}{
		"nothing told":             {0, false, 0, "7 repetitions, noise 1 %", ""},
		"repetitions":              {0, false, 1, "1 repetition, noise 1 %", ""},
		"noise":                    {ownNoise, true, 0, "7 repetitions, noise 5 %", ""},
		"noise, by another caller": {ownNoise, false, 0, "7 repetitions, noise 5 %", ""},
		"no noise":                 {0, true, 0, "1 repetition, no noise", ""},
		"no noise, repetitions":    {0, true, 3, "3 repetitions, no noise", "the 3 repetitions of an arm are equal: give --sim-noise 0.01, or --reps 1"},
		"all":                      {ownNoise, true, 2, "2 repetitions, noise 5 %", ""},
	} {
		var said []string
		p, err := New(t.Context(), harness.Options{Node: "sim:1xV100", Noise: c.noise}, Options{Mixes: []string{"W1"}, Scheds: []string{"sa"}, Reps: c.reps, Warmups: -1, NoiseGiven: c.given},
			func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Repeats(); got != c.want || len(p.Cells()) != p.Spec.Reps {
			t.Errorf("%s: %s and %d runs, want %s", name, got, len(p.Cells()), c.want)
		}
		if says := strings.Join(said, "\n"); !strings.Contains(says, c.said) || c.said == "" && says != "" {
			t.Errorf("%s: says %q, want %q", name, says, c.said)
		}
		var recorded struct {
			Noise float64 `json:"sim-noise"`
		}
		if err := json.Unmarshal(p.Spec.Settings, &recorded); err != nil || recorded.Noise != p.Options.Noise {
			t.Errorf("%s: the plan records %s, %v", name, p.Spec.Settings, err)
		}
	}
}

// The evaluation has the same defaults.
func TestDefaultsOfTheEvaluation(t *testing.T) {
	for want, e := range map[string]Evaluation{
		"7 repetitions, noise 1 %": {},
		"3 repetitions, noise 1 %": {Reps: 3},
		"1 repetition, no noise":   {NoiseGiven: true},
	} {
		e.Paper, e.Nodes, e.Mixes, e.Say = paper.Case(), []string{"sim:4xV100"}, []string{"W1"}, t.Logf
		e.System = func(string, int) (string, error) { return "4xV100", nil }
		plans, err := e.Plan(t.Context())
		if err != nil || len(plans) != 1 || plans[0].Repeats() != want {
			t.Errorf("%d plans, %v; want %s", len(plans), err, want)
		}
	}
}

// A sweep that was planned without noise, as sweeps were by default before, is resumed as it is.
func TestResumeKeepsWhatWasPlanned(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, err := New(t.Context(), harness.Options{Node: "sim:1xV100"}, Options{Mixes: []string{"W1"}, Scheds: []string{"sa"}, Warmups: -1, NoiseGiven: true}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	id, err := p.Store(t.Context(), db, false, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	w, err := db.Sweep(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := Resume(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Repeats(); got != "1 repetition, no noise" || w.Repetitions != 1 || *w.Noise() != 0 {
		t.Errorf("resumed with %s; the store has %d repetitions, noise %v", got, w.Repetitions, *w.Noise())
	}
	if diff := cmp.Diff(p.Cells(), again.Cells()); diff != "" {
		t.Errorf("the plan (-planned +resumed):\n%s", diff)
	}
}

// A sweep that was planned with a parameter that had no effect is resumed as planned. A new one is refused.
func TestResumeWithAParameterThatWent(t *testing.T) {
	text, err := json.Marshal(results.Spec{Mixes: []results.SpecMix{{Arg: "W1"}}, Scheds: []string{"vgpu:references=safe"}, Reps: 1,
		Settings: json.RawMessage(`{"node": "sim:1xV100"}`)})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Resume(t.Context(), results.Sweep{ID: 1, Spec: string(text)})
	if err == nil || !strings.Contains(err.Error(), "mix W1, or a profile of its jobs, is not what it was") {
		t.Errorf("resumed with %v, which is not of its scheduler", err)
	}
	err = Options{Mixes: []string{"W1"}, Scheds: []string{"vgpu:references=safe"}}.Validate(true)
	if want := `--scheds: scheduler vgpu: parameter "references=safe": references went`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a new sweep: %v, want %q", err, want)
	}
}
