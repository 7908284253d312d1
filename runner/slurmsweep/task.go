package slurmsweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/sweep"
)

const (
	// planNumber is the number under which the file is published with which all parts begin.
	planNumber = 0
	// maxRestarts is how often a task is started again, for whatever reason.
	maxRestarts = 3
)

// errTime is wrapped by the error of work that stops because the job's time is short.
var errTime = errors.New("the remaining work does not fit into the job's time")

// Task does a task of a submission: it resumes the task's part from the latest published copy. It
// must be called in the task's Slurm job.
func Task(ctx context.Context, dir string, submission, number int, say harness.Say, display func(results.Mode) sweep.Display) error {
	s, err := readSubmission(dir, submission)
	if err != nil {
		return err
	}
	if number < 1 || number > len(s.Parts) {
		return fmt.Errorf("submission %d has tasks 1 to %d, not %d", submission, len(s.Parts), number)
	}
	job, err := slurm.Current()
	if err != nil {
		return err
	}
	if job == nil {
		return errors.New("this command is for the array jobs that caserun sweep --slurm submits: it is run by Slurm")
	}
	part := sweep.Part{K: s.Parts[number-1], N: s.Of}
	t := task{dir: dir, number: part.K, job: *job, every: s.Publish, takeOver: s.takeOver, copy: copyStore, say: say}
	t.work = func(ctx context.Context, file string, attempt int, end time.Time) error {
		return s.work(ctx, file, part, attempt, end, say, display)
	}
	return t.do(ctx)
}

// LimitToJob ends a call's limit, if it has none, before the Slurm job in which the call is. It returns how often Slurm has
// started the job again.
func LimitToJob(ctx context.Context, limit *sweep.TimeLimit, say harness.Say) (restarts int, err error) {
	job, err := slurm.Current()
	if err != nil {
		return 0, harness.Refuse(err)
	}
	if job == nil {
		return 0, nil
	}
	if limit.Total > 0 {
		return job.Restarts, nil
	}
	switch end, err := job.End(ctx); {
	case err != nil:
		say("when job %s of Slurm ends is not known, so --time-limit has no default: %v", job.Job, err)
	case !end.IsZero():
		limit.Until(end.Add(-slurm.Warning))
		say("job %s of Slurm ends at %s: the default of --time-limit is %s", job.Job, end.Format(time.DateTime), limit.Total.Round(time.Second))
	}
	return job.Restarts, nil
}

// work does what is left of a part in a store of its own.
func (s Submission) work(ctx context.Context, file string, part sweep.Part, attempt int, end time.Time, say harness.Say, display func(results.Mode) sweep.Display) (err error) {
	limit := sweep.TimeLimit{Began: time.Now()}
	if !end.IsZero() {
		limit.Until(end.Add(-slurm.Warning))
	}
	db, err := harness.OpenStore(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, err := db.LatestSweep(ctx)
	if err != nil {
		return err
	}
	p, note, err := sweep.Resume(ctx, w)
	if err != nil {
		return err
	}
	if err := p.SameSize(ctx, db, w.ID); err != nil {
		return err
	}
	if p.Mode == results.Live { // each attempt numbers its runs anew
		p.Options.Runs = filepath.Join(s.Dir, "runs", fmt.Sprintf("part-%d-%d", part.K, attempt))
	}
	call := sweep.Call{Plan: p, ID: w.ID, Store: db, Part: part, Jobs: s.AtOnce, Restart: attempt, Limit: limit, Now: time.Now, Say: say, Display: display(p.Mode)}
	err = call.Run(ctx, note)
	if errors.As(err, new(sweep.LimitError)) {
		err = fmt.Errorf("%w: %w", errTime, err)
	}
	return err
}

// takeOver makes a part's store ready: what an earlier attempt had under way when it published the store has ended, and
// what was added to the plan after an earlier submission comes in.
func (s Submission) takeOver(ctx context.Context, file string) error {
	if err := closeSweep(ctx, file); err != nil {
		return err
	}
	plan := filepath.Join(filepath.Dir(file), "plan.db")
	if _, err := fetch(s.Dir, planNumber, plan); err != nil {
		return err
	}
	_, err := store.Merge(ctx, file, []string{plan}, store.Merging{})
	return err
}

func closeSweep(ctx context.Context, file string) (err error) {
	db, err := harness.OpenStore(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, err := db.LatestSweep(ctx)
	if err != nil || w.Status != results.Running {
		return err
	}
	return harness.CloseSweep(db, w)
}

// task is the work of one task on its part.
type task struct {
	dir    string // of published files, which all nodes share
	number int    // of the part, from 1
	job    slurm.Allocation
	every  time.Duration // between copies
	// takeOver makes the file ready for work. It may replace the file, so the file is not copied meanwhile.
	takeOver func(ctx context.Context, file string) error
	// work continues the part in a file. It returns nil if the part is complete, and soon after ctx ends.
	// attempt is how often the part was begun before; no other process has the same. end is when the job's time
	// ends; zero: never, or unknown.
	work func(ctx context.Context, file string, attempt int, end time.Time) error
	// copy makes a checked copy of a file on which work is under way.
	copy func(ctx context.Context, file, to string) error
	say  func(format string, args ...any)
}

// do works on the part from where its latest published file is, and publishes copies meanwhile and at the
// end. If the job's time is up, the job is requeued. It is not where Slurm has ended the job before its
// time: then Slurm requeues it, or somebody has cancelled it.
func (t task) do(ctx context.Context) (err error) {
	if t.job.Restarts > maxRestarts {
		return fmt.Errorf("part %d: job %s of Slurm was started again %d times, at most %d are allowed: see why in its log", t.number, t.job.Job, t.job.Restarts, maxRestarts)
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
	publisher, err := begin(t.dir, t.number)
	if err != nil {
		return err
	}
	end, err := t.job.End(ctx) // it is now, once somebody has cancelled the job
	if err != nil {
		t.say("part %d: when job %s of Slurm ends is not known: %v", t.number, t.job.Job, err)
	}
	if err = t.takeOver(ctx, file); err == nil {
		err = t.workOn(ctx, publisher, file, end)
	}
	after := context.WithoutCancel(ctx)
	published := t.publish(after, publisher, file)
	if published == nil && err != nil && timeIsUp(ctx, err, end) {
		return errors.Join(err, t.requeue(after))
	}
	return errors.Join(err, published)
}

// workOn works on the part, and publishes copies meanwhile.
func (t task) workOn(ctx context.Context, publisher *publisher, file string, end time.Time) error {
	worked := make(chan error, 1)
	go func() { worked <- t.work(ctx, file, publisher.attempt, end) }()
	again := time.NewTicker(t.every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err := t.publish(ctx, publisher, file); err != nil && ctx.Err() == nil {
				t.say("part %d continues: %v", t.number, err)
			}
		case err := <-worked:
			return err
		}
	}
}

// fetch gets the part's latest file, or the plan.
func (t task) fetch(file string) error {
	p, err := fetch(t.dir, t.number, file)
	if errors.Is(err, fs.ErrNotExist) {
		p, err = fetch(t.dir, planNumber, file)
	}
	if err == nil {
		t.say("part %d resumes from %s", t.number, p.Path)
	}
	return err
}

func (t task) publish(ctx context.Context, publisher *publisher, file string) (err error) {
	dir, err := scratch.MakeLocal("copy")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	copied := filepath.Join(dir.Path(), "store.db")
	if err := t.copy(ctx, file, copied); err != nil {
		return err
	}
	_, err = publisher.publish(copied)
	return err
}

// timeIsUp reports whether work ended because the job's time does: by itself, or by Slurm's warning.
func timeIsUp(ctx context.Context, err error, end time.Time) bool {
	if errors.Is(err, errTime) {
		return true
	}
	// The warning may come a minute early, and the work has taken some time to end.
	return ctx.Err() != nil && !end.IsZero() && time.Until(end) < slurm.Warning+time.Minute
}

func (t task) requeue(ctx context.Context) error {
	if t.job.Restarts >= maxRestarts {
		return fmt.Errorf("part %d is not started again, because it was %d times: give tasks more time", t.number, t.job.Restarts)
	}
	t.say("part %d: job %s of Slurm is requeued", t.number, t.job.Job)
	if err := slurm.Requeue(ctx, t.job.Job); err != nil { // as in a container, which has no scontrol
		return fmt.Errorf("part %d resumes once a collector starts its task again: %w", t.number, err)
	}
	return nil
}

// copyStore copies a store in which runs may be under way.
func copyStore(ctx context.Context, file, to string) (err error) {
	db, err := store.OpenReadOnly(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.CopyRuns(ctx, to, store.Filter{Warmups: true, Duplicates: true, Excluded: true})
}
