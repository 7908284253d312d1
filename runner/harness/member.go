package harness

import (
	"context"
	"time"

	"github.com/caserun/caserun/runner"
)

// OpenMember prepares a node of a cluster. The head gives it jobs as runner.Given events in r.Given, and has already settled all about
// them. r.Sched is the scheduler of the node. jobs and devices are their numbers in the batch of the cluster, by those of the node.
func OpenMember(ctx context.Context, backend Backend, r Request, started time.Time, jobs, devices func(int) int, to Recorder) (Node, error) {
	r.Options = backend.Options()
	count, threads, _, err := backend.Size()
	if err != nil {
		return nil, err
	}
	b := Batch{Request: r, Started: started, JobNumber: jobs, DeviceNumber: devices}
	if b.Scheduler, b.Workers, err = r.Scheduler(count, threads); err != nil {
		return nil, err
	}
	if err := backend.CheckScheduler(b.Scheduler); err != nil {
		return nil, err
	}
	b.Feed = &Feed{batch: b, known: r.Profiles}
	return backend.Open(ctx, b, to)
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
