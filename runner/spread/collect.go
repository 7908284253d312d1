package spread

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/caserun/caserun/results/parts"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurm"
)

// Collector brings together what the tasks of an array publish.
type Collector struct {
	Name  string // of the slurm.Array
	Dir   string // of published files
	Every time.Duration
	// Merge merges files into the result, and reports whether the result is complete. It gets each published
	// file at least once, on a local disk.
	Merge func(ctx context.Context, files []string) (complete bool, err error)
	Say   func(format string, args ...any)
	// Show is told of the tasks each time.
	Show func(tasks []slurm.Task)
}

// Collect merges until the result is complete. It has Slurm start tasks again that have failed or that
// Slurm holds. It may be stopped, and called again, at any time. If all tasks have ended and the result is
// not complete, the error names those that have failed.
func (c Collector) Collect(ctx context.Context) error {
	merged := map[string]bool{}
	moves := moves{known: map[string]slurm.Task{}, left: map[string]string{}, say: c.Say}
	waits := map[string]bool{}
	idle := 0           // how often in succession no task was left
	var pause time.Time // until when files are left for later
	again := time.NewTicker(c.Every)
	defer again.Stop()
	for {
		// Tasks are listed before parts, because a task publishes before it ends.
		tasks, err := slurm.List(ctx, c.Name)
		switch {
		case errors.Is(err, slurm.ErrNoController):
			c.Say("%v", err)
		case err != nil:
			return err
		default:
			c.Show(tasks)
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
func (c Collector) sayWaits(tasks []slurm.Task, said map[string]bool) {
	for _, w := range slurm.Waits(tasks) {
		if w.Remedy != "" && !said[w.Reason] {
			c.Say("%v", w)
			said[w.Reason] = true
		}
	}
}

// Gather merges what is published now, and reports whether the result is complete.
func (c Collector) Gather(ctx context.Context) (complete bool, err error) {
	return c.merge(ctx, map[string]bool{})
}

// tend has tasks started again that would not be by themselves, and reports whether tasks are left.
func (c Collector) tend(ctx context.Context, tasks []slurm.Task) (left bool) {
	for _, t := range tasks {
		var err error
		switch {
		case t.Held():
			c.Say("task %d is released: %s", t.Number, t.Reason)
			err = slurm.Release(ctx, t.Job)
		case failed(t) && t.Restarts < MaxRestarts:
			c.Say("task %d is started again: %s on %s", t.Number, t.State, t.Nodes)
			err = slurm.Requeue(ctx, t.Job)
		case t.Ended():
			continue
		}
		if left = true; err != nil {
			c.Say("%v", err)
		}
	}
	return left
}

// failed reports whether a task has ended without success, and not because somebody cancelled it.
func failed(t slurm.Task) bool { return t.Ended() && t.State != "COMPLETED" && t.State != "CANCELLED" }

// merge merges the published files that are not in merged yet.
func (c Collector) merge(ctx context.Context, merged map[string]bool) (complete bool, err error) {
	all, err := parts.List(c.Dir)
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
		if merged[p.Path] || p.Number == Plan {
			continue
		}
		file := filepath.Join(dir.Path(), filepath.Base(p.Path))
		err := p.CopyTo(file)
		switch {
		case err == nil:
			files = append(files, file)
		case errors.Is(err, parts.ErrBroken):
			c.Say("%v", err)
		case errors.Is(err, fs.ErrNotExist): // a later one has its runs
		default:
			return false, err
		}
		merged[p.Path] = true
	}
	if len(files) == 0 {
		return false, nil
	}
	return c.Merge(ctx, files)
}

func (c Collector) incomplete(tasks []slurm.Task) error {
	var bad []string
	for _, t := range tasks {
		if t.State != "COMPLETED" {
			bad = append(bad, fmt.Sprintf("task %d (job %s) is %s", t.Number, t.Job, t.State))
		}
	}
	if len(bad) == 0 {
		bad = []string{"Slurm no longer knows what became of them, or they ended before they were done"}
	}
	return fmt.Errorf("no task of %s is left, and not all parts are complete: %s: see the tasks' logs, and submit again", c.Name, strings.Join(bad, "; "))
}
