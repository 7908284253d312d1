package slurmsweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurm"
)

// Progress shows how far a submission is: its tasks as Slurm has them, and the runs of the sweep that are
// merged, of so many.
type Progress func(tasks []slurm.Task, done, of int)

// Collect brings into a store what the tasks of a submission publish, until the sweep is complete or no task is left.
// The store must not be open. every is how often Slurm is asked.
func (s Submission) Collect(ctx context.Context, db string, every time.Duration, say harness.Say, show Progress) error {
	var tasks []slurm.Task
	var merged store.Merged
	c := collector{name: s.Name, dir: s.Dir, every: every, say: say}
	c.show = func(now []slurm.Task) {
		tasks = now
		show(tasks, merged.Done, merged.Cells)
	}
	c.mergeFiles = func(ctx context.Context, files []string) (complete bool, err error) {
		if merged, err = store.Merge(ctx, db, files, store.Merging{}); err != nil {
			return false, err
		}
		show(tasks, merged.Done, merged.Cells)
		return merged.Done == merged.Cells, nil
	}
	return c.collect(ctx)
}

// gather merges what was published so far into a store.
func (s Submission) gather(ctx context.Context, db string, say harness.Say) error {
	c := collector{dir: s.Dir, say: say}
	c.mergeFiles = func(ctx context.Context, files []string) (complete bool, err error) {
		_, err = store.Merge(ctx, db, files, store.Merging{})
		return false, err
	}
	_, err := c.merge(ctx, map[string]bool{})
	return err
}

// collector brings together what the tasks of an array publish.
type collector struct {
	name  string // of the slurm.Array
	dir   string // of published files
	every time.Duration
	// mergeFiles merges files into the result, and reports whether the result is complete. It gets each published
	// file at least once, on a local disk.
	mergeFiles func(ctx context.Context, files []string) (complete bool, err error)
	say        func(format string, args ...any)
	// show gets the tasks each time.
	show func(tasks []slurm.Task)
}

// collect merges until the result is complete. It has Slurm start tasks again that have failed or that
// Slurm holds. It may be stopped, and called again, at any time. If all tasks have ended and the result is
// not complete, the error names those that have failed.
func (c collector) collect(ctx context.Context) error {
	merged := map[string]bool{}
	moves := moves{known: map[string]slurm.Task{}, left: map[string]string{}, say: c.say}
	waits := map[string]bool{}
	idle := 0           // how often in succession no task was left
	var pause time.Time // until when files are left for later
	again := time.NewTicker(c.every)
	defer again.Stop()
	for {
		// Tasks are listed before parts, because a task publishes before it ends.
		tasks, err := slurm.List(ctx, c.name)
		switch {
		case errors.Is(err, slurm.ErrNoController):
			c.say("%v", err)
		case err != nil:
			return err
		default:
			c.show(tasks)
			moves.follow(ctx, tasks)
			c.sayWaits(tasks, waits)
			if idle++; c.tend(ctx, tasks) {
				idle = 0
			}
		}
		if began := time.Now(); idle > 0 || began.After(pause) {
			complete, err := c.merge(ctx, merged)
			if complete || err != nil {
				return err
			}
			// A merge may write the whole result, so that one merge for each file would take far too long.
			pause = time.Now().Add(10 * time.Since(began))
		}
		if idle > 1 { // twice, because a network file system may show a new file late
			return c.incomplete(tasks)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sayWaits says once for each reason, which said has, that tasks wait for something that may not end by itself.
func (c collector) sayWaits(tasks []slurm.Task, said map[string]bool) {
	for _, w := range slurm.Waits(tasks) {
		if w.Remedy != "" && !said[w.Reason] {
			c.say("%v", w)
			said[w.Reason] = true
		}
	}
}

// tend has tasks started again that would not be by themselves, and reports whether tasks are left.
func (c collector) tend(ctx context.Context, tasks []slurm.Task) (left bool) {
	for _, t := range tasks {
		var err error
		switch {
		case t.Held():
			c.say("task %d is released: %s", t.Number, t.Reason)
			err = slurm.Release(ctx, t.Job)
		case failed(t) && t.Restarts < maxRestarts:
			c.say("task %d is started again: %s on %s", t.Number, t.State, t.Nodes)
			err = slurm.Requeue(ctx, t.Job)
		case t.Ended():
			continue
		}
		if left = true; err != nil {
			c.say("%v", err)
		}
	}
	return left
}

// failed reports whether a task has ended without success, and not because somebody cancelled it.
func failed(t slurm.Task) bool { return t.Ended() && t.State != "COMPLETED" && t.State != "CANCELLED" }

// merge merges the published files that are not in merged yet.
func (c collector) merge(ctx context.Context, merged map[string]bool) (complete bool, err error) {
	all, err := listParts(c.dir)
	if err != nil {
		return false, err
	}
	dir, err := scratch.MakeLocal("merge")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	var files []string
	for _, p := range all {
		if merged[p.Path] || p.Number == planNumber {
			continue
		}
		file := filepath.Join(dir.Path(), filepath.Base(p.Path))
		err := p.copyTo(file)
		switch {
		case err == nil:
			files = append(files, file)
		case errors.Is(err, errBroken):
			c.say("%v", err)
		case errors.Is(err, fs.ErrNotExist): // a later one has its runs
		default:
			return false, err
		}
		merged[p.Path] = true
	}
	if len(files) == 0 {
		return false, nil
	}
	return c.mergeFiles(ctx, files)
}

func (c collector) incomplete(tasks []slurm.Task) error {
	var bad []string
	for _, t := range tasks {
		if t.State != "COMPLETED" {
			bad = append(bad, fmt.Sprintf("task %d (job %s) is %s", t.Number, t.Job, t.State))
		}
	}
	if len(bad) == 0 {
		bad = []string{"Slurm no longer knows what became of them, or they ended before they were done"}
	}
	return fmt.Errorf("no task of %s is left, and not all parts are complete: %s: see the tasks' logs, and submit again", c.name, strings.Join(bad, "; "))
}
