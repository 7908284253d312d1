package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
)

// Given is what a run gets while it runs: a job, as package mixes reads jobs, or an event. A job belongs to the group of the
// mix that is present.
type Given struct {
	Job mixes.Job
	// Event is given instead of a job: a runner.Limit, DeviceLost or DeviceAdded; nil: a job is given.
	Event runner.Event
	// Where says where it is from, for messages, such as "jobs.yaml:3"; "": nobody knows.
	Where string
	// At is when it comes in a simulated run, since the batch's arrival; a time that has passed means now. In a live
	// run it comes when it is taken.
	At time.Duration
	// Answer, if not nil, is told once of each that was taken, in their order: the job's index in the run, 0 of an event, or
	// why the run does not have it. It must not block.
	Answer func(job int, err error)
}

// Feed is where a node takes from what its run is given. It holds jobs to the rules of a mix's jobs.
type Feed struct {
	batch   Batch
	backend Backend // nil: all is settled by the head of a cluster
	devices []results.Device
	to      *tracker
	known   profiles.Set
	faults  map[string]int64 // runs in which commands faulted alone; nil: not looked up
	jobs    []mixes.Job      // that the batch has
}

// Next waits for what the run may have, and answers the rest. false: no more come, or ctx has ended.
func (f *Feed) Next(ctx context.Context) (Taken, bool) {
	for {
		select {
		case <-ctx.Done():
			return Taken{}, false
		case g, more := <-f.batch.Given:
			if !more {
				return Taken{}, false
			}
			t := Taken{feed: f, given: g}
			err := f.settle(ctx, &t)
			if err == nil {
				return t, true
			}
			t.Answer(0, err)
		}
	}
}

// settle checks what is given, and finds what is known of a job.
func (f *Feed) settle(ctx context.Context, t *Taken) error {
	t.At = t.given.At
	if f.backend == nil {
		return f.settled(ctx, t)
	}
	switch e := t.given.Event.(type) {
	case nil:
		return f.settleJob(ctx, t)
	case runner.Limit, runner.DeviceLost, runner.DeviceAdded:
		t.Event = e
		return nil
	default:
		return fmt.Errorf("a run is given jobs, limits, and devices that are lost or added, not %T", e)
	}
}

func (f *Feed) settleJob(ctx context.Context, t *Taken) error {
	if n := t.given.Job.Portions; n > 0 {
		return fmt.Errorf("job %s has portions: %d, which a job that is given to a run cannot have: put it into the run's mix", t.given.Job.Name, n)
	}
	b := f.batch
	b.Mix = mixes.Mix{Name: b.Mix.Name, Source: b.Mix.Source, Jobs: []mixes.Job{t.given.Job}}
	if b.Know != nil {
		known, err := b.Know(ctx, &b.Mix, f.known)
		if err != nil {
			return err
		}
		f.known = known
	}
	if err := f.backend.CheckMix(b.Mix, b.Probe, f.known); err != nil {
		return err
	}
	if err := CheckDevices(b.Mix, b.Scheduler, len(f.devices)); err != nil {
		return err
	}
	b.Profiles = f.known
	t.Job, t.Profiles = b.Mix.Jobs[0], f.known
	if f.backend.Mode() == results.Live {
		if f.faults == nil {
			known, err := b.Store.FaultsAlone(ctx, b.Suite)
			if err != nil {
				return err
			}
			f.faults = known
		}
		if run, found := f.faults[t.Job.Command()]; found {
			t.FaultsAlone = faultedAlone(run)
		}
	}
	if b.Scheduler.Expects() {
		known, err := b.known(ctx, f.backend, false)
		if err != nil {
			return err
		}
		t.expected, t.Expected = known[0], history.ForScheduler(known)[0]
	}
	b.sayTooLarge(f.backend.Mode(), f.devices)
	return nil
}

// Taken is what a node has taken from its feed. Answer must follow.
type Taken struct {
	Event runner.Event // nil: the job is given
	runner.Given
	Profiles profiles.Set // of the job
	At       time.Duration

	feed     *Feed
	given    Given
	expected *results.Known
}

// Answer says what became of it: the job's index, or why the run does not have it.
func (t Taken) Answer(job int, err error) {
	if err == nil && t.Event == nil && t.feed.backend != nil {
		t.feed.jobs = append(t.feed.jobs, t.Job)
		if t.expected != nil {
			t.feed.to.Prediction(results.Prediction{Job: job, Expected: t.expected.Expected})
		}
	}
	if err != nil && t.given.Where != "" {
		err = fmt.Errorf("%s: %w", t.given.Where, err)
	}
	if t.given.Answer != nil {
		t.given.Answer(job, err)
	}
}
