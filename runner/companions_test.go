package runner_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// A companion is stopped when the last of the others has ended, also one that starts only then. It is ok, and has no turnaround.
// Whatever else ends it counts as ever.
func TestCompanionsEndWithTheOthers(t *testing.T) {
	s := setup{scheduler: "case-alg3", jobs: probed(5), workers: 4}
	for _, i := range []int{0, 3, 4} {
		s.jobs[i].UntilOthersEnd = true
	}
	ended := func(f *fake, i int, e runner.Exit) { f.batch.JobEnded(i, e, f.now) }
	jobs, _ := s.run(t, func(f *fake) {
		f.started(0, 1, 2, 3)
		f.calls = nil
		f.at(5)
		ended(f, 1, runner.Exit{Status: new(0)})
		f.want("start 4")
		f.at(7)
		ended(f, 2, runner.Exit{Status: new(0)})
		f.want("stop 0", "stop 3")
		f.started(4)
		f.want("stop 4")
		f.at(8)
		ended(f, 0, runner.Exit{Signal: new("SIGTERM")})
		ended(f, 3, runner.Exit{Status: new(0)})
		ended(f, 4, runner.Exit{Status: new(3)})
		f.want()
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK, results.OK, results.Crash)
	if jobs[0].TurnaroundS() != nil || *jobs[2].TurnaroundS() != 7 {
		t.Errorf("turnarounds %v and %v", jobs[0].TurnaroundS(), jobs[2].TurnaroundS())
	}
}

// MPS ends the work of what is stopped first, and the job may see that, and end by itself. That is not a fault of the job. Without
// the run's doing it is one.
func TestWhatMPSEndsForARunIsNoFault(t *testing.T) {
	s := setup{scheduler: "case-alg3", jobs: probed(4), workers: 4}
	s.jobs[0].UntilOthersEnd = true
	s.jobs[2].Timeout = 9 * time.Second
	const terminated, unavailable = 810, 46
	jobs, events := s.run(t, func(f *fake) {
		f.started(0, 1, 2, 3)
		f.batch.ReportFault(3, 0, terminated, "cudaDeviceSynchronize", f.now)
		f.batch.JobEnded(3, runner.Exit{Status: new(3)}, f.now)
		f.ended(1)
		f.at(9)
		f.tick()
		f.batch.ReportFault(2, 0, terminated, "cudaDeviceSynchronize", f.now)
		f.batch.JobEnded(2, runner.Exit{Status: new(3)}, f.now)
		f.batch.ReportFault(0, 0, unavailable, "cudaDeviceSynchronize", f.now)
		f.batch.JobEnded(0, runner.Exit{Status: new(3)}, f.now)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.Timeout, results.Fault)
	for _, e := range events.events {
		if e.Kind == results.EventFault && *e.Job != 3 {
			t.Errorf("event %+v", e)
		}
	}
}

// The next group waits for the companions of the one before.
func TestCompanionsOfAGroup(t *testing.T) {
	s := setup{scheduler: "case-alg3", jobs: probed(3)}
	s.jobs[0].UntilOthersEnd, s.jobs[2].Group = true, 1
	s.run(t, func(f *fake) {
		f.started(0, 1)
		f.calls = nil
		f.ended(1)
		f.want("stop 0")
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.want("start 2")
		f.started(2)
		f.ended(2)
	})
}
