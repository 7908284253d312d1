package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/output"
)

// OpenStore opens a store for writing, and makes it where there is none, in a directory that exists. Runs and sweeps whose
// processes died become interrupted.
func OpenStore(path string) (*store.Store, error) { return OpenStoreTelling(path, nil) }

// OpenStoreTelling is OpenStore for a user who is told what is waited for, when that takes more than a second.
func OpenStoreTelling(path string, say Say) (*store.Store, error) {
	if bundle.Is(path) {
		return nil, Refuse(fmt.Errorf("%s is a bundle, which is read only: take its store out with tar xzkf %[1]s caserun.db, and name that with --db caserun.db", path))
	}
	if err := cmp.Or(userfile.CheckLink(path), userfile.CheckDirectory(path)); err != nil {
		return nil, Refuse(fmt.Errorf("store %s: %w", path, err))
	}
	var tell func(string)
	if say != nil {
		tell = func(what string) { say("%s", what) }
	}
	s, err := store.OpenTelling(path, tell)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(closeDeadRuns(s), closeDeadSweeps(s)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// closeDeadRuns marks this host's runs as interrupted whose processes did not finish them. They
// keep the metrics that their jobs give.
func closeDeadRuns(s *store.Store) error {
	ctx := context.Background()
	open, err := s.Runs(ctx, store.Filter{Status: results.Running, Warmups: true, Unchecked: true})
	if err != nil {
		return err
	}
	for _, run := range open {
		p := run.Provenance
		if p.PID == nil || store.HolderLives(p.Host, *p.PID) {
			continue
		}
		if err := closeRun(s, run, fmt.Sprintf("process %d ended without finishing the run", *p.PID)); err != nil {
			return err
		}
	}
	return nil
}

// closeDeadSweeps does the same for sweeps and their runs.
func closeDeadSweeps(s *store.Store) error {
	all, err := s.Sweeps(context.Background())
	if err != nil {
		return err
	}
	for _, w := range all {
		if store.Standing(w) == w.Status {
			continue
		}
		if err := CloseSweep(s, w); err != nil {
			return err
		}
	}
	return nil
}

// CloseSweep marks a sweep that its process did not finish as interrupted. If the process
// lives, it ends the sweep itself when it finds its runs closed. Another process may take the
// sweep over meanwhile. CloseSweep leaves both as they are.
func CloseSweep(s *store.Store, w results.Sweep) error {
	ctx := context.Background()
	open, err := s.Runs(ctx, store.Filter{Sweep: w.ID, Status: results.Running, Warmups: true, Unchecked: true})
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

// closeRun marks a run that its process did not finish as interrupted.
func closeRun(s *store.Store, run results.Run, why string) error {
	ctx := context.Background()
	jobs, err := s.Jobs(ctx, run.ID)
	if err != nil {
		return err
	}
	run.Status = results.Interrupted
	run.Metrics = results.Compute(run, nil, jobs, nil, results.Residence{})
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

// SpareStore refuses a file to write that is one of the store's.
func SpareStore(db, path string) error {
	if path == "" {
		return nil
	}
	for _, own := range store.Files(db) {
		if output.Same(path, own) || output.Same(filepath.Dir(path), own) {
			return Refuse(fmt.Errorf("write %s: that is a file of the store %s: name another file", path, db))
		}
	}
	return nil
}
