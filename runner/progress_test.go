package runner_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// told is what the batch said of making no progress, by the second.
func (r *tape) told() map[float64]string {
	out := map[float64]string{}
	for _, e := range r.events {
		if e.Kind == results.EventNoProgress {
			out[e.AtS] = e.Detail
		}
	}
	return out
}

// looks ticks whenever the batch asked for it, until a time.
func (f *fake) looks(until int) {
	for f.now < time.Duration(until)*time.Second {
		f.now += time.Second
		if slices.Contains(f.calls, "wake "+f.now.String()) {
			f.calls = nil
			f.batch.Tick(f.now)
		}
	}
}

// A batch in which everybody waits says who waits for what, who holds what, and what
// helps, again when that has lasted twice as long.
func TestABatchThatMakesNoProgressSaysSo(t *testing.T) {
	_, rec := setup{scheduler: "case-alg3", jobs: probed(3), patience: time.Minute}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		first := f.begin(0, 9)
		f.at(10)
		f.begin(0, 8)
		f.looks(20)
		grows := f.begin(1, 2)
		f.batch.TaskGrow(grows, 7, nil, f.now)
		f.ended(2) // the last that did anything
		f.looks(1000)
		f.batch.TaskFree(first, f.now)
		f.looks(2000)
		f.ended(0, 1)
	})
	told := rec.told()
	const want = "no progress for 1m40s: every job that runs waits for the scheduler. Waiting: job 0 (probed) for 8 bytes, job 1 (probed) for 7 bytes. " +
		"Holding: job 0 (probed) 9 bytes of GPU 0, job 1 (probed) 2 bytes of GPU 0. " +
		"If it lasts: interrupt the run; --sched case-alg3:wait-limit=10m would refuse such requests, --timeout 1h would stop such jobs, and fewer --workers leave each job more memory"
	if got := told[120]; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	// From 1000 s on job 1 goes on, and only job 0 waits.
	if at := slices.Sorted(maps.Keys(told)); !slices.Equal(at, []float64{120, 240, 480, 960, 1620}) {
		t.Errorf("said at %v s", at)
	}
}

// A job that does not wait may be at work.
func TestABatchWithAJobAtWorkIsGivenTime(t *testing.T) {
	mix := []mixes.Job{declared(15), probed(1)[0]}
	_, rec := setup{scheduler: "case-alg3:wait-limit=20m", jobs: mix, patience: time.Minute}.run(t, func(f *fake) {
		f.started(0, 1)
		f.begin(0, 99) // of a job that has its device
		f.begin(1, 2)
		f.looks(1100)
		f.ended(0, 1)
	})
	want := map[float64]string{600: "no progress for 10m0s: 1 of the 2 jobs that run wait for the scheduler. " +
		"Waiting: job 1 (probed) for 2 bytes. Holding: job 0 (declared) 15 bytes of GPU 0. wait-limit=20m0s ends it"}
	if told := rec.told(); len(told) != 1 || told[600] != want[600] {
		t.Errorf("said %v, want %v", told, want)
	}
}

func TestWhatHappensIsProgress(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(2), patience: time.Minute, timeout: time.Hour}.run(t, func(f *fake) {
		f.started(0, 1)
		f.begin(0, 16)
		f.begin(0, 1)
		for range 20 {
			f.looks(int(f.now.Seconds()) + 55)
			f.batch.TaskFree(f.begin(1, 17), f.now) // refused, but an answer
		}
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.OK, results.Refused)
	if told := rec.told(); len(told) > 0 {
		t.Errorf("said %v", told)
	}
}

// While the recovery of the MPS server is awaited, everybody waits for it.
func TestRecoveryIsNotLackOfProgress(t *testing.T) {
	_, rec := setup{scheduler: "case-alg3", jobs: probed(2), patience: time.Minute, mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.begin(0, 4)
		f.batch.ReportFault(0, 0, 700, "kernel", f.now)
		f.ended(0)
		f.begin(1, 4)
		f.looks(200)
		f.batch.Recovered(nil, f.now)
		f.batch.Recovered(nil, f.now)
		f.ended(1)
	})
	if told := rec.told(); len(told) > 0 {
		t.Errorf("said %v", told)
	}
}
