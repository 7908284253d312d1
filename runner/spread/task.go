// Package spread does the parts of a whole in the tasks of an array job of Slurm. A task works on a file
// on its node's own disk and publishes copies of it. A collector merges the copies as they come.
package spread

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/caserun/caserun/results/parts"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurm"
)

const (
	// Plan is the number under which the file is published with which all parts begin.
	Plan = 0
	// MaxRestarts is how often a task is started again, for whatever reason.
	MaxRestarts = 3
)

// ErrTime is wrapped by the error of work that stops because the job's time is short.
var ErrTime = errors.New("the rest does not fit into the job's time")

// Task is the work of one task on its part.
type Task struct {
	Dir    string // of published files, which all nodes share
	Number int    // of the part, from 1
	Job    slurm.Allocation
	Every  time.Duration // between copies
	// Work goes on with the part in a file. It returns nil if the part is complete, and soon after ctx ends.
	// attempt is how often the part was begun before; no other process has the same. end is when the job's time
	// ends; zero: never, or nobody knows.
	Work func(ctx context.Context, file string, attempt int, end time.Time) error
	// Copy makes a checked copy of a file on which work is under way.
	Copy func(ctx context.Context, file, to string) error
	Say  func(format string, args ...any)
}

// Do works on the part from where its latest published file is, and publishes copies meanwhile and at the
// end. If the job's time is up, the job is requeued. It is not where Slurm has ended the job before its
// time: then Slurm requeues it, or somebody has cancelled it.
func (t Task) Do(ctx context.Context) (err error) {
	if t.Job.Restarts > MaxRestarts {
		return fmt.Errorf("part %d: job %s of Slurm was started again %d times, at most %d are allowed: see why in its log", t.Number, t.Job.Job, t.Job.Restarts, MaxRestarts)
	}
	dir, err := scratch.MakeLocal("part")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	file := filepath.Join(dir.Path(), "store.db")
	if err := t.fetch(file); err != nil {
		return err
	}
	publisher, err := parts.Begin(t.Dir, t.Number)
	if err != nil {
		return err
	}
	end, err := t.Job.End(ctx) // it is now, once somebody has cancelled the job
	if err != nil {
		t.Say("part %d: when job %s of Slurm ends is not known: %v", t.Number, t.Job.Job, err)
	}
	worked := make(chan error, 1)
	go func() { worked <- t.Work(ctx, file, publisher.Attempt(), end) }()
	again := time.NewTicker(t.Every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err := t.publish(ctx, publisher, file); err != nil && ctx.Err() == nil {
				t.Say("part %d goes on: %v", t.Number, err)
			}
		case err := <-worked:
			after := context.WithoutCancel(ctx)
			published := t.publish(after, publisher, file)
			if published == nil && err != nil && timeIsUp(ctx, err, end) {
				return errors.Join(err, t.requeue(after))
			}
			return errors.Join(err, published)
		}
	}
}

// fetch gets the part's latest file, or the plan.
func (t Task) fetch(file string) error {
	p, err := parts.Fetch(t.Dir, t.Number, file)
	if errors.Is(err, fs.ErrNotExist) {
		p, err = parts.Fetch(t.Dir, Plan, file)
	}
	if err == nil {
		t.Say("part %d goes on from %s", t.Number, p.Path)
	}
	return err
}

func (t Task) publish(ctx context.Context, publisher *parts.Publisher, file string) (err error) {
	dir, err := scratch.MakeLocal("copy")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	copied := filepath.Join(dir.Path(), "store.db")
	if err := t.Copy(ctx, file, copied); err != nil {
		return err
	}
	_, err = publisher.Publish(copied)
	return err
}

// timeIsUp reports whether work ended because the job's time does: by itself, or by Slurm's warning.
func timeIsUp(ctx context.Context, err error, end time.Time) bool {
	if errors.Is(err, ErrTime) {
		return true
	}
	// The warning may come a minute early, and the work has taken some time to end.
	return ctx.Err() != nil && !end.IsZero() && time.Until(end) < slurm.Warning+time.Minute
}

func (t Task) requeue(ctx context.Context) error {
	if t.Job.Restarts >= MaxRestarts {
		return fmt.Errorf("part %d is not started again, because it was %d times: give tasks more time", t.Number, t.Job.Restarts)
	}
	t.Say("part %d: job %s of Slurm is requeued", t.Number, t.Job.Job)
	if err := slurm.Requeue(ctx, t.Job.Job); err != nil { // as in a container, which has no scontrol
		return fmt.Errorf("part %d goes on once a collector starts its task again: %w", t.Number, err)
	}
	return nil
}
