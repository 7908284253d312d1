package runner_test

import (
	"errors"
	"fmt"
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

// tiring is a policy that decides so many times and then fails.
type tiring struct {
	schedulers.Policy
	left int
	err  error
}

var errTired = errors.New("tired")

func (p *tiring) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	if p.left--; p.left < 0 {
		p.err = errTired
		return schedulers.Placement{}, false
	}
	return p.Policy.Place(t, v)
}

func (p *tiring) Err() error { return p.err }

func (p *tiring) Stuck(waiting int) error {
	p.err = fmt.Errorf("%d wait", waiting)
	return p.err
}

// A policy that lets a task wait on the empty node, of which it said before that it would place the task there, ends the batch,
// which would never end.
func TestABatchEndsWithAPolicyThatContradictsItself(t *testing.T) {
	s, err := policies.Parse("case-alg3", 1)
	if err != nil {
		t.Fatal(err)
	}
	once := &fickle{tiring: tiring{Policy: s.Policy, left: 1 << 30}}
	s.Policy = once
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	b, err := runner.NewBatch(runner.Config{Scheduler: s, Devices: []schedulers.Device{device}, Jobs: []mixes.Job{declared(10), declared(10)}})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(e runner.Event) {
		t.Helper()
		if _, err := b.Apply(time.Second, e); err != nil {
			t.Fatal(err)
		}
	}
	apply(runner.Arrive{})
	apply(runner.JobStarted{Job: 0})
	if once.err != nil {
		t.Fatal("it waits behind the first job, and that is stuck")
	}
	once.waits = true
	apply(runner.JobEnded{Job: 0})
	if j := b.Jobs()[1]; once.err == nil || j.Outcome == nil || *j.Outcome != results.Cancelled || j.Detail != "1 wait" {
		t.Errorf("%+v, %v", j, once.err)
	}
}

// fickle is a policy that lets all tasks wait from some time on.
type fickle struct {
	tiring
	waits bool
}

func (p *fickle) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	if p.waits {
		return schedulers.Placement{}, false
	}
	return p.tiring.Place(t, v)
}

// A policy that fails ends the batch: jobs that run are stopped, no other job starts, and no task
// that it could not place is refused.
func TestABatchEndsWithItsPolicy(t *testing.T) {
	s, err := policies.Parse("case-alg3", 1)
	if err != nil {
		t.Fatal(err)
	}
	p := &tiring{Policy: s.Policy, left: 3} // two questions for each job that is placed
	s.Policy = p
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	b, err := runner.NewBatch(runner.Config{Scheduler: s, Devices: []schedulers.Device{device},
		Jobs: []mixes.Job{declared(4), {Name: "probed", Program: "needle"}, declared(4), {Name: "probed", Program: "needle"}}})
	if err != nil {
		t.Fatal(err)
	}
	var did []string
	apply := func(e runner.Event) {
		t.Helper()
		commands, err := b.Apply(time.Second, e)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			switch c := c.(type) {
			case runner.Start:
				did = append(did, fmt.Sprint("start ", c.Job))
			case runner.Stop:
				did = append(did, fmt.Sprint("stop ", c.Job))
			case runner.Answer:
				did = append(did, fmt.Sprint("answer ", c.Decision.Kind))
			case runner.RecordEvent:
				did = append(did, fmt.Sprint(c.Event.Kind, " ", c.Event.Detail))
			}
		}
	}
	apply(runner.Arrive{})
	if want := []string{"start 0", "start 1", "cancelled tired", "stop 0", "stop 1"}; !slices.Equal(did, want) {
		t.Fatalf("it did %q, want %q", did, want)
	}
	did = nil
	apply(runner.TaskBegin{Task: schedulers.Task{ID: 1, Job: 1, Bytes: 1}}) // it was on its way
	apply(runner.TaskFree{ID: 1})
	for _, job := range []int{1, 0} {
		apply(runner.JobEnded{Job: job, Exit: runner.Exit{Signal: new("SIGKILL")}})
	}
	if len(did) > 0 || !b.Ended() {
		t.Errorf("it did %q, ended: %v", did, b.Ended())
	}
	wantOutcomes(t, b.Jobs(), results.Cancelled, results.Cancelled, results.Cancelled, results.Cancelled)
	if !errors.Is(b.Err(), errTired) {
		t.Errorf("error %v, want the policy's", b.Err())
	}
}

// A policy that failed before the batch ends it before a job starts.
func TestABatchOfAFailedPolicy(t *testing.T) {
	s, err := policies.Parse("case-alg3", 1)
	if err != nil {
		t.Fatal(err)
	}
	s.Policy = &tiring{Policy: s.Policy, err: errTired}
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	b, err := runner.NewBatch(runner.Config{Scheduler: s, Devices: []schedulers.Device{device}, Jobs: []mixes.Job{{Name: "probed", Program: "needle"}, declared(4)}})
	if err != nil {
		t.Fatal(err)
	}
	commands, err := b.Apply(time.Second, runner.Arrive{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if start, is := c.(runner.Start); is {
			t.Errorf("job %d started", start.Job)
		}
	}
	wantOutcomes(t, b.Jobs(), results.Cancelled, results.Cancelled)
	if !errors.Is(b.Err(), errTired) || !b.Ended() {
		t.Errorf("error %v, ended: %v", b.Err(), b.Ended())
	}
}

// A scheduler whose program has not been started decides nothing.
func TestABatchNeedsAPolicy(t *testing.T) {
	s, err := policies.Parse("exec:p.py", 1)
	if err != nil {
		t.Fatal(err)
	}
	device := schedulers.Device{Name: "fake", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	if _, err := runner.NewBatch(runner.Config{Scheduler: s, Devices: []schedulers.Device{device}, Jobs: probed(1)}); err == nil || !strings.Contains(err.Error(), "has not been started") {
		t.Error(err)
	}
}
