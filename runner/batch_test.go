package runner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

func TestJobBoundJobsHaveTheirDeviceBeforeTheyStart(t *testing.T) {
	jobs, rec := setup{scheduler: "sa", devices: 2, jobs: probed(3)}.run(t, func(f *fake) {
		f.want("start 0@0", "start 1@1")
		f.started(0, 1)
		f.at(2)
		id := f.begin(1, 99) // its own business: answered at once, whatever its size
		f.want("answer 1@1")
		f.batch.TaskGrow(id, 1000, nil, f.now)
		f.want("grown 1")
		f.at(3)
		f.batch.TaskFree(id, f.now)
		f.ended(1) // the process, not the task, has the device
		f.want("start 2@1")
		f.at(4)
		f.started(2)
		f.ended(0, 2)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK)
	if *jobs[2].Device != 1 || *jobs[2].StartS != 4 || *jobs[2].WaitS != 4 {
		t.Errorf("job 2 on device %d, start %g s, wait %g s, want 1, 4, 4", *jobs[2].Device, *jobs[2].StartS, *jobs[2].WaitS)
	}
	if got := rec.task(1, 0); *got.Device != 1 || *got.GrantS != 2 || *got.ReleaseS != 3 || got.Bytes != 99 || got.GrownBytes != 1000 {
		t.Errorf("task of job 1: %+v", got)
	}
}

func TestTaskBoundJobsAskTaskByTask(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", devices: 2, jobs: probed(2)}.run(t, func(f *fake) {
		f.want("start 0", "start 1")
		f.at(1)
		f.started(0, 1)
		first, other := f.begin(0, 16), f.begin(0, 16)
		f.want("answer 1@0", "answer 2@1")
		f.at(3)
		waits := f.begin(1, 10)
		f.want()
		f.at(5)
		f.batch.TaskFree(other, f.now)
		f.want("answer 3@1")
		f.batch.TaskGrow(waits, 4, nil, f.now)
		f.batch.TaskGrow(waits, 4, nil, f.now)
		f.want("grown 3", "no growth 3")
		f.batch.TaskFree(first, f.now)
		f.at(6)
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.OK, results.Refused)
	if *jobs[0].Device != 0 || *jobs[1].Device != 1 {
		t.Errorf("devices %d and %d, want those of the first tasks, 0 and 1", *jobs[0].Device, *jobs[1].Device)
	}
	if *jobs[0].WaitS != 1 || *jobs[1].WaitS != 3 {
		t.Errorf("waits %g s and %g s, want 1 and 1 + 2", *jobs[0].WaitS, *jobs[1].WaitS)
	}
	got := rec.task(1, 0)
	if got.SubmitS != 3 || *got.GrantS != 5 || *got.ReleaseS != 6 || got.GrownBytes != 4 || !strings.Contains(*got.Refusal, "needs 18 bytes") {
		t.Errorf("task of job 1: %+v, want submitted 3, granted 5, released 6, grown by 4 only, and the refusal", got)
	}
	if rec.task(0, 1).Device == nil || *rec.task(0, 1).Device != 1 {
		t.Errorf("second task of job 0: %+v, want device 1", rec.task(0, 1))
	}
}

func TestTasksAskForADeviceAndTellTheirKernels(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg2", devices: 2, jobs: append(probed(2), declared(1))}.run(t, func(f *fake) {
		f.want("start 0", "start 1", "start 2@0")
		f.started(0, 1, 2)
		f.batch.TaskBegin(0, schedulers.Task{Bytes: 1, Managed: true, OnDevice: new(1)}, f.now)
		f.batch.TaskBegin(1, schedulers.Task{Bytes: 1, Blocks: 2, ThreadsPerBlock: 32, BlocksPerSM: 4, OnDevice: new(1)}, f.now)
		f.batch.TaskBegin(2, schedulers.Task{OnDevice: new(1)}, f.now)
		f.want("answer 1@1", "answer 3@0") // without its grid, task 1 has device 1 alone; a bound job has its own
		f.batch.TaskShape(1, 4, 64, 0, f.now)
		f.want("answer 2@1")
		f.batch.TaskShape(1, 4, 32, 0, f.now) // smaller
		f.batch.TaskShape(2, 2, 32, 2, f.now) // as large, with fewer to an SM
		f.batch.TaskShape(3, 9, 32, 0, f.now)
		f.batch.TaskShape(99, 9, 32, 0, f.now) // ended meanwhile
		f.ended(0, 1, 2)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK)
	first, second, bound := rec.task(0, 0), rec.task(1, 0), rec.task(2, 0)
	if first.Blocks != 4 || first.ThreadsPerBlock != 64 || first.BlocksPerSM != nil || !*first.Managed || *first.PinnedDevice != 1 {
		t.Errorf("first task: %+v, want 4 blocks of 64 threads of managed memory for device 1", first)
	}
	if second.Blocks != 2 || *second.BlocksPerSM != 2 || *second.Managed {
		t.Errorf("second task: %+v, want 2 blocks, 2 to an SM, no managed memory", second)
	}
	if bound.Blocks != 9 || bound.ThreadsPerBlock != 32 || *bound.Device != 0 {
		t.Errorf("task of the bound job: %+v, want 9 blocks of 32 threads on device 0", bound)
	}
}

// A declared job without a grid may have a kernel of any size, as one that asks
// without: case-alg2 lets nobody join it. Others look at its memory alone.
func TestDeclaredJobsWithoutAGrid(t *testing.T) {
	mix := []mixes.Job{declared(8), declared(8), declared(8)}
	setup{scheduler: "case-alg2", devices: 2, jobs: mix}.run(t, func(f *fake) {
		f.want("start 0@0", "start 1@1")
		f.started(0, 1)
		f.ended(0)
		f.want("start 2@0")
		f.started(2)
		f.ended(1, 2)
	})
	setup{scheduler: "case-alg3", jobs: mix}.run(t, func(f *fake) {
		f.want("start 0@0", "start 1@0")
		f.started(0, 1)
		f.ended(0, 1)
		f.started(2)
		f.ended(2)
	})
	for i := range mix {
		mix[i].Footprint.Blocks, mix[i].Footprint.ThreadsPerBlock = 1, 32
	}
	setup{scheduler: "case-alg2", jobs: mix}.run(t, func(f *fake) {
		f.want("start 0@0", "start 1@0")
		f.started(0, 1)
		f.ended(0, 1)
		f.started(2)
		f.ended(2)
	})
}

func TestHeapCountsAsMemoryOfTheTask(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.batch.Post(f.now, runner.TaskBegin{Task: schedulers.Task{ID: 1, Bytes: 17}, HeapBytes: 7})
		f.want("start 0", "refuse 1")
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.Refused)
	if got := rec.task(0, 0); got.Bytes != 10 || got.HeapBytes != 7 {
		t.Errorf("task %+v, want 10 bytes and 7 of heap", got)
	}
}

func TestDeclaredJobsArePlacedAsAWholeByTheirFootprint(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: []mixes.Job{declared(10), declared(10), probed(1)[0]}}.run(t, func(f *fake) {
		f.want("start 0@0", "start 2")
		f.started(0, 2)
		f.begin(2, 7)
		f.want()
		f.begin(0, 99) // one that has a probe after all gets what it was declared for
		f.want("answer 2@0")
		f.at(2)
		f.ended(0)
		f.want("start 1@0")
		f.started(1)
		f.ended(1)
		f.want("answer 1@0")
		f.ended(2)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK)
}

func TestWorkersLimitTaskBoundJobsOnly(t *testing.T) {
	setup{scheduler: "case-alg3", jobs: probed(4), workers: 2}.run(t, func(f *fake) {
		f.want("start 0", "start 1")
		f.started(0, 1)
		f.ended(1)
		f.want("start 2")
		f.started(2)
		f.ended(0)
		f.want("start 3")
		f.started(3)
		f.ended(2, 3)
		f.want()
	})
	setup{scheduler: "sa", devices: 3, jobs: probed(3), workers: 1}.run(t, func(f *fake) {
		f.want("start 0@0", "start 1@1", "start 2@2")
		f.started(0, 1, 2)
		f.ended(0, 1, 2)
	})
}

func TestTimeout(t *testing.T) {
	mix := probed(3)
	mix[1].Timeout = 5 * time.Second // its own limit goes before the run's
	jobs, rec := setup{scheduler: "case-alg3", jobs: mix, timeout: 10 * time.Second}.run(t, func(f *fake) {
		f.at(2)
		f.started(0, 1)
		f.want("start 0", "start 1", "start 2", "wake 12s", "wake 7s")
		f.at(7)
		f.batch.Tick(f.now)
		f.want("stop 1")
		f.batch.Tick(f.now)
		f.want() // stopped once
		f.at(8)
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGKILL")}, f.now)
		f.started(2) // its time starts only now
		f.want("wake 18s")
		f.at(11)
		f.ended(0)
		f.at(12)
		f.batch.Tick(f.now)
		f.ended(2)
		f.want()
	})
	wantOutcomes(t, jobs, results.OK, results.Timeout, results.OK)
	// Jobs 0 and 2 never asked for a device.
	if got := fmt.Sprint(rec.kinds()); got != "[timeout unscheduled unscheduled]" {
		t.Errorf("events %q, want one timeout and two unscheduled", got)
	}
}

func TestWaitLimitRefusesJobsAndTasks(t *testing.T) {
	jobs, _ := setup{scheduler: "schedgpu:wait-limit=5s", jobs: []mixes.Job{declared(16), declared(8), probed(1)[0]}}.run(t, func(f *fake) {
		f.started(0)
		f.at(1)
		f.started(2)
		f.begin(2, 4)
		f.want("start 0@0", "wake 5s", "start 2", "wake 5s")
		f.at(5)
		f.batch.Tick(f.now)
		f.want("wake 6s")
		f.at(6)
		f.batch.Tick(f.now)
		f.want("refuse 1")
		f.ended(0, 2)
	})
	wantOutcomes(t, jobs, results.OK, results.Refused, results.Refused)
	if *jobs[1].EndS != 5 || jobs[1].StartS != nil || !strings.Contains(jobs[1].Detail, "wait limit of 5s: needs 8 bytes, capacity 16 bytes") {
		t.Errorf("job 1: %+v, want its end at 5 s, no start, and why", jobs[1])
	}
}

func TestRefusedJobsNeverStart(t *testing.T) {
	for _, c := range []struct {
		name    string
		jobs    []mixes.Job
		workers int
		want    []results.Outcome
	}{
		{"alone", []mixes.Job{declared(17)}, 0, []results.Outcome{results.Refused}},
		{"all", []mixes.Job{declared(17), declared(18)}, 1, []results.Outcome{results.Refused, results.Refused}},
		{"first", []mixes.Job{declared(17), declared(1)}, 1, []results.Outcome{results.Refused, results.OK}},
		{"last, when a worker is free", []mixes.Job{declared(1), declared(17)}, 1, []results.Outcome{results.OK, results.Refused}},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs, _ := setup{scheduler: "case-alg3", jobs: c.jobs, workers: c.workers}.run(t, func(f *fake) {
				for i, want := range c.want {
					if want == results.OK {
						f.want("start " + string(rune('0'+i)) + "@0")
						f.started(i)
						f.ended(i)
					}
				}
				f.want()
			})
			wantOutcomes(t, jobs, c.want...)
		})
	}
}
