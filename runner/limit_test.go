package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// must posts an event that the batch has to take.
func (f *fake) must(e runner.Event) {
	f.t.Helper()
	if err := f.batch.TryPost(f.now, e); err != nil {
		f.t.Fatal(err)
	}
}

// said are the details of the events of some kinds, with the time and the job or device that each is of.
func (r *tape) said(kinds ...results.EventKind) (out []string) {
	for _, e := range r.events {
		if !slices.Contains(kinds, e.Kind) {
			continue
		}
		of := e.Job
		if of == nil {
			of = e.Device
		}
		out = append(out, strings.TrimSpace(strings.Join([]string{time.Duration(e.AtS * 1e9).String(), string(e.Kind), string(rune('0' + *of)), e.Detail}, " ")))
	}
	return out
}

func wantSaid(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// A job that is limited to no device keeps what it has, and gets nothing more before the limit is lifted. It holds up no other.
func TestALimitedJobWaits(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(2)}.run(t, func(f *fake) {
		f.want("start 0", "start 1")
		f.started(0, 1)
		first := f.begin(0, 6)
		f.want("answer 1@0")
		f.at(1)
		f.must(runner.Limit{Job: 0})
		f.must(runner.Limit{Job: 0}) // as before
		f.begin(0, 2)
		f.want()
		f.begin(1, 10)
		f.want("answer 3@0")
		f.at(2)
		f.batch.TaskFree(first, f.now)
		f.want()
		f.at(5)
		f.must(runner.Limit{Job: 0, Devices: engine.NoLimit})
		f.want("answer 2@0")
		f.ended(1)
		f.must(runner.Limit{Job: 1, Devices: 1}) // it has ended meanwhile
		f.at(9)
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.OK, results.OK)
	if k := rec.task(0, 1); k.SubmitS != 1 || *k.GrantS != 5 || *rec.jobs[0].WaitS != 4 {
		t.Errorf("the task that was withheld: %+v, of job %+v", k, rec.jobs[0])
	}
	wantSaid(t, rec.said(results.EventLimited), "1s limited 0 it may use 0 devices", "5s limited 0 it may use any number of devices again")
}

// A policy that takes back asks a limited job for what it has, for nobody.
func TestALimitedJobGivesBack(t *testing.T) {
	_, rec := setup{scheduler: "demand", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		task := f.batch.TaskBegin(0, schedulers.Task{Bytes: 10, Can: schedulers.Movable}, f.now)
		f.batch.Post(f.now, runner.TaskActive{ID: task, Activity: schedulers.Activity{Referenced: 10}})
		f.calls = nil
		f.at(2)
		f.must(runner.Limit{Job: 0})
		f.want("yield 10 of 1, ticket 1")
		f.must(runner.TaskRevoked{ID: task, Answer: schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Moved: schedulers.Moved{Bytes: 10}}})
		f.must(runner.TaskResume{ID: task, Need: 10, Referenced: 10})
		f.calls = nil
		f.at(7)
		f.must(runner.Limit{Job: 0, Devices: 1})
		f.want("resumed 1")
		f.ended(0)
	})
	if len(rec.swaps) != 1 || rec.swaps[0].ForJob != nil || rec.swaps[0].Action != "yield" || rec.swaps[0].Bytes != 10 {
		t.Errorf("swaps %+v", rec.swaps)
	}
}

// A job that is bound as a whole waits for the limit to be lifted, and those behind it go.
func TestALimitOfABoundJob(t *testing.T) {
	setup{scheduler: "sa", jobs: probed(3)}.run(t, func(f *fake) {
		f.want("start 0@0")
		f.must(runner.Limit{Job: 1})
		f.started(0)
		f.ended(0)
		f.want("start 2@0")
		f.must(runner.Limit{Job: 1, Devices: engine.NoLimit})
		f.want()
		f.started(2)
		f.ended(2)
		f.want("start 1@0")
		f.started(1)
		f.ended(1)
	})
}

// A device that is taken out of the run keeps its tasks, and gets no other before it is back.
func TestADeviceIsTakenOutAndComesBack(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", devices: 2, jobs: probed(3)}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.calls = nil
		f.begin(0, 10)
		f.begin(1, 10)
		f.want("answer 1@0", "answer 2@1")
		f.at(1)
		f.must(runner.DeviceLost{Device: 1, Why: "maintenance", Planned: true})
		f.must(runner.DeviceLost{Device: 1, Why: "again", Planned: true})
		f.at(2)
		f.ended(1)
		f.begin(2, 10)
		f.want()
		f.at(4)
		f.must(runner.DeviceAdded{Device: 1})
		f.must(runner.DeviceAdded{Device: 1})
		f.want("answer 3@1")
		f.ended(0, 2)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK)
	wantSaid(t, rec.said(results.EventDeviceClosed, results.EventDeviceOpened), "1s device-closed 1 GPU 1 is taken out of the run: maintenance", "4s device-opened 1 jobs may go to GPU 1 again")
}

func TestLimitsAndDevicesThatCannotBe(t *testing.T) {
	setup{scheduler: "case-alg3", devices: 2, jobs: probed(1)}.run(t, func(f *fake) {
		for want, e := range map[string]runner.Event{
			"a limit of job 1: the batch has 1 jobs, counted from 0":          runner.Limit{Job: 1},
			"a limit of job -1: the batch has 1 jobs, counted from 0":         runner.Limit{Job: -1, Devices: 1},
			"a limit of -2 devices: want 0 or more, or -1, which is no limit": runner.Limit{Devices: -2},
			"device 2: the node has devices 0 to 1":                           runner.DeviceAdded{Device: 2},
			"device -1: the node has devices 0 to 1":                          runner.DeviceLost{Device: -1},
			"device 9: the node has devices 0 to 1":                           runner.DeviceLost{Device: 9, Planned: true},
		} {
			if err := f.batch.TryPost(f.now, e); err == nil || err.Error() != want {
				t.Errorf("%+v: %v, want %s", e, err, want)
			}
		}
		f.started(0)
		f.ended(0)
	})
	setup{scheduler: "schedgpu:arch=shared", jobs: probed(1)}.run(t, func(f *fake) {
		if err := f.batch.TryPost(f.now, runner.Limit{}); err == nil || !strings.Contains(err.Error(), "use arch=server") {
			t.Errorf("a limit where clients decide: %v", err)
		}
		f.started(0)
		f.ended(0)
	})
}
