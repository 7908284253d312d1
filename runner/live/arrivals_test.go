package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// A job is started at its arrival, and not before. The run ends with its last job.
func TestJobsStartWhenTheyArrive(t *testing.T) {
	for _, sched := range []string{"sa", "case-alg3"} {
		r := newRig(t, sched).sh("exit 0").sh("exit 0").sh("exit 0")
		r.jobs[1].At, r.jobs[2].At = 30*time.Millisecond, 60*time.Millisecond
		jobs, _ := r.mustRun()
		for i, j := range jobs {
			if *j.Outcome != results.OK || *j.ArrivalS < r.jobs[i].At.Seconds() || *j.StartS < *j.ArrivalS || *j.TurnaroundS() != *j.EndS-*j.ArrivalS {
				t.Errorf("%s: job %d arrived at %g s and started at %g s: %s", sched, i, *j.ArrivalS, *j.StartS, *j.Outcome)
			}
		}
	}
}

// A run can be stopped while nobody has arrived.
func TestStoppedBeforeAnybodyArrives(t *testing.T) {
	r := newRig(t, "case-alg3").sh("exit 0")
	r.jobs[0].At = time.Hour
	cause := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	r.observe = func(s runner.Step) {
		if _, is := s.Event.(runner.Arrive); is {
			cancel(cause)
		}
	}
	jobs, _, err := r.run(ctx)
	if !errors.Is(err, cause) || *jobs[0].Outcome != results.Cancelled || jobs[0].StartS != nil {
		t.Errorf("%s, error %v; want cancelled and the cause", *jobs[0].Outcome, err)
	}
}
