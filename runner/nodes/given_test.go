package nodes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// stated is a job that does these things one after another, alone.
func stated(t *testing.T, name string, steps ...string) mixes.Job {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(steps, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return mixes.Job{Name: name, Steps: file}
}

const (
	hostFor5s     = `{"step": "host", "seconds": 5}`
	allocate1GiB  = `{"step": "allocate", "object": "a", "bytes": "1GiB"}`
	kernelFor10s  = `{"step": "kernel", "seconds": 10, "blocks": 1, "threads": 32}`
	freeWhatItHas = `{"step": "free", "object": "a"}`
)

func openScratch(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// giving makes a run on a simulated node that is given these jobs, one after another, and returns the answers.
func giving(ctx context.Context, t *testing.T, db *store.Store, sched string, of []mixes.Job, given ...harness.Given) (o harness.Outcome, answers []string, err error) {
	t.Helper()
	return givingOn(ctx, t, db, "sim:1xH200", sched, of, given...)
}

// givingOn is giving on a node.
func givingOn(ctx context.Context, t *testing.T, db *store.Store, node, sched string, of []mixes.Job, given ...harness.Given) (o harness.Outcome, answers []string, err error) {
	t.Helper()
	jobs := make(chan harness.Given, len(given))
	for _, g := range given {
		g.Answer = func(job int, err error) {
			if err != nil {
				answers = append(answers, err.Error())
				return
			}
			answers = append(answers, fmt.Sprint(job))
		}
		jobs <- g
	}
	close(jobs)
	m := mixes.Mix{Name: "own", Source: "own.yaml", Jobs: of}
	options := harness.Options{Node: node}
	known, err := Know(ctx, options, &m, profiles.Catalog(), t.Logf)
	if err != nil {
		return o, nil, err
	}
	var s Session
	o, err = s.Run(ctx, harness.Request{Configuration: harness.Configuration{Options: options, Sched: sched, Probe: results.Lazy},
		Mix: m, Given: jobs, Profiles: known, Store: db, Say: t.Logf})
	if closing := s.Close(); closing != nil {
		t.Error(closing)
	}
	return o, answers, err
}

// near allows for the little that a crowd on the host costs.
func near(got, want float64) bool { return math.Abs(got-want) < 0.01 }

// Jobs that are given in virtual time: what the node cannot run is answered, and the run goes on. The store has each with its
// arrival.
func TestASimulatedRunIsGivenJobs(t *testing.T) {
	db := openScratch(t)
	work := stated(t, "work", hostFor5s, allocate1GiB, kernelFor10s, freeWhatItHas)
	missing, twice := work, work
	twice.GPUs, twice.Binding, twice.Footprint.Bytes = 2, mixes.BindDeclared, 1<<30
	missing.Steps = filepath.Join(t.TempDir(), "none.jsonl")
	unknown := mixes.Job{Name: "unknown", Program: "./unknown"}
	o, answers, err := giving(t.Context(), t, db, "case-alg3", []mixes.Job{stated(t, "first", hostFor5s)},
		harness.Given{Job: work, At: 2 * time.Second},
		harness.Given{Job: unknown, At: 3 * time.Second, Where: "jobs.yaml:3"},
		harness.Given{Job: missing, At: 3 * time.Second, Where: "jobs.yaml:4"},
		harness.Given{Job: twice, At: 3 * time.Second, Where: "jobs.yaml:5"},
		harness.Given{Job: work, At: 60 * time.Second}, // nothing else is left by then
		harness.Given{Job: work, At: 30 * time.Second}) // a time that has passed
	if err != nil {
		t.Fatal(err)
	}
	if len(answers) != 6 || answers[0] != "1" || !strings.HasPrefix(answers[1], `jobs.yaml:3: mix own: no profile of "./unknown"`) || !strings.Contains(answers[1], "caserun profile") ||
		!strings.HasPrefix(answers[2], "jobs.yaml:4: ") || !strings.Contains(answers[2], "no such file") || answers[4] != "2" || answers[5] != "3" ||
		answers[3] != "jobs.yaml:5: job work has gpus: 2, and the node has 1: write a smaller number, or choose a larger node" {
		t.Errorf("answers %q", answers)
	}
	if o.Run.Status != results.Complete || len(o.Given) != 3 {
		t.Errorf("the run is %s, and was given %d jobs", o.Run.Status, len(o.Given))
	}
	stored, err := db.Run(t.Context(), o.Run.ID)
	if err != nil || stored.Jobs != 4 || stored.Metrics.OK != 4 || !near(*stored.Metrics.MakespanS, 75) {
		t.Errorf("stored: %d jobs, %+v (%v)", stored.Jobs, stored.Metrics, err)
	}
	jobs, err := db.Jobs(t.Context(), o.Run.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ arrival, end float64 }{{0, 5}, {2, 17}, {60, 75}, {60, 75}} {
		if j := jobs[i]; j.Index != i || *j.ArrivalS != want.arrival || !near(*j.EndS, want.end) {
			t.Errorf("job %d: arrival %g s, end %g s, want %+v", i, *j.ArrivalS, *j.EndS, want)
		}
	}
	events, err := db.Events(t.Context(), o.Run.ID)
	if err != nil || len(events) == 0 || events[0].Kind != results.EventGiven || *events[0].Job != 1 || events[0].AtS != 2 {
		t.Errorf("events %+v (%v)", events, err)
	}
}

// A job that may use no device for a while ends later by what it waits for. Under a scheduler that takes memory back, its memory
// moves, and costs what moving it back costs. A job of a device that is taken out goes on there, and others wait for it to come back.
func TestWhatIsWithheldForAWhile(t *testing.T) {
	db := openScratch(t)
	work := stated(t, "work", allocate1GiB, kernelFor10s, hostFor5s, kernelFor10s, freeWhatItHas)
	again := stated(t, "again", allocate1GiB, kernelFor10s, freeWhatItHas, hostFor5s, allocate1GiB, kernelFor10s, freeWhatItHas)
	whole := work
	whole.Isolate = true // it needs a device to itself
	limit := func(at time.Duration, job, devices int) harness.Given {
		return harness.Given{At: at * time.Second, Event: runner.Limit{Job: job, Devices: devices}}
	}
	closed := func(at time.Duration, e runner.Event) harness.Given {
		return harness.Given{At: at * time.Second, Event: e}
	}
	for _, c := range []struct {
		sched string
		node  string
		jobs  []mixes.Job
		given []harness.Given
		ends  []float64
		moves bool
	}{
		{"case-alg3", "sim:1xH200", []mixes.Job{again, work}, []harness.Given{limit(4, 0, 0), limit(30, 0, 1)}, []float64{40, 25}, false},
		{"case-alg3", "sim:1xH200", []mixes.Job{work}, []harness.Given{limit(4, 0, 0)}, []float64{25}, false}, // it keeps what it has
		{"demand", "sim:1xH200", []mixes.Job{work, work}, []harness.Given{limit(4, 0, 0), limit(30, 0, engine.NoLimit)}, []float64{40.02, 25}, true},
		{"case-alg3", "sim:2xH200", []mixes.Job{whole, whole, whole}, []harness.Given{closed(1, runner.DeviceLost{Device: 1, Why: "upgrade", Planned: true}),
			closed(28, runner.DeviceAdded{Device: 1})}, []float64{25, 25, 50}, false},
		{"case-alg3", "sim:2xH200", []mixes.Job{whole, whole, whole, whole}, []harness.Given{closed(1, runner.DeviceLost{Device: 1, Why: "upgrade", Planned: true}),
			closed(28, runner.DeviceAdded{Device: 1})}, []float64{25, 25, 50, 53}, false},
		{"plan:nice=off,search=5", "sim:2xH200", []mixes.Job{whole, whole, whole, whole, whole}, []harness.Given{closed(1, runner.DeviceLost{Device: 1, Why: "upgrade", Planned: true}),
			closed(500, runner.DeviceAdded{Device: 1})}, []float64{25, 25, 50, 75, 100}, false},
		// What is on the device moves to the other once its kernel is over.
		{"vgpu", "sim:2xH200", []mixes.Job{work, work}, []harness.Given{closed(4, runner.DeviceLost{Device: 1, Why: "upgrade", Planned: true})}, []float64{25, 25}, true},
	} {
		o, answers, err := givingOn(t.Context(), t, db, c.node, c.sched, c.jobs, c.given...)
		if err != nil || strings.Trim(strings.Join(answers, ""), "0") != "" {
			t.Fatalf("%s: answers %q, %v", c.sched, answers, err)
		}
		swaps, err := db.Swaps(t.Context(), o.Run.ID)
		if err != nil || (len(swaps) > 0) != c.moves {
			t.Errorf("%s: swaps %+v (%v)", c.sched, swaps, err)
		}
		if last := len(swaps) - 1; c.sched == "vgpu" && (swaps[last].Action != "move" || swaps[last].Outcome != schedulers.Done || !near(swaps[last].StartS, 10)) {
			t.Errorf("%s: the last swap is %+v", c.sched, swaps[last])
		}
		for i, j := range o.Jobs {
			if !near(*j.EndS, c.ends[i]) {
				t.Errorf("%s with %+v: job %d ended at %g s, want %g", c.sched, c.given, i, *j.EndS, c.ends[i])
			}
		}
	}
	_, answers, err := giving(t.Context(), t, db, "case-alg3", []mixes.Job{work}, harness.Given{Event: runner.Limit{Job: 3}, Where: "stdin:1"}, harness.Given{Event: runner.Cancel{}})
	if err != nil || len(answers) != 2 || answers[0] != "stdin:1: a limit of job 3: the batch has 1 jobs, counted from 0" || answers[1] != "a run is given jobs, limits, and devices that are lost or added, not runner.Cancel" {
		t.Errorf("answers %q, %v", answers, err)
	}
}

// A job of several ranks, and one of several devices, are given like others.
func TestGivenJobsOfSeveralProcessesAndDevices(t *testing.T) {
	db := openScratch(t)
	ranks := stated(t, "ranks", hostFor5s, `{"step": "barrier"}`, allocate1GiB, kernelFor10s, freeWhatItHas)
	ranks.Ranks = 2
	wide := stated(t, "wide", allocate1GiB, kernelFor10s, freeWhatItHas)
	wide.GPUs = 2
	over := wide
	over.GPUs = 3
	o, answers, err := givingOn(t.Context(), t, db, "sim:2xH200", "case-alg3", nil, harness.Given{Job: ranks}, harness.Given{Job: over}, harness.Given{Job: wide, At: 20 * time.Second})
	if err != nil || len(answers) != 3 || answers[0] != "0" || !strings.Contains(answers[1], "3") || answers[2] != "1" {
		t.Fatalf("answers %q, %v", answers, err)
	}
	for i, want := range []float64{15, 30} {
		if j := o.Jobs[i]; !near(*j.EndS, want) || *j.Outcome != results.OK {
			t.Errorf("job %d ended %s at %g s, want %g", i, *j.Outcome, *j.EndS, want)
		}
	}
}

// Whatever a run is given and told, and whenever: once all limits are lifted and all devices are back, its jobs end well.
func TestWhateverARunIsGiven(t *testing.T) {
	db := openScratch(t)
	once := stated(t, "once", hostFor5s, allocate1GiB, kernelFor10s, hostFor5s, kernelFor10s, freeWhatItHas)
	twice := stated(t, "twice", allocate1GiB, kernelFor10s, freeWhatItHas, hostFor5s, allocate1GiB, kernelFor10s, freeWhatItHas)
	whole := once
	whole.Isolate = true
	ranks := stated(t, "ranks", allocate1GiB, kernelFor10s, `{"step": "barrier"}`, kernelFor10s, freeWhatItHas)
	ranks.Ranks = 2
	wide := twice
	wide.GPUs = 2
	scheds := []string{"sa", "cg", "case-alg3:queue=fifo", "case-alg2", "schedgpu", "demand", "vgpu", "vgpu-preempt:n=1", "plan:nice=off,search=5", "case-alg3:queue=sjf"}
	for seed := range chance.Seeds(t, 18, 2000) {
		random := rand.New(rand.NewPCG(seed, 49))
		sched := scheds[random.IntN(len(scheds))]
		kinds := []mixes.Job{once, twice, whole}
		if !strings.HasPrefix(sched, "plan") {
			kinds = append(kinds, wide)
		}
		if strings.HasPrefix(sched, "case") || sched == "demand" {
			kinds = append(kinds, ranks)
		}
		var given []harness.Given
		now, jobs := time.Duration(0), 0
		tell := func(e runner.Event) { given = append(given, harness.Given{At: now, Event: e}) }
		for range 12 {
			now += time.Duration(random.IntN(9000)) * time.Millisecond
			switch device := random.IntN(3); random.IntN(5) {
			case 0, 1:
				given = append(given, harness.Given{At: now, Job: kinds[random.IntN(len(kinds))]})
				jobs++
			case 2:
				tell(runner.DeviceLost{Device: device, Why: "random", Planned: true})
			case 3:
				tell(runner.DeviceAdded{Device: device})
			case 4:
				if jobs > 0 {
					tell(runner.Limit{Job: random.IntN(jobs), Devices: random.IntN(4) - 1})
				}
			}
		}
		now += time.Duration(random.IntN(60)) * time.Second
		for i := range jobs {
			tell(runner.Limit{Job: i, Devices: engine.NoLimit})
		}
		for i := range 3 {
			tell(runner.DeviceAdded{Device: i})
		}
		o, answers, err := givingOn(t.Context(), t, db, "sim:3xH200", sched, nil, given...)
		if err != nil || len(answers) != len(given) || len(o.Jobs) != jobs || len(o.Failed()) > 0 {
			t.Errorf("seed %d, %s: %d of %d jobs, answers %q, failed %+v: %v\n%+v", seed, sched, len(o.Jobs), jobs, answers, o.Failed(), err, given)
		}
	}
}

// A run without a mix's jobs that is given all at its start is the run that starts with them.
func TestARunThatIsGivenAllItsJobs(t *testing.T) {
	db := openScratch(t)
	all := slices.Repeat(mixes.Jobs()[:6], 2)
	var given []harness.Given
	for _, j := range all {
		given = append(given, harness.Given{Job: j})
	}
	for _, sched := range []string{"sa", "cg", "case-alg3", "vgpu", "plan:nice=off,search=10"} {
		whole, _, err := giving(t.Context(), t, db, sched, all)
		if err != nil {
			t.Fatal(err)
		}
		parts, _, err := giving(t.Context(), t, db, sched, nil, given...)
		if err != nil {
			t.Fatal(err)
		}
		expected, err := db.Predictions(t.Context(), parts.Run.ID)
		if err != nil || (len(expected) > 0) != strings.HasPrefix(sched, "plan") || len(expected) > 0 && len(expected) != len(all) {
			t.Errorf("%s: %d predictions (%v)", sched, len(expected), err)
		}
		if len(parts.Jobs) != len(all) || sched != "plan:nice=off,search=10" && *parts.Run.Metrics.MakespanS != *whole.Run.Metrics.MakespanS {
			t.Errorf("%s: %d jobs in %g s, want %d in %g s", sched, len(parts.Jobs), *parts.Run.Metrics.MakespanS, len(all), *whole.Run.Metrics.MakespanS)
		}
	}
}

// A run that waits for jobs ends when it is stopped, and takes no more. A run may get no jobs.
func TestARunThatWaitsForJobs(t *testing.T) {
	db := openScratch(t)
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	jobs := make(chan harness.Given)
	go func() {
		jobs <- harness.Given{Job: mixes.Jobs()[0], Answer: func(int, error) { stop(enough) }}
	}()
	var s Session
	defer s.Close()
	r := harness.Request{Configuration: harness.Configuration{Options: harness.Options{Node: "sim:1xH200"}, Sched: "sa", Probe: results.Lazy},
		Mix: mixes.Mix{Name: "own"}, Given: jobs, Profiles: profiles.Catalog(), Store: db, Say: t.Logf}
	o, err := s.Run(ctx, r)
	if !errors.Is(err, enough) || o.Run.Status != results.Interrupted || len(o.Jobs) != 1 || *o.Jobs[0].Outcome != results.Cancelled {
		t.Errorf("the run is %s with jobs %+v: %v", o.Run.Status, o.Jobs, err)
	}
	o, _, err = giving(t.Context(), t, db, "case-alg3", nil)
	if err != nil || o.Run.Status != results.Complete || len(o.Jobs) != 0 {
		t.Errorf("of no jobs: %+v, %v", o, err)
	}
}
