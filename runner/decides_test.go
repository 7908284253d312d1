package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// What clients decide is recorded as what the engine decides, and nobody is answered.
func TestClientsThatDecideAreRecorded(t *testing.T) {
	late := &schedulers.Refusal{Cause: schedulers.TimedOut, Why: "waited too long", NeedBytes: 20, CapacityBytes: 16}
	jobs, rec := setup{scheduler: "schedgpu:arch=shared", devices: 2, jobs: probed(3)}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.want("start 0", "start 1", "start 2")
		decide := func(id schedulers.TaskID, device int, refusal *schedulers.Refusal, wrong string) {
			t.Helper()
			err := f.batch.TaskDecided(id, device, refusal, f.now)
			if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
				t.Errorf("at %v: task %d on device %d: error %v, want %q", f.now, id, device, err, wrong)
			}
		}
		f.at(1)
		first := f.begin(0, 10)
		f.begin(1, 99) // it ends without a word
		f.at(3)
		decide(first, 2, nil, "device 2 of a run with devices 0 to 1")
		decide(first, 1, nil, "")
		f.at(4)
		f.batch.TaskGrow(first, 7, nil, f.now)
		decide(first, 1, nil, "7 bytes beside 10 bytes of its own on device 1, which has 16 bytes")
		decide(first, 1, late, "")
		f.batch.TaskGrow(first, 6, nil, f.now)
		decide(first, 0, nil, "growth on device 0 of a task on device 1")
		decide(first, 1, nil, "")
		if err := f.batch.TaskShrink(first, 17, f.now); err == nil || !strings.Contains(err.Error(), "17 bytes of a task that holds 16 bytes") {
			t.Errorf("shrink by 17: %v", err)
		}
		if err := f.batch.TaskShrink(first, 8, f.now); err != nil {
			t.Error(err)
		}
		f.batch.TaskGrow(first, 1, nil, f.now)
		decide(first, 1, nil, "")
		f.batch.TaskShape(first, 9, 64, 0, f.now)
		f.at(5)
		f.batch.TaskFree(first, f.now)
		decide(first, 1, nil, "") // it ended meanwhile
		second := f.begin(2, 16)
		decide(second, 1, nil, "")
		f.at(6)
		f.batch.ProcessGone(2, 0, false, f.now) // killed: its end is the release
		f.ended(0, 1, 2)
		f.want()
	})
	wantOutcomes(t, jobs, results.Refused, results.OK, results.OK)
	got := rec.task(0, 0)
	if *got.Device != 1 || got.SubmitS != 1 || *got.GrantS != 3 || *got.ReleaseS != 5 || got.GrownBytes != 6 || got.Blocks != 9 || !strings.Contains(*got.Refusal, "waited too long") {
		t.Errorf("task of job 0: %+v", got)
	}
	if *jobs[0].Device != 1 || *jobs[0].WaitS != 2 {
		t.Errorf("job 0: device %d, waited %g s; want 1 and 2", *jobs[0].Device, *jobs[0].WaitS)
	}
	if got := rec.task(1, 0); got.GrantS != nil || got.Device != nil {
		t.Errorf("task of job 1: %+v", got)
	}
	if got := rec.task(2, 0); *got.ReleaseS != 6 {
		t.Errorf("task of job 2: %+v", got)
	}
	if kinds := rec.kinds(); !slices.Contains(kinds, results.EventRefused) {
		t.Errorf("events %v", kinds)
	}
}

func TestNobodyDecidesForDeclaredJobs(t *testing.T) {
	s, err := policies.Parse("schedgpu:arch=shared", 1)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	_, err = runner.Run(t.Context(), runner.Config{Jobs: append(probed(1), declared(3)), Devices: []schedulers.Device{device}, Scheduler: s}, &fake{t: t}, newTape())
	if err == nil || !strings.Contains(err.Error(), "job 1 (./own) has binding: declared") || !strings.Contains(err.Error(), "arch=server") {
		t.Errorf("error %v", err)
	}
}

// Processes know nothing of jobs, so none has a device to itself.
func TestNobodyIsolatesWhereClientsDecide(t *testing.T) {
	s, err := policies.Parse("schedgpu:arch=shared", 1)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	jobs := probed(2)
	jobs[1].Isolate = true
	_, err = runner.Run(t.Context(), runner.Config{Jobs: jobs, Devices: []schedulers.Device{device}, Scheduler: s}, &fake{t: t}, newTape())
	if err == nil || !strings.Contains(err.Error(), "job 1") || !strings.Contains(err.Error(), "isolate: true") {
		t.Errorf("error %v", err)
	}
}

// What a task gives back goes to those that wait. Its record keeps the most that it was
// granted on top.
func TestTasksGiveAPartBack(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(2)}.run(t, func(f *fake) {
		f.started(0, 1)
		first := f.begin(0, 10)
		f.batch.TaskGrow(first, 4, nil, f.now)
		second := f.begin(1, 6)
		f.want("start 0", "start 1", "answer 1@0", "grown 1")
		f.at(2)
		if err := f.batch.TaskShrink(first, 15, f.now); err == nil || !strings.Contains(err.Error(), "15 bytes of a task that holds 14 bytes") {
			t.Errorf("shrink by 15: %v", err)
		}
		f.want()
		if err := f.batch.TaskShrink(first, 5, f.now); err != nil {
			t.Error(err)
		}
		f.want("answer 2@0")
		f.batch.TaskGrow(first, 1, nil, f.now)
		f.batch.TaskFree(second, f.now)
		f.batch.TaskFree(first, f.now)
		if err := f.batch.TaskShrink(first, 5, f.now); err != nil {
			t.Errorf("of a task that has ended: %v", err)
		}
		f.want("grown 1")
		f.ended(0, 1)
		if used := f.batch.View().Device(0).UsedBytes(); used != 0 {
			t.Errorf("%d bytes are in use at the end", used)
		}
	})
	wantOutcomes(t, jobs, results.OK, results.OK)
	if got := rec.task(0, 0); got.Bytes != 10 || got.GrownBytes != 4 {
		t.Errorf("task of job 0: %+v", got)
	}
	if got := rec.task(1, 0); *got.GrantS != 2 {
		t.Errorf("task of job 1: %+v", got)
	}
}

func TestTasksOfASettledJobGiveAPartBack(t *testing.T) {
	setup{scheduler: "sa", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		id := f.begin(0, 10)
		if err := f.batch.TaskShrink(id, 11, f.now); err == nil {
			t.Error("it gave back more than it holds")
		}
		if err := f.batch.TaskShrink(id, 10, f.now); err != nil {
			t.Error(err)
		}
		f.ended(0)
	})
}

// A declared job's request has the job's wait where jobs do not take turns.
func TestADeclaredJobWaitsAsItsMixSays(t *testing.T) {
	for scheduler, want := range map[string]results.Outcome{"schedgpu": results.Refused, "sa": results.OK} {
		waits := declared(10)
		waits.Wait = new(5 * time.Second)
		jobs, _ := setup{scheduler: scheduler, jobs: []mixes.Job{declared(16), waits}}.run(t, func(f *fake) {
			f.started(0)
			f.at(5)
			f.batch.Tick(f.now)
			f.ended(0)
			if want == results.OK {
				f.started(1)
				f.ended(1)
			}
		})
		wantOutcomes(t, jobs, results.OK, want)
	}
}

// Each request has its own wait, growth too.
func TestRequestsHaveTheirOwnWait(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3:wait-limit=1h", jobs: probed(3)}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		first, second := f.begin(0, 10), f.begin(1, 6)
		f.want("start 0", "start 1", "start 2", "answer 1@0", "answer 2@0")
		f.batch.TaskGrow(first, 6, new(3*time.Second), f.now)
		f.want("wake 3s")
		f.batch.TaskGrow(second, 1, new(time.Duration(0)), f.now)
		f.want("no growth 2", "wake 3s")
		f.batch.TaskBegin(2, schedulers.Task{Bytes: 3, Wait: new(2 * time.Second)}, f.now)
		f.want("wake 2s")
		f.at(2)
		f.batch.Tick(f.now)
		f.want("refuse 3", "wake 3s")
		f.at(3)
		f.batch.Tick(f.now)
		f.want("no growth 1")
		f.ended(0, 1, 2)
	})
	wantOutcomes(t, jobs, results.Refused, results.Refused, results.Refused)
	if got := rec.task(2, 0); !strings.Contains(*got.Refusal, "within the wait limit of 2s") {
		t.Errorf("task of job 2: %+v", got)
	}
}
