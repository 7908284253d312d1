package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// An event says once who keeps a job waiting, and what helps. If the job ends so, its detail says it too.
func TestAJobSaysWhoHasStarvedIt(t *testing.T) {
	const who = "it has waited 1m10s for 8 bytes of a GPU, which do not come free: job 0 (probed) has 10 bytes of GPU 0, where its kernels have run for 1m10s without a break. "
	for _, c := range []struct {
		scheduler, why, before string
		outcome                results.Outcome
	}{
		{"demand", who + "demand stops no kernel: mfit and amfit do, if the kernel has stop points (casecc --stop); --timeout stops each job 2m0s after its start",
			"it ran longer than its limit: ", results.Timeout},
		{"mfit:wait=10s", who + "mfit cannot stop these kernels, because they have no stop points (casecc --stop); --timeout stops each job 2m0s after its start",
			"it ran longer than its limit: ", results.Timeout},
		{"demand:wait-limit=80s", who + "demand stops no kernel: mfit and amfit do, if the kernel has stop points (casecc --stop); --timeout stops each job 2m0s after its start",
			"no device within the wait limit of 1m20s", results.Refused},
	} {
		t.Run(c.scheduler, func(t *testing.T) {
			jobs, rec := setup{scheduler: c.scheduler, jobs: probed(2), timeout: 2 * time.Minute, starved: time.Minute}.run(t, func(f *fake) {
				f.started(0, 1)
				first := f.batch.TaskBegin(0, schedulers.Task{Bytes: 10, Can: schedulers.Movable}, f.now)
				f.mustPost(runner.TaskActive{ID: first, Activity: schedulers.Activity{Running: true, Busy: true, Referenced: 10}})
				f.batch.TaskBegin(1, schedulers.Task{Bytes: 8, Can: schedulers.Movable}, f.now)
				for _, at := range []int{30, 70, 80} {
					f.at(at)
					f.mustPost(runner.Tick{})
				}
				if f.at(100); c.outcome == results.Refused {
					f.batch.JobEnded(1, runner.Exit{Status: new(1)}, f.now)
				}
				f.at(120)
				f.mustPost(runner.Tick{})
				f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
				if c.outcome == results.Timeout {
					f.batch.JobEnded(1, runner.Exit{Signal: new("SIGKILL")}, f.now)
				}
			})
			var said []results.Event
			for _, e := range rec.events {
				if e.Kind == results.EventStarved {
					said = append(said, e)
				}
			}
			if len(said) != 1 || said[0].AtS != 70 || *said[0].Job != 1 || *said[0].Device != 0 || said[0].Detail != c.why {
				t.Errorf("said %+v, want once %q", said, c.why)
			}
			wantOutcomes(t, jobs, results.Timeout, c.outcome)
			if d := jobs[1].Detail; !strings.HasPrefix(d, c.before) || !strings.HasSuffix(d, c.why) {
				t.Errorf("detail %q", d)
			}
		})
	}
}

// Who observes a run sees all that is recorded, also what is found when an event comes that cannot be.
func TestWhatAnImpossibleEventBringsIsObserved(t *testing.T) {
	var seen []runner.Step
	starved := func(c runner.Command) bool {
		e, ok := c.(runner.RecordEvent)
		return ok && e.Event.Kind == results.EventStarved
	}
	observe := func(s runner.Step) {
		if slices.ContainsFunc(s.Commands, starved) {
			seen = append(seen, s)
		}
	}
	setup{scheduler: "demand", jobs: probed(2), starved: time.Minute, observe: observe}.run(t, func(f *fake) {
		f.started(0, 1)
		first := f.batch.TaskBegin(0, schedulers.Task{Bytes: 10, Can: schedulers.Movable}, f.now)
		f.mustPost(runner.TaskActive{ID: first, Activity: schedulers.Activity{Running: true, Busy: true, Referenced: 10}})
		waits := f.batch.TaskBegin(1, schedulers.Task{Bytes: 8, Can: schedulers.Movable}, f.now)
		f.at(70)
		if err := f.batch.TryPost(f.now, runner.TaskActive{ID: waits}); err == nil {
			t.Error("a task that waits was active")
		}
		f.ended(0, 1)
	})
	if len(seen) != 1 || seen[0].Event != (runner.Tick{}) {
		t.Errorf("observed %+v", seen)
	}
}

// A job that lacks no memory waits for its turn.
func TestAJobSaysThatItWaitsForItsTurn(t *testing.T) {
	_, rec := setup{scheduler: "vgpu:n=1", jobs: probed(2), timeout: 2 * time.Minute, starved: time.Minute}.run(t, func(f *fake) {
		f.started(0, 1)
		first := f.batch.TaskBegin(0, schedulers.Task{Bytes: 10, Can: schedulers.Movable}, f.now)
		f.mustPost(runner.TaskActive{ID: first, Activity: schedulers.Activity{Running: true, Busy: true, Referenced: 10}})
		f.batch.TaskBegin(1, schedulers.Task{Bytes: 5, Need: new(int64(0)), Can: schedulers.Movable}, f.now)
		f.at(70)
		f.mustPost(runner.Tick{})
		f.ended(0)
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGKILL")}, f.now)
	})
	const want = "it has waited 1m10s for its turn on a GPU, which does not come: job 0 (probed) has 10 bytes of GPU 0, "
	if len(rec.events) == 0 || !strings.HasPrefix(rec.events[0].Detail, want) {
		t.Errorf("said %+v, want %q", rec.events, want)
	}
}

// A job that got what it waited for has not starved.
func TestAJobThatGoesOnHasNotStarved(t *testing.T) {
	jobs, rec := setup{scheduler: "demand", jobs: probed(2), timeout: 2 * time.Minute, starved: time.Minute}.run(t, func(f *fake) {
		f.started(0, 1)
		first := f.batch.TaskBegin(0, schedulers.Task{Bytes: 10, Can: schedulers.Movable}, f.now)
		f.mustPost(runner.TaskActive{ID: first, Activity: schedulers.Activity{Running: true, Busy: true, Referenced: 10}})
		f.batch.TaskBegin(1, schedulers.Task{Bytes: 8, Can: schedulers.Movable}, f.now)
		f.at(70)
		f.mustPost(runner.Tick{})
		f.ended(0)
		f.at(120)
		f.mustPost(runner.Tick{})
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGKILL")}, f.now)
	})
	if rec.kinds()[0] != results.EventStarved || jobs[1].Detail != "it ran longer than its limit" {
		t.Errorf("%v, %+v", rec.kinds(), jobs[1])
	}
}
