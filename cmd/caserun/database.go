package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
)

// openStore opens the configured store for writing.
func openStore(c config) (*store.Store, error) {
	if bundle.Is(c.DB) {
		return nil, usageError(fmt.Errorf("%s is a bundle, which nothing is added to: tar xzkf %[1]s caserun.db takes its store out, for --db caserun.db", c.DB))
	}
	if dir := filepath.Dir(c.DB); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, infrastructureError(fmt.Errorf("store: %w", err))
		}
	}
	s, err := store.Open(c.DB)
	if err != nil {
		return nil, infrastructureError(err)
	}
	if err := errors.Join(closeDeadRuns(s), closeDeadSweeps(s)); err != nil {
		return nil, infrastructureError(errors.Join(err, s.Close()))
	}
	return s, nil
}

// works reports whether the process of a run or a sweep that is said to be under
// way still lives. A signal may not reach another user's process, which lives all
// the same. A process opens the store before it begins anything, so what is said to
// be its own is of a dead one that had its number.
func works(host string, pid int) bool {
	here, _ := os.Hostname() // as in provenance
	if host != here {
		return true // for all that is known here
	}
	err := unix.Kill(pid, 0)
	return pid != os.Getpid() && (err == nil || errors.Is(err, unix.EPERM))
}

// standing is a sweep's status, which its process may not have lived to store.
func standing(w results.Sweep) results.Status {
	if w.Status == results.Running && !works(w.Host, *w.PID) {
		return results.Interrupted
	}
	return w.Status
}

// closeDeadRuns marks the runs of this host as interrupted that their process did
// not finish, with the metrics that their jobs still give.
func closeDeadRuns(s *store.Store) error {
	ctx := context.Background()
	open, err := s.Runs(ctx, store.Filter{Status: results.Running, Warmups: true})
	if err != nil {
		return err
	}
	for _, run := range open {
		p := run.Provenance
		if p.PID == nil || works(p.Host, *p.PID) {
			continue
		}
		if err := closeRun(s, run, fmt.Sprintf("process %d ended without finishing the run", *p.PID)); err != nil {
			return err
		}
	}
	return nil
}

// closeDeadSweeps does the same for sweeps, with what ran for them.
func closeDeadSweeps(s *store.Store) error {
	ctx := context.Background()
	all, err := s.Sweeps(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if standing(w) == w.Status {
			continue
		}
		if err := closeSweep(s, w); err != nil {
			return err
		}
	}
	return nil
}

// closeSweep marks a sweep that its process did not finish as interrupted. The
// process may live: it ends the sweep itself when it finds its runs closed, and
// another process may take the sweep over meanwhile. Both are left as they are.
func closeSweep(s *store.Store, w results.Sweep) error {
	ctx := context.Background()
	open, err := s.Runs(ctx, store.Filter{Sweep: w.ID, Status: results.Running, Warmups: true})
	if err != nil {
		return err
	}
	for _, run := range open {
		if p := run.Provenance; p.Host != w.Host || p.PID == nil || *p.PID != *w.PID {
			continue
		}
		if err := closeRun(s, run, fmt.Sprintf("process %d ended without finishing the sweep", *w.PID)); err != nil {
			return err
		}
	}
	err = s.EndSweep(ctx, w.ID, w.Host, *w.PID, results.Interrupted)
	if errors.Is(err, store.ErrBusy) {
		return nil
	}
	return err
}

// closeRun marks a run that its process did not finish as interrupted, with the
// metrics that its jobs still give.
func closeRun(s *store.Store, run results.Run, why string) error {
	ctx := context.Background()
	jobs, err := s.Jobs(ctx, run.ID)
	if err != nil {
		return err
	}
	run.Status = results.Interrupted
	run.Metrics = results.Compute(run, nil, jobs, nil, nil)
	w, err := s.Resume(ctx, run.ID)
	if err != nil {
		return err
	}
	w.Event(results.Event{Kind: results.EventKilled, Detail: why})
	if err := w.Finish(ctx, run); err != nil {
		return fmt.Errorf("close run %d, which its process did not finish: %w", run.ID, err)
	}
	return nil
}
