package runner_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

func TestDeathReleasesEverythingOfTheJobAndGrantsItNothing(t *testing.T) {
	_, rec := setup{scheduler: "case-alg3:queue=fifo", jobs: probed(2)}.run(t, func(f *fake) {
		f.want("start 0", "start 1")
		f.started(0, 1)
		f.begin(0, 8)
		f.begin(0, 8)
		f.begin(0, 8) // waits, and would get what the first one gives back
		f.begin(1, 16)
		f.want("answer 1@0", "answer 2@0")
		f.at(4)
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
		f.want("answer 4@0")
		f.ended(1)
	})
	for seq := range 2 {
		if got := rec.task(0, seq); got.ReleaseS == nil || *got.ReleaseS != 4 {
			t.Errorf("task %d of the dead job: %+v, want released at 4 s", seq, got)
		}
	}
	if got := rec.task(0, 2); got.GrantS != nil || got.ReleaseS != nil {
		t.Errorf("waiting task of the dead job: %+v, want neither granted nor released", got)
	}
}

// What killed a job has harmed its neighbours when its process ended, however long
// the rest of it took to go.
func TestDeathCountsFromTheEndOfTheProcess(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.begin(0, 4)
		f.begin(1, 4)
		f.at(4)
		f.batch.JobExited(0, f.now)
		f.batch.Working(1, 0, nil)
		f.batch.ReportFault(1, 0, 700, "kernel", f.now+1e8)
		f.at(5)
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
		f.batch.Recovered(nil, f.now)
		f.ended(1)
	})
	wantOutcomes(t, jobs, results.Crash, results.Collateral)
	if *jobs[0].EndS != 4 {
		t.Errorf("the job ended after %v s, want 4", *jobs[0].EndS)
	}
}

func TestLateFramesOfADeadJobAreIgnored(t *testing.T) {
	_, rec := setup{scheduler: "case-alg3", jobs: probed(2)}.run(t, func(f *fake) {
		f.started(0, 1)
		id := f.begin(0, 16)
		f.ended(0)
		f.calls = nil
		f.batch.TaskGrow(id, 1, nil, f.now)
		f.batch.TaskFree(id, f.now)
		f.begin(0, 16)
		f.want()
		f.begin(1, 16)
		if len(f.calls) != 1 {
			t.Errorf("after the late frames the batch answers %q, want the device for job 1", f.calls)
		}
		f.ended(1)
	})
	if _, ok := rec.tasks[[2]int{0, 1}]; ok {
		t.Error("a task of a dead job is recorded")
	}
}

func TestCancelInEveryState(t *testing.T) {
	t.Run("job-bound", func(t *testing.T) {
		jobs, _ := setup{scheduler: "sa", devices: 2, jobs: probed(4)}.run(t, func(f *fake) {
			f.started(0, 1)
			f.ended(0)
			f.want("start 0@0", "start 1@1", "start 2@0") // 2 is yet to report its start
			f.at(3)
			f.batch.Cancel("interrupt", f.now)
			f.want("stop 1", "stop 2")
			f.batch.Cancel("interrupt", f.now)
			f.want()
			f.batch.JobEnded(2, runner.Exit{Err: errors.New("never started")}, f.now)
			f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
			f.want() // job 3 waited for a device, and must not get one now
		})
		wantOutcomes(t, jobs, results.OK, results.Cancelled, results.Cancelled, results.Cancelled)
		if jobs[3].Detail != "interrupt" || jobs[3].StartS != nil || jobs[3].EndS != nil {
			t.Errorf("job 3: %+v, want cancelled for the given reason without start or end", jobs[3])
		}
	})
	t.Run("task-bound", func(t *testing.T) {
		mix := append(probed(2), declared(16), probed(1)[0])
		jobs, rec := setup{scheduler: "case-alg3", jobs: mix, workers: 3}.run(t, func(f *fake) {
			f.started(0, 1)
			f.want("start 0", "start 1", "start 2@0")
			f.started(2)
			f.begin(0, 5)
			f.begin(1, 6)
			f.batch.Cancel("interrupt", f.now)
			f.want("stop 0", "stop 1", "stop 2")
			f.batch.JobEnded(2, runner.Exit{Signal: new("SIGTERM")}, f.now)
			f.want("answer 2@0", "answer 1@0") // they are still there to be stopped
			f.ended(0, 1)
			f.want()
		})
		wantOutcomes(t, jobs, results.Cancelled, results.Cancelled, results.Cancelled, results.Cancelled)
		if got := rec.kinds(); len(got) != 1 || got[0] != results.EventCancelled {
			t.Errorf("events %q, want one cancelled", got)
		}
	})
	t.Run("declared jobs that wait", func(t *testing.T) {
		jobs, _ := setup{scheduler: "case-alg3:queue=fifo", jobs: []mixes.Job{declared(10), declared(16), declared(6)}}.run(t, func(f *fake) {
			f.want("start 0@0")
			f.batch.Cancel("interrupt", f.now) // withdrawing job 1 makes room for job 2 in the queue
			f.want("stop 0")
			f.ended(0)
			f.want()
		})
		wantOutcomes(t, jobs, results.Cancelled, results.Cancelled, results.Cancelled)
	})
	t.Run("before anything ran", func(t *testing.T) {
		jobs, _ := setup{scheduler: "schedgpu", jobs: []mixes.Job{declared(17), probed(1)[0]}, workers: 1}.run(t, func(f *fake) {
			f.want("start 1")
			f.batch.Cancel("interrupt", f.now)
			f.want("stop 1")
			f.ended(1)
		})
		wantOutcomes(t, jobs, results.Refused, results.Cancelled)
	})
	t.Run("after the end", func(t *testing.T) {
		jobs, rec := setup{scheduler: "sa", jobs: probed(1)}.run(t, func(f *fake) {
			f.started(0)
			f.ended(0)
			f.batch.Cancel("interrupt", f.now)
		})
		wantOutcomes(t, jobs, results.OK)
		if len(rec.events) != 0 {
			t.Errorf("events %+v after the end", rec.events)
		}
	})
}

func TestRunRefusesABatchThatCannotBe(t *testing.T) {
	s, err := policies.Parse("sa", 1)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{CapacityBytes: 1, SMs: 1, WarpsPerSM: 1, BlocksPerSM: 1}
	idle := &fake{t: t, script: func(*fake) {}}
	if _, err := runner.Run(t.Context(), runner.Config{Devices: []schedulers.Device{device}, Scheduler: s}, idle, newTape()); err == nil || !strings.Contains(err.Error(), "no jobs") {
		t.Errorf("a mix without jobs: %v", err)
	}
	if _, err := runner.Run(t.Context(), runner.Config{Jobs: probed(1), Scheduler: s}, idle, newTape()); err == nil || !strings.Contains(err.Error(), "no devices") {
		t.Errorf("a node without devices: %v", err)
	}
}
