package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// tracker keeps a run's records as they come: in the store, in memory for the metrics at the
// end, and for the display. It is a Recorder.
type tracker struct {
	*store.Writer
	arrival time.Time // of a live batch
	run     results.Run
	devices []results.Device
	display Display
	log     Log
	strict  bool // a doubtful run is interrupted

	late atomic.Bool // the run was to stop a while ago

	mu       sync.Mutex
	tasks    map[taskKey]results.Task // in their latest state; of a simulated run only the tasks that swaps need
	swaps    []results.Swap
	segments []results.Segment
	kernels  results.Residence
	stills   []results.Event // of the harness, that are not recorded yet
	doubts   []string        // of the run
}

// taskKey names a task within its run.
type taskKey struct{ job, seq int }

// begin stores the run's row. Records may come from then on. After a success, settle must
// follow.
func (t *tracker) begin(ctx context.Context, r Request, run results.Run, devices []results.Device) error {
	var err error
	if c := r.Cell; c != nil {
		run.Sweep, run.Warmup, run.Repetition = &c.Sweep, c.Warmup, c.Repetition
		run.ID, err = r.Store.BeginCell(ctx, *c, r.Restart, run, devices)
	} else {
		run.ID, err = r.Store.BeginRun(ctx, run, devices)
	}
	if err != nil {
		return err
	}
	if r.Begun != nil {
		r.Begun()
	}
	t.strict = r.Strict
	t.Writer, t.run, t.devices = r.Store.Writer(run.ID), run, devices
	if run.Mode == results.Simulated {
		t.Wait() // virtual time stands still meanwhile
	}
	t.display, t.log = hidden{}, unlogged{}
	if r.Display != nil {
		t.display = r.Display(r.Mix, run.Mode)
	}
	if r.Log != nil {
		t.log = r.Log
	}
	t.log.Begun(run, devices)
	return nil
}

// hidden is the display of a run that nobody watches.
type hidden struct{}

func (hidden) Start(bool)          {}
func (hidden) Job(results.Job)     {}
func (hidden) Event(results.Event) {}
func (hidden) Stop()               {}

// unlogged is the log of a run that has none.
type unlogged struct{}

func (unlogged) Begun(results.Run, []results.Device) {}
func (unlogged) Job(int64, results.Job)              {}
func (unlogged) Rank(int64, results.Rank)            {}
func (unlogged) Task(int64, results.Task)            {}
func (unlogged) Swap(int64, results.Swap)            {}
func (unlogged) Event(int64, results.Event)          {}
func (unlogged) Ended(results.Run)                   {}

// stopLimit is how long a run that is to stop records jobs that never started. A large mix has so many that the store
// would take minutes. The run is interrupted, and its number of jobs is in its row.
const stopLimit = 200 * time.Millisecond

func (t *tracker) Job(j results.Job) {
	if j.StartS == nil && t.late.Load() {
		return
	}
	t.Writer.Job(j)
	t.log.Job(t.run.ID, j)
	t.display.Job(j)
}

// Task keeps the tasks of live runs, because only live runs have energy to divide among them. Of
// simulated runs it keeps what comes after the first swap: that has the release of each task with a
// swap.
func (t *tracker) Task(k results.Task) {
	t.Writer.Task(k)
	t.log.Task(t.run.ID, k)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run.Mode != results.Live && len(t.swaps) == 0 {
		return
	}
	if t.tasks == nil {
		t.tasks = map[taskKey]results.Task{}
	}
	t.tasks[taskKey{k.Job, k.Seq}] = k
}

func (t *tracker) Rank(r results.Rank) {
	t.Writer.Rank(r)
	t.log.Rank(t.run.ID, r)
}

func (t *tracker) Swap(s results.Swap) {
	t.Writer.Swap(s)
	t.log.Swap(t.run.ID, s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.swaps = append(t.swaps, s)
}

func (t *tracker) Event(e results.Event) {
	t.Writer.Event(e)
	t.log.Event(t.run.ID, e)
	t.display.Event(e)
	if e.Kind == results.EventDoubt {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.doubts = append(t.doubts, e.Detail)
	}
}

func (t *tracker) Segment(s results.Segment) {
	t.Writer.Segment(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.segments = append(t.segments, s)
}

func (t *tracker) Kernel(k results.Kernel) {
	t.Writer.Kernel(k)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kernels.Add(k)
}

// drive runs the batch and settles its record. The run stops if the store cannot take rows, or
// if a process ends that keeps the node prepared, because no measurement would count then.
func (t *tracker) drive(ctx context.Context, node Node, shared bool) (Outcome, error) {
	runCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := make(chan struct{})
	var watched sync.WaitGroup
	watch := func(closed <-chan struct{}, why string) {
		watched.Go(func() {
			select {
			case <-closed:
				stop(errors.New(why)) // settle has the details
			case <-over:
			}
		})
	}
	defer context.AfterFunc(runCtx, func() { time.AfterFunc(stopLimit, func() { t.late.Store(true) }) })()
	watch(t.Failed(), "the store did not take all rows")
	for name, ended := range node.Helpers() {
		watch(ended, name+" ended during the run")
	}
	if t.run.Mode == results.Live {
		t.arrival = time.Now()
	}
	t.display.Start(shared)
	var jobs []results.Job
	err := t.watched(func() (err error) {
		jobs, err = node.Execute(runCtx, t.run.ID, t.arrival)
		return err
	})
	t.display.Stop()
	close(over)
	watched.Wait()
	return t.settle(runCtx, node, jobs, err)
}

// watched executes a live batch and notes whether the harness stands still meanwhile. Virtual time does not stand still.
func (t *tracker) watched(execute func() error) error {
	if t.run.Mode != results.Live {
		return execute()
	}
	p, err := watchPulse(t.stoodStill)
	if err != nil {
		return err
	}
	defer p.Stop()
	return execute()
}

// settle gives the node back and stores the run's final state. A run that failed, or whose
// node is not as it was, is interrupted whatever its jobs did. An event gives each reason,
// except the cause of ctx's end, which has an event already.
func (t *tracker) settle(ctx context.Context, node Node, jobs []results.Job, err error) (Outcome, error) {
	problems := append([]error{err}, node.Close(&t.run)...)
	for _, e := range t.stills {
		t.Event(e)
	}
	if t.strict && len(t.doubts) > 0 {
		problems = append(problems, fmt.Errorf("--strict: %s", strings.Join(t.doubts, "; ")))
	}
	err = errors.Join(problems...)
	for _, p := range problems {
		if p = beside(p, context.Cause(ctx)); p != nil {
			t.Event(results.Event{AtS: t.elapsed(), Kind: results.EventFailed, Detail: oneLine(p)})
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run.Jobs = max(t.run.Jobs, len(jobs)) // some may have been given
	t.run.Doubts = strings.Join(t.doubts, "\n")
	t.devices = results.WithFigures(t.run, t.devices, jobs, t.segments, t.kernels)
	t.run.Metrics = results.Compute(t.run, t.devices, jobs, t.segments, t.kernels)
	t.run.Metrics.Swapping = results.NewSwapping(t.run, slices.Collect(maps.Values(t.tasks)), t.swaps)
	jobs = t.energy(jobs)
	for _, d := range t.devices {
		t.Device(d)
	}
	t.run.Status = results.FinalStatus(t.run, jobs)
	if err != nil {
		t.run.Status = results.Interrupted
	}
	if t.run.Mode == results.Simulated && t.run.Status == results.Complete {
		t.run.Provenance.PID = nil // the run is a function of its inputs
	}
	finishErr := t.Finish(context.WithoutCancel(ctx), t.run)
	o := Outcome{Run: t.run, Jobs: jobs, Devices: t.devices}
	logged := t.run
	if finishErr != nil {
		logged.Status = results.Interrupted
	}
	t.log.Ended(logged)
	if finishErr != nil {
		return o, errors.Join(finishErr, err)
	}
	if err != nil {
		err = fmt.Errorf("run %d is interrupted: %w", t.run.ID, err)
	}
	return o, err
}

// energy completes devices and metrics with their energy, and stores and returns the jobs with
// their shares of it. mu must be held.
func (t *tracker) energy(jobs []results.Job) []results.Job {
	if t.run.Mode != results.Live {
		return jobs
	}
	t.devices, jobs, t.run.Metrics.Energy = results.WithEnergy(t.run, t.devices, jobs, slices.Collect(maps.Values(t.tasks)), t.segments)
	for _, j := range jobs {
		if j.EnergyEstimateJ != nil {
			t.Writer.Job(j)
		}
	}
	for _, e := range results.CounterFalls(t.segments) {
		t.Event(e)
	}
	return jobs
}

// elapsed is the time since the batch arrived, in seconds. It is 0 before that and in a
// simulated run, whose records hold no time of day.
func (t *tracker) elapsed() float64 {
	if t.arrival.IsZero() {
		return 0
	}
	return time.Since(t.arrival).Seconds()
}

// beside is what err says in addition to cause, with which it may be joined; nil if nothing.
func beside(err, cause error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if errors.Is(err, cause) {
			return nil
		}
		return err
	}
	var others []error
	for _, e := range joined.Unwrap() {
		others = append(others, beside(e, cause))
	}
	return errors.Join(others...)
}

func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\t' }), "; ")
}
