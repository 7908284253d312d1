package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// openStore opens the configured store for writing.
func openStore(c config) (*store.Store, error) {
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

// closeDeadRuns marks the runs of this host as interrupted whose harness was
// killed, with the metrics that their records still give.
func closeDeadRuns(s *store.Store) error {
	ctx := context.Background()
	open, err := s.Runs(ctx, store.Filter{Status: results.Running, Warmups: true})
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // as in provenance
	for _, run := range open {
		p := run.Provenance
		if p.PID == nil || p.Host != host || unix.Kill(*p.PID, 0) == nil {
			continue
		}
		if err := closeRun(s, run, fmt.Sprintf("process %d is gone: the run was killed", *p.PID)); err != nil {
			return err
		}
	}
	return nil
}

// closeDeadSweeps marks the sweeps of this host as interrupted whose process was
// killed, with what ran for them. A process has at most one sweep, so one that
// is said to be of this process is of a dead one that had its number.
func closeDeadSweeps(s *store.Store) error {
	ctx := context.Background()
	all, err := s.Sweeps(ctx)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // as in provenance
	for _, w := range all {
		if w.Status != results.Running || w.Host != host || (*w.PID != os.Getpid() && unix.Kill(*w.PID, 0) == nil) {
			continue
		}
		if err := closeSweep(s, w); err != nil {
			return err
		}
	}
	return nil
}

// closeSweep marks a sweep whose process is gone as interrupted.
func closeSweep(s *store.Store, w results.Sweep) error {
	ctx := context.Background()
	open, err := s.Runs(ctx, store.Filter{Sweep: w.ID, Status: results.Running, Warmups: true})
	if err != nil {
		return err
	}
	for _, run := range open {
		if err := closeRun(s, run, fmt.Sprintf("process %d is gone: the sweep was killed", *w.PID)); err != nil {
			return err
		}
	}
	return s.ReleaseSweep(ctx, w.ID, results.Interrupted)
}

// closeRun marks a run whose harness is gone as interrupted, with the metrics
// that its records still give.
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
	w.Event(results.Event{Kind: "killed", Detail: why})
	if err := w.Finish(ctx, run); err != nil {
		return fmt.Errorf("close run %d, whose process is gone: %w", run.ID, err)
	}
	return nil
}
