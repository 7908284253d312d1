package runner_test

import (
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// A job's wait is the time in which its process did not start or a thread of it
// was blocked in its probe.
func TestWaitOfAJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		script func(*fake) // job 0's wait counts; all ends by itself after it
		want   float64
	}{
		{"for its start", func(f *fake) {
			f.at(3)
			f.started(0, 1)
			f.at(5)
		}, 3},
		{"to begin", func(f *fake) {
			f.started(0, 1)
			other := f.begin(1, 16)
			f.at(1)
			f.begin(0, 4)
			f.at(10)
			f.batch.TaskFree(other, f.now)
			f.at(20)
		}, 9},
		{"to grow", func(f *fake) {
			f.started(0, 1)
			grows, other := f.begin(0, 8), f.begin(1, 8)
			f.at(1)
			f.batch.TaskGrow(grows, 4, nil, f.now)
			f.at(61)
			f.batch.TaskFree(other, f.now)
			f.at(70)
			f.batch.TaskGrow(grows, 1, nil, f.now) // at once
		}, 60},
		{"of two threads at the same time", func(f *fake) {
			f.started(0, 1)
			first, second := f.begin(1, 8), f.begin(1, 8)
			f.begin(0, 4)
			f.at(2)
			f.begin(0, 9)
			f.at(10)
			f.batch.TaskFree(first, f.now)
			f.at(12)
			f.batch.TaskFree(second, f.now)
			f.at(20)
		}, 12},
		{"and again", func(f *fake) {
			f.started(0, 1)
			for range 2 {
				other := f.begin(1, 16)
				waits := f.begin(0, 4)
				f.at(int(f.now.Seconds()) + 5)
				f.batch.TaskFree(other, f.now)
				f.batch.TaskFree(waits, f.now)
				f.at(int(f.now.Seconds()) + 5)
			}
		}, 10},
		{"until it is refused", func(f *fake) {
			f.started(0, 1)
			f.begin(1, 16)
			f.begin(0, 4)
			f.at(30)
			f.batch.Tick(f.now) // the wait limit
			f.at(40)
		}, 30},
		{"until growth is refused", func(f *fake) {
			f.started(0, 1)
			grows := f.begin(0, 8)
			f.begin(1, 8)
			f.batch.TaskGrow(grows, 4, nil, f.now)
			f.at(30)
			f.batch.Tick(f.now)
			f.at(40)
		}, 30},
		{"until it dies", func(f *fake) {
			f.started(0, 1)
			f.begin(1, 16)
			f.at(1)
			f.begin(0, 4)
			f.at(8)
		}, 7},
		{"until its process is gone", func(f *fake) {
			f.started(0, 1)
			f.begin(1, 16)
			f.begin(0, 4)
			f.begin(0, 4)
			f.at(8)
			f.batch.ProcessGone(0, 0, true, f.now)
			f.at(9)
		}, 8},
		{"from before its start was told", func(f *fake) {
			f.at(2)
			f.begin(1, 16)
			f.begin(0, 4)
			f.at(3)
			f.batch.JobStarted(0, 1e9) // it started at 1 s
			f.started(1)
			f.at(6)
		}, 1 + 4},
		{"until before its start was told", func(f *fake) {
			f.at(2)
			other := f.begin(1, 16)
			f.begin(0, 4)
			f.at(4)
			f.batch.TaskFree(other, f.now)
			f.batch.JobStarted(0, 1e9)
			f.started(1)
			f.at(6)
		}, 1 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs, rec := setup{scheduler: "case-alg3:wait-limit=30s", jobs: probed(2)}.run(t, func(f *fake) {
				c.script(f)
				f.ended(0, 1)
			})
			if got := *jobs[0].WaitS; got != c.want || *rec.jobs[0].WaitS != c.want {
				t.Errorf("the wait is %v s, recorded %v s, want %v", got, *rec.jobs[0].WaitS, c.want)
			}
		})
	}
}

// While the MPS server is ill, a grant is not an answer yet.
func TestWaitForTheServerCounts(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.begin(0, 4)
		f.batch.ReportFault(0, 0, 700, "kernel", f.now)
		f.begin(1, 4)
		f.at(6)
		f.batch.Recovered(nil, f.now)
		f.at(9)
		f.ended(0, 1)
	})
	if got := *jobs[1].WaitS; got != 6 {
		t.Errorf("the wait is %v s, want the 6 until the server was healthy", got)
	}
}

func TestWaitOfAJobThatNeverStarts(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3:wait-limit=30s", jobs: []mixes.Job{declared(16), declared(16)}}.run(t, func(f *fake) {
		f.started(0)
		f.at(30)
		f.batch.Tick(f.now)
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.OK, results.Refused)
	if w := jobs[1].WaitS; w == nil || *w != 30 {
		t.Errorf("the refused job waited for %v, want 30 s", w)
	}
}

// What a dead process held is for the others.
func TestTasksOfADeadProcessGetNothing(t *testing.T) {
	for _, queue := range []string{"fifo", "largest-first"} {
		_, rec := setup{scheduler: "case-alg3:queue=" + queue, jobs: probed(2)}.run(t, func(f *fake) {
			f.started(0, 1)
			f.begin(0, 12)
			f.begin(0, 16)
			f.begin(0, 2) // under fifo the second holds it up
			f.begin(1, 10)
			f.calls = nil
			f.at(4)
			f.batch.ProcessGone(0, 0, true, f.now)
			f.want("answer 4@0")
			f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
			f.ended(1)
		})
		if held := rec.task(0, 0); held.ReleaseS == nil || *held.ReleaseS != 4 {
			t.Errorf("%s: the task that had the device: %+v, want released at 4 s", queue, held)
		}
		if waits := rec.task(0, 1); waits.GrantS != nil || waits.ReleaseS != nil {
			t.Errorf("%s: the task that waited: %+v, want neither granted nor released", queue, waits)
		}
	}
}
