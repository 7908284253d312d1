package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/live"
)

// tracker keeps a run's records as they come: in the store, in memory for the
// metrics at the end, and for the progress display. It is a runner.Recorder.
type tracker struct {
	*store.Writer
	session  *live.Session // the node, from begin to settle; nil where it is simulated
	arrival  time.Time     // of a live batch
	run      results.Run
	devices  []results.Device
	progress *progress

	mu       sync.Mutex
	segments []results.Segment
	kernels  []results.Kernel
}

// begin stores the run's row; records may come from then on. What follows its
// success must end in settle.
func (t *tracker) begin(ctx context.Context, r request, run results.Run, devices []results.Device) error {
	var err error
	if c := r.cell; c != nil {
		run.Sweep, run.Warmup, run.Repetition = &c.Sweep, c.Warmup, c.Repetition
		run.ID, err = r.store.BeginCell(ctx, *c, run, devices)
	} else {
		run.ID, err = r.store.BeginRun(ctx, run, devices)
	}
	if err != nil {
		return infrastructureError(err)
	}
	if r.begun != nil {
		r.begun()
	}
	t.Writer, t.run, t.devices = r.store.Writer(run.ID), run, devices
	t.progress = newProgress(r.stderr, r.mix, run.Mode, r.profiles)
	if c := r.cell; c != nil && !t.progress.animated {
		t.progress.silent = true // the sweep has a line for each run
	}
	return nil
}

func (t *tracker) Job(j results.Job) {
	t.Writer.Job(j)
	t.progress.job(j)
}

func (t *tracker) Event(e results.Event) {
	t.Writer.Event(e)
	t.progress.event(e)
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
	t.kernels = append(t.kernels, k)
}

// drive runs the batch and settles its record. A store that cannot take rows
// stops the run, and so does the end of what keeps the node as it was prepared:
// nothing that is measured then would count.
func (t *tracker) drive(ctx context.Context, c runner.Config, x runner.Executor) (outcome, error) {
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
	watch(t.Failed(), "the store did not take all rows")
	if t.session != nil {
		for name, ended := range t.session.Helpers() {
			watch(ended, name+" ended during the run")
		}
	}
	t.progress.shared = c.MPS
	t.progress.start()
	jobs, err := runner.Run(runCtx, c, x, t)
	t.progress.stop()
	close(over)
	watched.Wait()
	if x, ok := x.(*live.Executor); ok && t.run.Traced {
		t.run.Tracer = x.Traced()
	}
	return t.settle(runCtx, jobs, err)
}

// settle gives the node back and stores the run's final state. A run that failed,
// or whose node is not as it was, is interrupted whatever its jobs did. Events say
// why; what ended ctx has one already.
func (t *tracker) settle(ctx context.Context, jobs []results.Job, err error) (outcome, error) {
	problems := []error{err}
	if t.session != nil {
		var sampleErr error
		t.run.Sampler, sampleErr = t.session.Unsample()
		problems = append(problems, sampleErr, t.session.Close())
	}
	err = errors.Join(problems...)
	for _, p := range problems {
		if p = beside(p, context.Cause(ctx)); p != nil {
			t.Event(results.Event{AtS: t.elapsed(), Kind: results.EventFailed, Detail: oneLine(p)})
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.devices = results.WithFigures(t.run, t.devices, jobs, t.segments, t.kernels)
	for _, d := range t.devices {
		t.Device(d)
	}
	t.run.Metrics = results.Compute(t.run, t.devices, jobs, t.segments, t.kernels)
	t.run.Status = results.FinalStatus(t.run, jobs)
	if err != nil {
		t.run.Status = results.Interrupted
	}
	if t.run.Mode == results.Simulated && t.run.Status == results.Complete {
		t.run.Provenance.PID = nil // it is a function of its inputs
	}
	finishErr := t.Finish(context.WithoutCancel(ctx), t.run)
	o := outcome{t.run, jobs, t.devices}
	if finishErr != nil {
		return o, infrastructureError(errors.Join(finishErr, err))
	}
	if err != nil {
		err = fmt.Errorf("run %d is interrupted: %w", t.run.ID, err)
	}
	return o, infrastructureError(err)
}

// elapsed is the time since the batch arrived, in seconds; 0 before that, and in a
// simulated run, whose records hold no time of day.
func (t *tracker) elapsed() float64 {
	if t.arrival.IsZero() {
		return 0
	}
	return time.Since(t.arrival).Seconds()
}

// beside is what err has besides cause, with which it may be joined; nil if nothing.
func beside(err, cause error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if errors.Is(err, cause) {
			return nil
		}
		return err
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		rest = append(rest, beside(e, cause))
	}
	return errors.Join(rest...)
}

func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\t' }), "; ")
}
