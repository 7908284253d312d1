package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/external"
	"github.com/caserun/caserun/schedulers/policies"
)

// Pinned returns a scheduler that a program decides for so that it means the program as it is now.
// A run's parameters then tell the versions of a program apart. Other schedulers stay as they are.
func Pinned(s policies.Scheduler) (policies.Scheduler, error) {
	if s.Program == nil {
		return s, nil
	}
	if err := external.CheckFile(s.Program.Path); err != nil {
		return s, err
	}
	sum, err := Hash(s.Program.Path)
	if err != nil {
		return s, err
	}
	sum = sum[:policies.HashDigits]
	if want := s.Program.SHA256; want != "" && want != sum {
		return s, fmt.Errorf("policy %s: the sha256 of its content begins with %s, and sha256=%s was asked for: bring that content back, or leave sha256 out (a sweep keeps the content that it was planned with)", s.Program.Path, sum, want)
	}
	return s.Pinned(sum), nil
}

// decided is a node for whose batch a program decides.
type decided struct {
	Node
	program *external.Policy
	say     Say
	to      Recorder
}

// Execute says why, too: of refused jobs the engine says only that the scheduler gives them no device.
func (d decided) Execute(ctx context.Context, run int64, arrival time.Time) ([]results.Job, error) {
	jobs, err := d.Node.Execute(ctx, run, arrival)
	refused := slices.IndexFunc(jobs, func(j results.Job) bool { return j.Outcome != nil && *j.Outcome == results.Refused })
	if err != nil || refused < 0 || d.program.Err() != nil {
		return jobs, err
	}
	why := d.program.Answers() + "; a task that must wait on the empty node is refused"
	d.say("%s", why)
	d.to.Event(results.Event{AtS: *jobs[refused].EndS, Kind: results.EventHint, Job: &refused, Detail: why})
	return jobs, nil
}

func (d decided) Close(run *results.Run) []error {
	return append(d.Node.Close(run), d.program.Close())
}

// open prepares the node for the batch, and starts the program that decides, if there is one. If it fails at its greeting,
// the batch ends as it begins, so that the run is recorded.
func (b *Batch) open(to Recorder, node func(Batch) (Node, error)) (Node, error) {
	if b.Scheduler.Program == nil {
		return node(*b)
	}
	program, err := external.Start(*b.Scheduler.Program)
	if program == nil {
		return nil, err
	}
	b.Scheduler = program.Scheduler(b.Scheduler)
	n, err := node(*b)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return decided{n, program, b.Say, to}, nil
}

// Decider settles a scheduler for so many devices and starts the program that decides, if there is
// one. done must be called after a success. It is for batches that are not runs.
func Decider(text string, devices int) (_ policies.Scheduler, done func() error, err error) {
	s, err := policies.ParseStored(text, devices)
	if err == nil {
		s, err = Pinned(s)
	}
	if err != nil {
		return s, nil, Refuse(err)
	}
	if s.Program == nil {
		return s, func() error { return nil }, nil
	}
	program, err := external.Start(*s.Program)
	if err != nil {
		return s, nil, err
	}
	return program.Scheduler(s), program.Close, nil
}
