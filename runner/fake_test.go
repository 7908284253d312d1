package runner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// fake is an Executor that a test's script drives. It notes what the batch
// asks of it: "start 2@1", "start 2" (unbound), "answer 5@0", "refuse 5",
// "grown 5", "no growth 5", "resumed 5", "not resumed 5", "yield 9 of 5, ticket 1", "nice 2 10", "stop 2", "wake 3s",
// "restart 2 with 9, behind 1 tasks".
type fake struct {
	t      *testing.T
	script func(*fake)
	unable error // to prioritize
	batch  batch
	now    time.Duration
	calls  []string
}

func (f *fake) Run(ctx context.Context, l *runner.Loop) error {
	f.batch.Loop = l
	l.Post(0, runner.Arrive{})
	f.script(f)
	if !f.done() {
		f.t.Error("the script is over and the batch is not done")
	}
	return context.Cause(ctx)
}

func (f *fake) note(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fake) Start(job int, devices []int) {
	switch len(devices) {
	case 0:
		f.note("start %d", job)
	case 1:
		f.note("start %d@%d", job, devices[0])
	default:
		f.note("start %d@%v", job, devices)
	}
}

func (f *fake) TellRoom(_ schedulers.Process, bytes int64) { f.note("room %d", bytes) }

func (f *fake) Answer(d schedulers.Decision) {
	switch d.Kind {
	case schedulers.Granted:
		f.note("answer %d@%d", d.Task.ID, d.Device)
	case schedulers.Refused:
		f.note("refuse %d", d.Task.ID)
	case schedulers.Grown:
		f.note("grown %d", d.Task.ID)
	case schedulers.GrowRefused:
		f.note("no growth %d", d.Task.ID)
	case schedulers.Resumed:
		f.note("resumed %d", d.Task.ID)
	case schedulers.ResumeRefused:
		f.note("not resumed %d", d.Task.ID)
	}
}

func (f *fake) Revoke(d schedulers.Decision) {
	f.note("%v %d of %d, ticket %d", d.Revocation.Action, d.Revocation.Bytes, d.Task.ID, d.Ticket)
}

func (f *fake) CanPrioritize() error     { return f.unable }
func (f *fake) Prioritize(job, nice int) { f.note("nice %d %d", job, nice) }

func (f *fake) Plan(func() runner.Event) { f.note("plan") }

func (f *fake) Restart(job int, t runner.Try) {
	f.note("restart %d with %d, behind %d tasks", job, t.Bytes, t.Tasks)
}

func (f *fake) Stop(job int)           { f.note("stop %d", job) }
func (f *fake) AwaitServer()           { f.note("await server") }
func (f *fake) EndClient(job int)      { f.note("end client %d", job) }
func (f *fake) WakeAt(t time.Duration) { f.note("wake %v", t) }

// want compares what was asked since the last want.
func (f *fake) want(calls ...string) {
	f.t.Helper()
	if !slices.Equal(f.calls, calls) {
		f.t.Fatalf("at %v the batch asked for %q, want %q", f.now, f.calls, calls)
	}
	f.calls = nil
}

func (f *fake) done() bool {
	select {
	case <-f.batch.Done():
		return true
	default:
		return false
	}
}

func (f *fake) at(seconds int) { f.now = time.Duration(seconds) * time.Second }

func (f *fake) started(jobs ...int) {
	for _, j := range jobs {
		f.batch.JobStarted(j, f.now)
	}
}

// ended ends jobs with exit status 0.
func (f *fake) ended(jobs ...int) {
	for _, j := range jobs {
		f.batch.JobEnded(j, runner.Exit{Status: new(0)}, f.now)
	}
}

func (f *fake) begin(job int, bytes int64) schedulers.TaskID {
	return f.batch.TaskBegin(job, schedulers.Task{Bytes: bytes}, f.now)
}

// tape keeps the latest record of each key.
type tape struct {
	jobs   map[int]results.Job
	tasks  map[[2]int]results.Task
	ranks  []results.Rank
	swaps  []results.Swap
	events []results.Event
}

func newTape() *tape {
	return &tape{jobs: map[int]results.Job{}, tasks: map[[2]int]results.Task{}}
}

func (r *tape) Job(j results.Job)              { r.jobs[j.Index] = j }
func (r *tape) Task(t results.Task)            { r.tasks[[2]int{t.Job, t.Seq}] = t }
func (r *tape) Rank(k results.Rank)            { r.ranks = append(r.ranks, k) }
func (r *tape) Swap(s results.Swap)            { r.swaps = append(r.swaps, s) }
func (r *tape) Event(e results.Event)          { r.events = append(r.events, e) }
func (*tape) Kernel(results.Kernel)            {}
func (*tape) Segment(results.Segment)          {}
func (r *tape) task(job, seq int) results.Task { return r.tasks[[2]int{job, seq}] }

// kinds is the kinds of the events so far.
func (r *tape) kinds() []results.EventKind {
	var out []results.EventKind
	for _, e := range r.events {
		out = append(out, e.Kind)
	}
	return out
}

// setup is a batch on devices of 16 bytes without contexts, or as model says.
type setup struct {
	scheduler string
	devices   int
	model     *schedulers.Device
	jobs      []mixes.Job
	workers   int
	timeout   time.Duration
	mps       bool
	patience  time.Duration
	starved   time.Duration
	observe   func(runner.Step)
	cores     int
	expected  []*schedulers.Prediction
	unable    error // to prioritize
	oomFails  bool
	open      bool

	faultsAlone map[int]string
	restartable func(*mixes.Job) bool
}

func (s setup) run(t *testing.T, script func(*fake)) ([]results.Job, *tape) {
	t.Helper()
	s.devices = max(s.devices, 1)
	scheduler, err := policies.Parse(s.scheduler, s.devices)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	if s.model != nil {
		device = *s.model
	}
	rec := newTape()
	jobs, err := runner.Run(t.Context(), runner.Config{Jobs: s.jobs, Open: s.open, Devices: slices.Repeat([]schedulers.Device{device}, s.devices),
		Scheduler: scheduler, GuardsManaged: !scheduler.ExceedsManaged(), Workers: s.workers, Timeout: s.timeout, OOMFails: s.oomFails, MPS: s.mps, NoProgressAfter: s.patience, StarvedAfter: s.starved, FaultsAlone: s.faultsAlone,
		Cores: s.cores, Predictions: s.expected, Restartable: s.restartable, Observe: s.observe}, &fake{t: t, script: script, unable: s.unable}, rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if r := rec.jobs[j.Index]; r.Outcome == nil || j.Outcome == nil || *r.Outcome != *j.Outcome || r.Detail != j.Detail {
			t.Errorf("job %d: returned and recorded outcomes differ: %+v and %+v", j.Index, j, r)
		}
	}
	return jobs, rec
}

// probed is n jobs whose probes ask for their tasks.
func probed(n int) []mixes.Job {
	return slices.Repeat([]mixes.Job{{Name: "probed", Program: "needle"}}, n)
}

// declared is a job that is placed as a whole by its footprint.
func declared(bytes int64) mixes.Job {
	return mixes.Job{Name: "declared", Program: "./own", Binding: mixes.BindDeclared, Footprint: mixes.Footprint{Bytes: bytes}}
}

func wantOutcomes(t *testing.T, jobs []results.Job, want ...results.Outcome) {
	t.Helper()
	for i, j := range jobs {
		if *j.Outcome != want[i] {
			t.Errorf("job %d ended %s (%s), want %s", i, *j.Outcome, j.Detail, want[i])
		}
	}
}
