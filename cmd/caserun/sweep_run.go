package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// sweepRun works on a planned sweep.
type sweepRun struct {
	*matrix
	id     int64
	store  *store.Store
	jobs   int // runs at once
	limit  timeLimit
	now    func() time.Time
	stderr io.Writer
}

// remaining are the cells of a sweep without a complete run, in the order of
// execution, and the number of the others.
func remaining(ctx context.Context, db *store.Store, id int64) (left []results.Cell, done int, err error) {
	cells, err := db.Cells(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	runs, err := db.Runs(ctx, store.Filter{Sweep: id, Status: results.Complete, Warmups: true})
	if err != nil {
		return nil, 0, err
	}
	complete := map[int64]bool{}
	for _, r := range runs {
		complete[r.ID] = true
	}
	for _, c := range cells {
		if c.Run == nil || !complete[*c.Run] {
			left = append(left, c)
		}
	}
	return left, len(cells) - len(left), nil
}

// busy gives the error of a sweep that another process works on its exit status,
// and the remedy.
func busy(err error) error {
	var by store.HeldError
	if !errors.As(err, &by) {
		return infrastructureError(err)
	}
	return usageError(fmt.Errorf("%w: wait for it, or if that is gone, add --force", by))
}

// takenOver is the end of a process that lost its sweep to a --force.
func takenOver(id int64, err error) error {
	what := fmt.Sprintf("another process took sweep %d over", id)
	if by := (store.HeldError{}); errors.As(err, &by) {
		what = fmt.Sprintf("%v by now, which took it over", by)
	}
	return usageError(errors.New(what + ": what this process had under way is interrupted"))
}

// run does what is left of the sweep. It holds the sweep meanwhile, and leaves
// it complete or interrupted.
func (s *sweepRun) run(ctx context.Context, note string) (err error) {
	host, _ := os.Hostname()           // as in provenance
	plan := context.WithoutCancel(ctx) // each heeds the context
	if err := s.store.ClaimSweep(plan, s.id, host, os.Getpid(), note); err != nil {
		return busy(err)
	}
	status := results.Interrupted
	defer func() {
		ended := s.store.EndSweep(plan, s.id, host, os.Getpid(), status)
		if errors.Is(err, store.ErrBusy) || err == nil && errors.Is(ended, store.ErrBusy) {
			err = takenOver(s.id, errors.Join(err, ended))
			return
		}
		err = errors.Join(err, infrastructureError(ended))
	}()
	left, done, err := remaining(plan, s.store, s.id)
	if err != nil {
		return infrastructureError(err)
	}
	times, err := s.estimates(plan, s.store)
	if err != nil {
		return err
	}
	progress := newSweepProgress(s.stderr, left, done, s.jobs, newForecast(s.mode, times), s.now())
	if err := s.each(ctx, left, progress); err != nil {
		return fmt.Errorf("sweep %d stopped with %d of %d runs done; caserun sweep --resume %d%s goes on: %w",
			s.id, progress.done, progress.total, s.id, s.config.storeFlag(), err)
	}
	status = results.Complete
	return nil
}

// each runs the cells, jobs of them at once. Runs begin in the order of the
// cells, so that the runs' numbers do not depend on jobs. The first error ends
// the runs under way and is returned; the time limit lets them end.
func (s *sweepRun) each(parent context.Context, cells []results.Cell, progress *sweepProgress) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	free := make(chan struct{}, s.jobs)
	var under sync.WaitGroup
	var once sync.Once
	var failed, late error
	for i, c := range cells {
		select {
		case <-ctx.Done():
		case free <- struct{}{}:
		}
		if ctx.Err() != nil {
			break
		}
		if i > 0 && s.mode == results.Live {
			times, err := s.estimates(ctx, s.store)
			if err != nil {
				once.Do(func() { failed = err })
				break
			}
			progress.forecast.use(times)
		}
		now, takes := s.now(), progress.forecast.of(armOf(c))
		if !s.limit.fits(now, takes) {
			late = withStatus(exitNothing, limitError{next: c, takes: takes, left: s.limit.left(now), limit: s.limit.total, first: i == 0})
			break
		}
		begun := make(chan struct{})
		under.Go(func() {
			defer func() { <-free }()
			tell := sync.OnceFunc(func() { close(begun) })
			defer tell()
			o, err := s.cell(ctx, c, tell)
			if err != nil {
				once.Do(func() { failed = err })
				stop(err)
				return
			}
			end := s.now()
			progress.forecast.learn(c, o.run, end.Sub(now))
			progress.ended(c, o.run, end)
		})
		<-begun
	}
	under.Wait()
	progress.stop()
	var signal signalError
	if errors.As(context.Cause(parent), &signal) { // whatever a run made of it
		return withStatus(signal.status(), signal)
	}
	if err := errors.Join(failed, infrastructureError(parent.Err())); err != nil {
		return err
	}
	return late
}

// cell does the run of one cell.
func (s *sweepRun) cell(ctx context.Context, c results.Cell, begun func()) (outcome, error) {
	settings := s.config
	settings.Sched, settings.Seed = c.Scheduler, c.Seed
	o, err := execute(ctx, request{config: settings, mix: s.mixOf(c), profiles: s.profiles, store: s.store,
		stderr: s.stderr, cell: &c, begun: begun})
	if err == nil && o.run.Status != results.Complete {
		err = infrastructureError(fmt.Errorf("run %d is %s", o.run.ID, o.run.Status))
	}
	return o, err
}
