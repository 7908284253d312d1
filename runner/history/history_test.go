package history

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// did is a job of a recorded run: it asks after `before`, has its device for `held`, and ends `after`
// later.
type did struct {
	command             string
	before, held, after float64
	bytes               int64
	outcome             results.Outcome
	kernels             []results.Kernel
	swapped             bool
	devices             []int // of a job that has several
}

func openScratch(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// record stores a run as change makes it of a live run on an H200, and returns its number.
func record(t *testing.T, db *store.Store, change func(*results.Run, *results.Device), jobs ...did) int64 {
	t.Helper()
	run := results.Run{Mix: "W1", Scheduler: "case-alg3", Node: "local", Mode: results.Live, Suite: "builtin", StartedAt: &began, Status: results.Complete, Jobs: len(jobs)}
	gpu := results.Device{Name: "NVIDIA H200", SMs: 100, WarpsPerSM: 64, BlocksPerSM: 32}
	if change != nil {
		change(&run, &gpu)
	}
	id, err := db.BeginRun(t.Context(), run, []results.Device{gpu})
	if err != nil {
		t.Fatal(err)
	}
	w := db.Writer(id)
	for i, j := range jobs {
		if j.outcome == "" {
			j.outcome = results.OK
		}
		const start = 10.0
		grant := start + j.before + 3 // it waits
		release := grant + j.held
		w.Job(results.Job{Index: i, Name: j.command, Command: j.command, Device: new(0), Devices: results.DeviceList(j.devices), StartS: new(start), EndS: new(release + j.after), Outcome: &j.outcome})
		w.Task(results.Task{Job: i, Bytes: j.bytes, Device: new(0), SubmitS: start + j.before, GrantS: &grant, ReleaseS: &release})
		for _, k := range j.kernels {
			k.Job = i
			w.Kernel(k)
		}
		if j.swapped {
			w.Swap(results.Swap{Job: i, Direction: schedulers.In, Outcome: schedulers.Done, StartS: grant, EndS: release})
		}
	}
	run.ID = id
	if err := w.Finish(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return id
}

func simulated(r *results.Run, d *results.Device) {
	r.Mode, r.StartedAt, r.Suite, r.Node, d.Name = results.Simulated, nil, "profiles", "sim:1xV100", "V100 (simulated)"
}

func TestLearned(t *testing.T) {
	db := openScratch(t)
	record(t, db, nil, did{command: "a", before: 1, held: 10, after: 5, bytes: 100}, did{command: "a", before: 2, held: 30, after: 1, bytes: 300},
		did{command: "a", before: 9, held: 99, after: 99, bytes: 999, outcome: results.OOM}, did{command: "a", before: 9, held: 99, after: 9, swapped: true},
		did{command: "2 GPUs: a", before: 9, held: 99, after: 9, kernels: []results.Kernel{{EndS: 3, BusyS: 3}}, devices: []int{0, 1}})
	record(t, db, nil, did{command: "a", before: 6, held: 20, after: 3, bytes: 200}, did{command: "b", before: 0, held: 1, after: 0, bytes: 1})
	// Half of the SMs: 50 SMs hold 32 blocks of 2 warps each. Then all: 400 SMs' worth of blocks.
	shapes := []results.Kernel{{Grid: "1600,1,1", Block: "64,1,1", StartS: 0, EndS: 3, BusyS: 3}, {Grid: "12800,1,1", Block: "64,1,1", StartS: 3, EndS: 4, BusyS: 1}}
	record(t, db, func(r *results.Run, _ *results.Device) { r.Traced = true }, did{command: "a", before: 50, held: 16, after: 50, kernels: shapes},
		did{command: "c", before: 5, held: 2, after: 1, kernels: shapes})
	// What follows does not count for a live run on an H200 with the builtin suite.
	others := did{command: "a", before: 1000, held: 1000, after: 1000}
	record(t, db, func(_ *results.Run, d *results.Device) { d.Name = "NVIDIA A100" }, others)
	record(t, db, func(r *results.Run, _ *results.Device) { r.Status = results.Interrupted }, others)
	record(t, db, func(r *results.Run, _ *results.Device) { r.Warmup = true }, others)
	record(t, db, func(r *results.Run, _ *results.Device) { r.Suite = "/theirs" }, others)
	record(t, db, func(r *results.Run, _ *results.Device) { r.Probe = results.Static }, others)
	record(t, db, simulated, others)
	got, err := Learned(t.Context(), db, store.Filter{Mode: results.Live, Suite: "builtin", Probe: new(results.Lazy), GPUs: []string{"NVIDIA H200"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []results.Known{
		{Command: "a", GPU: "NVIDIA H200", Runs: 2, Jobs: 3, Expected: results.Expected{BeforeS: 2, HeldS: 20, AfterS: 3, Bytes: 200, Kernels: new(0.25), SMs: new(0.625), Source: "2 runs"}},
		{Command: "b", GPU: "NVIDIA H200", Runs: 1, Jobs: 1, Expected: results.Expected{HeldS: 1, Bytes: 1, Source: "1 run"}},
		// Only a traced run has it, and its kernels overlap.
		{Command: "c", GPU: "NVIDIA H200", Runs: 1, Jobs: 1, Expected: results.Expected{BeforeS: 5, HeldS: 2, AfterS: 1, Kernels: new(1.0), SMs: new(0.625), Source: "1 run"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := Learned(t.Context(), db, store.Filter{Mode: results.Live}, []string{"b"}); err != nil || len(got) != 1 || got[0].Command != "b" {
		t.Errorf("of b alone: %+v (%v)", got, err)
	}
}

// What an evaluation leaves out.
func TestKnownBefore(t *testing.T) {
	db := openScratch(t)
	later := began.Add(time.Second)
	record(t, db, nil, did{command: "./a", held: 1})
	record(t, db, func(r *results.Run, _ *results.Device) { r.Mix, r.StartedAt = "W2", &later }, did{command: "./a", held: 2})
	record(t, db, func(r *results.Run, _ *results.Device) { r.StartedAt = &later }, did{command: "./a", held: 3})
	live := Node{Mode: results.Live, GPUs: []string{"NVIDIA H200"}, Suite: "builtin"}
	for name, c := range map[string]struct {
		options Options
		held    float64 // 0: nothing is known
	}{
		"all":          {Options{Runs: true}, 2},
		"run":          {Options{Runs: true, Before: 3}, 1.5},
		"mix":          {Options{Runs: true, NotMixes: []string{"W1x", "W2"}}, 2},
		"run and mix":  {Options{Runs: true, Before: 3, NotMixes: []string{"W1x", "W2"}}, 1},
		"nothing left": {Options{Runs: true, Before: 1}, 0},
		"no runs":      {Options{}, 0},
	} {
		known, err := Known(t.Context(), db, []mixes.Job{{Program: "./a"}, {Program: "./b"}}, live, c.options)
		if err != nil || len(known) != 2 || known[1] != nil {
			t.Fatalf("%s: %v (%v)", name, known, err)
		}
		held := 0.0
		if known[0] != nil {
			held = known[0].HeldS
		}
		if held != c.held {
			t.Errorf("%s: held %v s, want %v", name, held, c.held)
		}
	}
}

func TestOrderOfSources(t *testing.T) {
	db := openScratch(t)
	record(t, db, simulated, did{command: "./run", before: 1, held: 10, after: 5, bytes: 100, kernels: []results.Kernel{{Name: "all", StartS: 20, EndS: 25, BusyS: 4}}},
		did{command: "./file", held: 99}, did{command: "./stated", held: 99})
	record(t, db, nil, did{command: "./live", held: 99})
	var asked []string
	node := Node{Mode: results.Simulated, GPUs: []string{"V100 (simulated)"}, Suite: "profiles", Alone: func(j mixes.Job) (results.Known, bool, error) {
		asked = append(asked, j.Command())
		return results.Known{GPU: "V100 (simulated)", Expected: results.Expected{HeldS: 2, Kernels: new(0.5), SMs: new(0.75)}}, j.Program != "./huge", nil
	}}
	f := File{map[string]map[string]results.Known{"./file": {"": {Command: "./file", Expected: results.Expected{HeldS: 7}}}}}
	jobs := []mixes.Job{{Program: "./run"}, {Program: "./file"}, {Program: "./profile"}, {Program: "./stated", Profile: &mixes.Profile{}}, {Program: "./huge"}, {Program: "./profile"}, {Program: "./live"}}
	known, err := Known(t.Context(), db, jobs, node, Options{File: f, Runs: true})
	if err != nil {
		t.Fatal(err)
	}
	profile := results.Expected{HeldS: 2, Kernels: new(0.5), SMs: new(0.75), Source: "profile"}
	want := []results.Prediction{
		{Job: 0, Expected: results.Expected{BeforeS: 1, HeldS: 10, AfterS: 5, Bytes: 100, Kernels: new(0.4), SMs: new(0.75), Source: "1 run"}},
		{Job: 1, Expected: results.Expected{HeldS: 7, Source: "file"}},
		{Job: 2, Expected: profile}, {Job: 3, Expected: profile}, {Job: 5, Expected: profile}, {Job: 6, Expected: profile},
	}
	if diff := cmp.Diff(want, predictions(known)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"./run", "./profile", "./stated", "./huge", "./live"}, asked); diff != "" {
		t.Errorf("profiles were asked for:\n%s", diff)
	}
	told := ForScheduler(known)
	first := schedulers.Prediction{Before: time.Second, Held: 10 * time.Second, After: 5 * time.Second, Bytes: 100, Kernels: 0.4, SMs: 0.75}
	if len(told) != len(jobs) || told[4] != nil || *told[0] != first || *told[1] != (schedulers.Prediction{Held: 7 * time.Second}) {
		t.Errorf("the scheduler is told %+v", told)
	}
	want[0].Expected = profile
	if known, err = Known(t.Context(), nil, jobs, node, Options{File: f}); err != nil || !cmp.Equal(want, predictions(known)) {
		t.Errorf("without runs (%v):\n%s", err, cmp.Diff(want, predictions(known)))
	}
}

// A live node's own GPUs go first, and then other models: the file before runs, and of several models that with most jobs.
func TestOtherModels(t *testing.T) {
	db := openScratch(t)
	on := func(gpu string) func(*results.Run, *results.Device) {
		return func(_ *results.Run, d *results.Device) { d.Name = gpu }
	}
	record(t, db, nil, did{command: "./both", held: 1}, did{command: "./elsewhere", held: 2}, did{command: "./elsewhere", held: 2}, did{command: "./filed", held: 3})
	record(t, db, on("NVIDIA A100"), did{command: "./elsewhere", held: 20})
	record(t, db, on("NVIDIA H100"), did{command: "./both", held: 10})
	record(t, db, simulated, did{command: "./simulated", held: 99})
	filed := func(gpu string, held float64, jobs int) results.Known {
		return results.Known{Command: "./filed", GPU: gpu, Jobs: jobs, Expected: results.Expected{HeldS: held}}
	}
	f := File{map[string]map[string]results.Known{"./filed": {"NVIDIA A100": filed("NVIDIA A100", 4, 1), "NVIDIA L40": filed("NVIDIA L40", 5, 2), "V100 (simulated)": filed("V100 (simulated)", 99, 9)}}}
	jobs := []mixes.Job{{Program: "./both"}, {Program: "./elsewhere"}, {Program: "./filed"}, {Program: "./simulated"}, {Program: "./elsewhere"}}
	node := Node{Mode: results.Live, GPUs: []string{"NVIDIA H100"}, Suite: "builtin"}
	known, err := Known(t.Context(), db, jobs, node, Options{File: f, Runs: true})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := results.Expected{HeldS: 2, Source: "1 run on NVIDIA H200"}
	want := []results.Prediction{{Job: 0, Expected: results.Expected{HeldS: 10, Source: "1 run"}}, {Job: 1, Expected: elsewhere},
		{Job: 2, Expected: results.Expected{HeldS: 5, Source: "file on NVIDIA L40"}}, {Job: 4, Expected: elsewhere}}
	if diff := cmp.Diff(want, predictions(known)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, gpus := node.Elsewhere(known); n != 3 || !slices.Equal(gpus, []string{"NVIDIA H200", "NVIDIA L40"}) {
		t.Errorf("of %d jobs something is known from %q alone, want 3 and both models", n, gpus)
	}
	if known, err = Known(t.Context(), db, jobs, node, Options{File: f}); err != nil || len(predictions(known)) != 1 {
		t.Errorf("without runs %v (%v), want the file alone", predictions(known), err)
	}
	node.Mode, node.GPUs = results.Simulated, []string{"P100 (simulated)"}
	if known, err = Known(t.Context(), db, jobs, node, Options{File: f, Runs: true}); err != nil || len(predictions(known)) != 0 {
		t.Errorf("a simulated node knows %v (%v), want nothing: profiles are for its models", predictions(known), err)
	}
}

func TestMeasured(t *testing.T) {
	for _, e := range Measured(profiles.Catalog()) {
		if e.Command != "backprop 8388608" {
			continue
		}
		const held = 0.196 + 0.001449 + 0.035 + 1.26755
		want := results.Expected{BeforeS: 5, HeldS: held, Kernels: new(0.001449 / held), Source: "profile"}
		if diff := cmp.Diff(want, e.Expected, cmpopts.EquateApprox(1e-9, 0)); e.GPU != "NVIDIA H200" || diff != "" {
			t.Errorf("on %s (-want +got):\n%s", e.GPU, diff)
		}
		return
	}
	t.Error("the catalog's profile is missing")
}

// predictions are what was known of jobs, by job.
func predictions(known []*results.Known) []results.Prediction {
	var out []results.Prediction
	for i, e := range known {
		if e != nil {
			out = append(out, results.Prediction{Job: i, Expected: e.Expected})
		}
	}
	return out
}
