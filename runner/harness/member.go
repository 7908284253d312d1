package harness

import (
	"context"

	"github.com/caserun/caserun/runner"
)

// OpenMember prepares a node of a cluster. The head gives it jobs as runner.Given events in b.Given, and has already settled all about
// them. b.Sched is the scheduler of the node.
func OpenMember(ctx context.Context, backend Backend, b Batch, to Recorder) (Node, error) {
	b.Options = backend.Options()
	count, threads, _, err := backend.Size()
	if err != nil {
		return nil, err
	}
	if b.Scheduler, b.Workers, err = b.Request.Scheduler(count, threads); err != nil {
		return nil, err
	}
	return b.open(to, func(b Batch) (Node, error) {
		if err := backend.CheckScheduler(b.Scheduler); err != nil {
			return nil, err
		}
		b.Feed = &Feed{batch: b, known: b.Profiles}
		return backend.Open(ctx, b, to)
	})
}

// settled takes a job of which all is settled, or an event.
func (f *Feed) settled(ctx context.Context, t *Taken) (err error) {
	given, isJob := t.given.Event.(runner.Given)
	if !isJob {
		t.Event = t.given.Event
		return nil
	}
	if f.batch.Know != nil {
		m := f.batch.Mix
		m.Jobs = append(m.Jobs[:0:0], given.Job)
		if f.known, err = f.batch.Know(ctx, &m, f.known); err != nil {
			return err
		}
	}
	t.Given, t.Profiles = given, f.known
	return nil
}
