package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// grouped is a job of each of these groups.
func grouped(like mixes.Job, groups ...int) []mixes.Job {
	var jobs []mixes.Job
	for _, g := range groups {
		like.Group = g
		jobs = append(jobs, like)
	}
	return jobs
}

func TestAGroupArrivesWhenTheOneBeforeHasEnded(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: grouped(probed(1)[0], 1, 1, 4, 4, 4), workers: 2}.run(t, func(f *fake) {
		f.want("start 0", "start 1")
		f.started(0, 1)
		f.at(3)
		f.ended(1)
		f.want() // one of the first group is left, whatever room there is
		f.at(5)
		f.ended(0)
		f.want("start 2", "start 3")
		f.at(6)
		f.started(2, 3)
		f.at(9)
		f.ended(2)
		f.want("start 4")
		f.started(4)
		f.at(10)
		f.ended(3, 4)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK, results.OK, results.OK)
	for i, want := range []struct{ arrival, wait, turnaround float64 }{{0, 0, 5}, {0, 0, 3}, {5, 1, 4}, {5, 1, 5}, {5, 4, 5}} {
		j := rec.jobs[i]
		if *j.ArrivalS != want.arrival || *j.WaitS != want.wait || *j.TurnaroundS() != want.turnaround {
			t.Errorf("job %d: arrival %g s, wait %g s, turnaround %g s, want %+v", i, *j.ArrivalS, *j.WaitS, *j.TurnaroundS(), want)
		}
	}
}

// A job-bound scheduler sees a group at once and the next one not before; a job
// that is refused has ended.
func TestGroupsOfBoundJobs(t *testing.T) {
	jobs, _ := setup{scheduler: "sa", jobs: grouped(probed(1)[0], 0, 0, 1)}.run(t, func(f *fake) {
		f.want("start 0@0")
		f.started(0)
		f.ended(0)
		f.want("start 1@0")
		f.at(2)
		f.started(1)
		f.ended(1)
		f.want("start 2@0")
		f.started(2)
		f.ended(2)
	})
	if *jobs[2].ArrivalS != 2 || *jobs[2].WaitS != 0 {
		t.Errorf("the second group: %+v", jobs[2])
	}
	jobs, _ = setup{scheduler: "case-alg3", jobs: append(grouped(declared(99), 0, 1), grouped(declared(8), 2, 2)...)}.run(t, func(f *fake) {
		f.want("start 2@0", "start 3@0")
		f.started(2, 3)
		f.ended(2, 3)
	})
	wantOutcomes(t, jobs, results.Refused, results.Refused, results.OK, results.OK)
}

func TestWhatNeverArrivedIsCancelled(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: grouped(probed(1)[0], 0, 1)}.run(t, func(f *fake) {
		f.started(0)
		f.batch.Cancel("enough", f.now)
		f.want("start 0", "stop 0")
		f.at(1)
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.Cancelled, results.Cancelled)
	if jobs[1].ArrivalS != nil || jobs[1].TurnaroundS() != nil {
		t.Errorf("a job that never arrived: %+v", jobs[1])
	}
}

func TestGroupsAreInOrder(t *testing.T) {
	s, err := policies.Parse("sa", 1)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	_, err = runner.Run(context.Background(), runner.Config{Jobs: grouped(probed(1)[0], 1, 0), Devices: []schedulers.Device{device}, Scheduler: s}, &fake{t: t}, newTape())
	if err == nil || !strings.Contains(err.Error(), "job 1 of group 0 is listed behind group 1") {
		t.Errorf("error %v", err)
	}
}

// With isolate=known a program that is known to fault has its device alone, both
// where it comes first and where others are there; without, it is one of them.
func TestKnownFaultsAreKeptApart(t *testing.T) {
	mix := slices.Repeat([]mixes.Job{declared(1)}, 3)
	mix[1].KnownFault = true
	for _, scheduler := range []string{"case-alg2", "case-alg3", "cg:workers=3,", "schedgpu"} {
		text := scheduler + ":isolate=known"
		if strings.Contains(scheduler, ":") {
			text = scheduler + "isolate=known"
		}
		small := slices.Clone(mix)
		for i := range small {
			small[i].Footprint.Blocks, small[i].Footprint.ThreadsPerBlock = 1, 32
		}
		setup{scheduler: text, jobs: small}.run(t, func(f *fake) {
			f.started(0)
			if slices.Contains(f.calls, "start 1@0") {
				t.Errorf("%s: started beside others: %v", text, f.calls)
			}
			together := len(f.calls) == 2 // the queue order lets job 2 pass
			if together {
				f.started(2)
				f.ended(2)
			}
			f.calls = nil
			f.ended(0)
			f.want("start 1@0")
			f.started(1)
			f.ended(1)
			if !together {
				f.want("start 2@0")
				f.started(2)
				f.ended(2)
			}
		})
		setup{scheduler: strings.TrimSuffix(scheduler, ","), jobs: small}.run(t, func(f *fake) {
			f.want("start 0@0", "start 1@0", "start 2@0")
			f.started(0, 1, 2)
			f.ended(0, 1, 2)
		})
	}
}
