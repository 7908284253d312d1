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

// Given is a job that a run gets while it runs, as package mixes reads jobs. It belongs to the group of the mix that is present.
type Given struct {
	Job mixes.Job
	// Where says where the job is from, for messages, such as "jobs.yaml:3"; "": nobody knows.
	Where string
	// At is when the job arrives in a simulated run, since the batch's arrival; a time that has passed means now. In a live
	// run jobs arrive when they are taken.
	At time.Duration
	// Answer, if not nil, is told once of each job that was taken, in their order: its index in the run, or why the run does
	// not have it. It must not block.
	Answer func(job int, err error)
}

// Feed is where a node takes the jobs from that its run is given. It holds them to the rules of a mix's jobs.
type Feed struct {
	batch   Batch
	backend Backend
	devices []results.Device
	to      *tracker
	known   profiles.Set
	faults  map[string]int64 // runs in which commands faulted alone; nil: not looked up
	jobs    []mixes.Job      // that the batch has
}

// Next waits for a job that the run may have, and answers others. false: no more come, or ctx has ended.
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

// settle checks a job, and finds what is known of it.
func (f *Feed) settle(ctx context.Context, t *Taken) error {
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
	t.Job, t.Profiles, t.At = b.Mix.Jobs[0], f.known, t.given.At
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
	b.sayTooLarge(f.devices)
	return nil
}

// Taken is a job that a node has taken from its feed. Answer must follow.
type Taken struct {
	runner.Given
	Profiles profiles.Set
	At       time.Duration

	feed     *Feed
	given    Given
	expected *results.Known
}

// Answer says what became of the job: its index, or why the run does not have it.
func (t Taken) Answer(job int, err error) {
	if err == nil {
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
