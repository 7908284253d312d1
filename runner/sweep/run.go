package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// Display shows how far a sweep is. Runs call it one at a time, and its Run may be called at
// any time.
type Display interface {
	// Ended takes a run that is complete.
	Ended(c results.Cell, run results.Run, p *Progress, now time.Time)
	// Run makes what shows one run.
	Run(m mixes.Mix, mode results.Mode, known profiles.Set) harness.Display
	Stop()
}

// Progress is how far a sweep is.
type Progress struct {
	Done, Total int           // runs, earlier ones included
	Names       results.Names // of the sweep's arms

	jobs     int         // runs at once
	left     map[arm]int // runs that are not done
	forecast *forecast
}

func newProgress(left []results.Cell, done, jobs int, f *forecast) *Progress {
	p := &Progress{Done: done, Total: done + len(left), jobs: jobs, forecast: f, left: map[arm]int{}}
	for _, c := range left {
		p.left[armOf(c)]++
	}
	return p
}

// ended takes a run that is complete.
func (p *Progress) ended(c results.Cell) {
	p.Done++
	p.left[armOf(c)]--
}

// Left is the time that the runs may take that are not done.
func (p *Progress) Left() time.Duration {
	var left time.Duration
	for a, runs := range p.left {
		left += time.Duration(runs) * p.forecast.of(a).duration()
	}
	return left / time.Duration(p.jobs)
}

// Call is one call that works on a planned sweep.
type Call struct {
	Plan    *Plan
	ID      int64
	Store   *store.Store
	Part    Part // of the plan, which this call does
	Jobs    int  // runs at once
	Restart int  // how often a batch system started this call again
	Limit   TimeLimit
	Now     func() time.Time
	Say     harness.Say // each line once: many runs have the same to say
	Display Display
	Log     harness.Log // of all runs; nil: none
	// Ended, if not nil, takes how many runs are done when one has ended. The next live run does not begin before it returns.
	Ended func(done, total int)
	// StoreFlag is the flag that the commands in hints need to find the store, such as
	// " --db runs.db"; "" for the default store.
	StoreFlag string
}

// RunAll makes calls one after another. Its error says how the sweeps begin that are left.
func RunAll(ctx context.Context, calls []*Call) error {
	for i, c := range calls {
		if err := c.Run(ctx, ""); err != nil {
			for _, later := range calls[i+1:] {
				err = fmt.Errorf("%w; caserun sweep --resume %d%s begins the next", err, later.ID, later.StoreFlag)
			}
			return err
		}
	}
	return nil
}

// Busy adds the remedy to the error of a sweep on which another process works.
func Busy(err error) error {
	var by store.HeldError
	if !errors.As(err, &by) {
		return err
	}
	return refuse("%w: wait for it, or if that is gone, add --force", by)
}

// takenOver is the end of a process that lost its sweep to a --force.
func takenOver(id int64, err error) error {
	what := fmt.Sprintf("another process took sweep %d over", id)
	if by := (store.HeldError{}); errors.As(err, &by) {
		what = fmt.Sprintf("%v by now, which took it over", by)
	}
	return refuse("%s: what this process had under way is interrupted", what)
}

// Run does what is left of the part. It holds the sweep meanwhile, and leaves it complete, or
// interrupted if another part is not done. The note is for the sweep's row.
func (s *Call) Run(ctx context.Context, note string) (err error) {
	host, _ := os.Hostname()           // as in provenance
	plan := context.WithoutCancel(ctx) // only runs end with the context
	if err := s.Store.ClaimSweep(plan, s.ID, host, os.Getpid(), note); err != nil {
		return Busy(err)
	}
	status := results.Interrupted
	defer func() {
		ended := s.Store.EndSweep(plan, s.ID, host, os.Getpid(), status)
		if errors.Is(err, store.ErrBusy) || err == nil && errors.Is(ended, store.ErrBusy) {
			err = takenOver(s.ID, errors.Join(err, ended))
			return
		}
		err = errors.Join(err, ended)
	}()
	left, done, err := Remaining(plan, s.Store, s.ID, s.Part)
	if err != nil {
		return err
	}
	times, err := s.Plan.Estimates(plan, s.Store)
	if err != nil {
		return err
	}
	again, err := s.again(plan, left, times)
	if err != nil {
		return err
	}
	s.Say = s.Say.Once()
	left, done = inOrder(left, again), done-len(again)
	progress := newProgress(left, done, s.Jobs, newForecast(s.Plan.Mode, times))
	progress.Names = s.Plan.names()
	if err := s.each(ctx, left, progress); err != nil {
		return fmt.Errorf("sweep %d stopped with %d of %d runs done; caserun sweep --resume %d%s%s resumes it: %w",
			s.ID, progress.Done, progress.Total, s.ID, s.Part.Flag(), s.StoreFlag, err)
	}
	if !s.Part.Whole() {
		if left, _, err = Remaining(plan, s.Store, s.ID, Part{}); err != nil || len(left) > 0 {
			return err
		}
	}
	status = results.Complete
	return nil
}

// each runs the cells, as many at once as Jobs says. Runs begin in the order of the cells, so
// that the runs' numbers do not depend on Jobs. The first error ends the runs under way and is
// returned. The time limit lets them end.
func (s *Call) each(parent context.Context, cells []results.Cell, progress *Progress) (err error) {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	var session nodes.Session
	defer func() { err = errors.Join(err, session.Close()) }()
	free := make(chan struct{}, s.Jobs)
	var under sync.WaitGroup
	var mu sync.Mutex // of progress, failed and the display
	var failed, broken, late error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = err
		}
	}
	forecast := progress.forecast
	for i, c := range cells {
		select {
		case <-ctx.Done():
		case free <- struct{}{}:
		}
		if ctx.Err() != nil {
			break
		}
		if i > 0 && s.Plan.Mode == results.Live {
			times, err := s.Plan.Estimates(ctx, s.Store)
			if err != nil {
				fail(err)
				break
			}
			forecast.use(times)
		}
		now, takes := s.Now(), forecast.of(armOf(c))
		if !s.Limit.fits(now, takes) {
			late = LimitError{next: c, takes: takes, left: s.Limit.left(now), limit: s.Limit.Total, first: i == 0}
			break
		}
		begun := make(chan struct{}) // then the next run begins, so numbers of runs have the plan's order
		under.Go(func() {
			defer func() { <-free }()
			tell := sync.OnceFunc(func() { close(begun) })
			defer tell()
			run, err := s.cell(ctx, &session, c, tell)
			if errors.As(err, new(schedulers.PolicyError)) { // the other schedulers' runs go on
				s.Say("%v", err)
				mu.Lock()
				defer mu.Unlock()
				broken = fmt.Errorf("runs whose scheduler failed are not done, and fail again as long as the program is the same: %w", err)
				return
			}
			if err != nil {
				fail(err)
				stop(err)
				return
			}
			end := s.Now()
			forecast.learn(c, run, end.Sub(now))
			mu.Lock()
			defer mu.Unlock()
			progress.ended(c)
			s.Display.Ended(c, run, progress, end)
			if s.Ended != nil {
				s.Ended(progress.Done, progress.Total)
			}
		})
		<-begun
	}
	under.Wait()
	s.Display.Stop()
	if parent.Err() != nil {
		return context.Cause(parent) // whatever a run made of it
	}
	if failed != nil {
		return failed
	}
	if broken != nil {
		return broken
	}
	return late
}

// cell does the run of one cell.
func (s *Call) cell(ctx context.Context, session *nodes.Session, c results.Cell, begun func()) (results.Run, error) {
	options := s.Plan.Options
	options.Seed = c.Seed
	display := func(m mixes.Mix, mode results.Mode) harness.Display { return s.Display.Run(m, mode, s.Plan.profiles) }
	o, err := session.Run(ctx, harness.Request{Configuration: harness.Configuration{Options: options, Sched: c.Scheduler, Probe: c.Probe}, Mix: s.Plan.mixOf(c), Profiles: s.Plan.profiles, History: s.Plan.history,
		Store: s.Store, Say: s.Say, Display: display, Log: s.Log, Cell: &c, Restart: s.Restart, Begun: begun})
	if err == nil && o.Run.Status != results.Complete {
		err = fmt.Errorf("run %d is %s", o.Run.ID, o.Run.Status)
	}
	return o.Run, err
}
