package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

func (f *fake) mustPost(e runner.Event) {
	f.t.Helper()
	if err := f.batch.TryPost(f.now, e); err != nil {
		f.t.Errorf("at %v: %+v: %v", f.now, e, err)
	}
}

// A task that is idle is revoked for a task that waits, and resumes when that has ended.
func TestATaskIsRevokedAndResumes(t *testing.T) {
	jobs, rec := setup{scheduler: "vgpu:n=2", jobs: probed(2)}.run(t, func(f *fake) {
		f.started(0, 1)
		f.want("start 0", "start 1")
		movable := schedulers.Task{Bytes: 10, Can: schedulers.Movable}
		first := f.batch.TaskBegin(0, movable, f.now)
		f.want("answer 1@0")
		f.at(1)
		second := f.batch.TaskBegin(1, movable, f.now)
		f.want("wake 1.005s")
		f.now = 1005 * time.Millisecond
		f.mustPost(runner.TaskActive{ID: first, Activity: schedulers.Activity{Last: time.Second, Referenced: 10}})
		f.mustPost(runner.Tick{})
		f.want("yield 10 of 1, ticket 1", "wake 1.01s")
		f.at(2)
		for _, wrong := range []runner.TaskRevoked{
			{ID: first, Answer: schedulers.Revoked{Ticket: 2, Outcome: schedulers.Done}},
			{ID: second, Answer: schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done}},
			{ID: first, Answer: schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Resident: 11}},
		} {
			if err := f.batch.TryPost(f.now, wrong); err == nil {
				f.t.Errorf("%+v is taken", wrong)
			}
		}
		if err := f.batch.TryPost(f.now, runner.TaskResume{ID: second, Need: 1, Referenced: 1}); err == nil {
			f.t.Error("a task that has no device resumes")
		}
		for _, e := range []runner.Event{
			runner.TaskRevoked{ID: first, Answer: schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Moved: schedulers.Moved{Bytes: -1}}},
			runner.TaskMoved{ID: first, Moved: schedulers.Moved{Copy: -1}},
			runner.TaskMoved{ID: second, Moved: schedulers.Moved{Bytes: 1}}, // it has no device
		} {
			if err := f.batch.TryPost(f.now, e); err == nil {
				f.t.Errorf("%+v is taken", e)
			}
		}
		f.mustPost(runner.TaskRevoked{ID: first, Answer: schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Lost: time.Minute, Moved: schedulers.Moved{Bytes: 10, Drain: time.Millisecond, Copy: time.Second, Bookkeeping: time.Microsecond}}})
		f.want("answer 2@0")
		f.at(3)
		f.mustPost(runner.TaskResume{ID: first, Need: 10, Referenced: 10})
		f.want("wake 3.005s")
		f.at(5)
		f.batch.TaskFree(second, f.now)
		f.want("resumed 1")
		f.at(6)
		f.mustPost(runner.TaskMoved{ID: first, Direction: schedulers.In, Moved: schedulers.Moved{Bytes: 9, Copy: 500 * time.Millisecond, Bookkeeping: time.Microsecond}})
		f.mustPost(runner.TaskMoved{ID: first, Direction: schedulers.Out, Moved: schedulers.Moved{Bytes: 4, Copy: 250 * time.Millisecond}})
		f.mustPost(runner.TaskRevoked{ID: 99, Answer: schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done}}) // of a task that has ended
		f.mustPost(runner.TaskMoved{ID: 99})
		f.mustPost(runner.TaskResume{ID: second})
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.OK, results.OK)
	if wait := *jobs[0].WaitS; wait != 2 {
		t.Errorf("job 0 waited %g s, want 2 s to resume", wait)
	}
	if wait := *jobs[1].WaitS; wait != 1 {
		t.Errorf("job 1 waited %g s, want 1 s", wait)
	}
	if k := rec.task(0, 0); k.Refusal != nil || *k.ReleaseS != 6 {
		t.Errorf("task %+v", k)
	}
	wantSwaps(t, rec,
		results.Swap{Direction: schedulers.Out, Action: "yield", Outcome: schedulers.Done, StartS: 1.005, EndS: 2,
			Bytes: 10, DrainS: 0.001, CopyS: 1, BookkeepingS: 1e-6, ResidentBytes: new(int64(0)), FixedBytes: new(int64(0)), LostS: new(60.0), ForJob: new(1), ForTask: new(0)},
		results.Swap{Direction: schedulers.In, Outcome: schedulers.Done, StartS: 5.499999, EndS: 6, Bytes: 9, CopyS: 0.5, BookkeepingS: 1e-6},
		results.Swap{Direction: schedulers.Out, Action: "evict", Outcome: schedulers.Done, StartS: 5.75, EndS: 6, Bytes: 4, CopyS: 0.25, ForJob: new(0), ForTask: new(0)})
}

func wantSwaps(t *testing.T, rec *tape, want ...results.Swap) {
	t.Helper()
	if diff := cmp.Diff(want, rec.swaps); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
}

// A process that is busy, or cannot give way, is recorded. The room is for a job as a whole.
func TestRevocationsInVainAreRecorded(t *testing.T) {
	_, rec := setup{scheduler: "vgpu:n=2", jobs: append(probed(2), declared(10)), workers: 2}.run(t, func(f *fake) {
		f.started(0, 1)
		first := f.batch.TaskBegin(0, schedulers.Task{Bytes: 8, Can: schedulers.Movable}, f.now)
		f.ended(1)
		f.calls = nil
		look := func(now time.Duration) {
			f.now = now
			f.mustPost(runner.TaskActive{ID: first, Activity: schedulers.Activity{Last: time.Microsecond}})
			f.mustPost(runner.Tick{})
		}
		busy := schedulers.Revoked{Ticket: 1, Outcome: schedulers.Busy, Resident: 8, Fixed: 2, Moved: schedulers.Moved{Drain: time.Millisecond}}
		look(5 * time.Millisecond)
		f.mustPost(runner.TaskRevoked{ID: first, Answer: busy})
		look(time.Second)
		f.want("yield 8 of 1, ticket 1", "wake 10ms", "yield 8 of 1, ticket 2", "wake 1.005s")
		f.mustPost(runner.TaskRevoked{ID: first, Answer: schedulers.Revoked{Ticket: 2, Outcome: schedulers.Unable, Resident: 8, Fixed: 2, Why: "it uses cuMemMap"}})
		f.ended(0)
		f.started(2)
		f.ended(2)
	})
	swap := results.Swap{Direction: schedulers.Out, Action: "yield", Outcome: schedulers.Busy, StartS: 0.005, EndS: 0.005,
		DrainS: 0.001, ResidentBytes: new(int64(8)), FixedBytes: new(int64(2)), LostS: new(0.0), ForJob: new(2)}
	unable := swap
	unable.Outcome, unable.Why, unable.StartS, unable.EndS, unable.DrainS = schedulers.Unable, "it uses cuMemMap", 1, 1, 0
	wantSwaps(t, rec, swap, unable)
}

// A kernel that uses more than the device has is refused, with the reason in the task's record.
func TestAResumptionIsRefused(t *testing.T) {
	_, rec := setup{scheduler: "vgpu", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		id := f.batch.TaskBegin(0, schedulers.Task{Bytes: 20, Need: new(int64(5)), Can: schedulers.Movable}, f.now)
		f.calls = nil
		f.mustPost(runner.TaskResume{ID: id, Need: 15, Referenced: 20})
		f.want("not resumed 1")
		f.ended(0)
	})
	if k := rec.task(0, 0); k.Refusal == nil || !strings.Contains(*k.Refusal, "its kernel references more than the device has") {
		t.Errorf("task %+v", k)
	}
}

// A node whose processes give nothing back does not run such a scheduler.
func TestANodeThatTakesNothingBack(t *testing.T) {
	s, err := policies.Parse("demand", 1)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	plain := struct{ runner.Executor }{&fake{t: t}}
	_, err = runner.Run(t.Context(), runner.Config{Jobs: probed(1), Devices: slices.Repeat([]schedulers.Device{device}, 1), Scheduler: s}, plain, newTape())
	if err == nil || !strings.Contains(err.Error(), "demand takes memory back from running processes") {
		t.Errorf("error %v", err)
	}
}
