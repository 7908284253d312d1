// Package runner drives a batch: it starts jobs, passes their tasks to the
// scheduler's engine, and records what happens. The same loop drives real
// processes and the simulated node; only the Executor differs.
package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// Unbound is the device of a job that is bound task by task.
const Unbound = -1

// Executor runs the jobs of one batch, on real devices or on modelled ones.
// Its methods are called with the batch locked: they must not block and must
// not call the batch back before they return.
type Executor interface {
	// Run calls b.Arrive and then delivers everything that happens to b until
	// b.Done is closed. When ctx ends first it calls b.Cancel, waits until
	// every job has ended, and returns the cause, with what went wrong beside it
	// (errors.Join).
	Run(ctx context.Context, b *Batch) error
	// Start begins a job; b.JobStarted or b.JobEnded follows. The job is
	// pinned to device unless that is Unbound.
	Start(job, device int)
	// Answer tells the process that waits in task id's begin or grow.
	Answer(d schedulers.Decision)
	// Stop ends a job that runs, or does nothing if it has ended just now; b.JobEnded
	// follows.
	Stop(job int)
	// Heal waits, for a limited time, until the MPS server is healthy after a
	// client's fault or death; b.Healed follows, and b.ServerBroken before it
	// where the server was not healthy.
	Heal()
	// WakeAt asks for a call of b.Tick at time t or soon after.
	WakeAt(t time.Duration)
}

// Recorder keeps records as they complete. Records with the same key replace
// each other. Its methods do not block.
type Recorder interface {
	Job(results.Job)
	Task(results.Task)
	Kernel(results.Kernel)
	Segment(results.Segment)
	Event(results.Event)
}

// Config is what a batch is made of.
type Config struct {
	Jobs      []mixes.Job
	Devices   []schedulers.Device // in node order
	Scheduler policies.Scheduler
	Workers   int             // jobs of a task-bound scheduler that run at once; 0 = all
	Timeout   time.Duration   // of each job from its start, unless it has its own; 0 = none
	MPS       bool            // processes share a server: a fault can spread to neighbours
	Notes     []results.Event // what is known of the jobs beforehand; recorded behind their rows
	// QuietAfter is how long nothing may happen, while all jobs that run wait, before an
	// event says so; 0: it is never said.
	QuietAfter time.Duration
	// FaultsAlone says of jobs, by index, that they have faulted without neighbours
	// before, and where: "it faulted without neighbours in run 12".
	FaultsAlone map[int]string
}

// Run drives one batch to its end and returns its jobs as recorded. The error
// is the executor's; the jobs are valid beside it.
func Run(ctx context.Context, c Config, x Executor, rec Recorder) ([]results.Job, error) {
	b, err := newBatch(c, x, rec)
	if err != nil {
		return nil, err
	}
	err = x.Run(ctx, b)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attributeFaults()
	jobs := make([]results.Job, len(b.jobs))
	for i, j := range b.jobs {
		jobs[i] = j.record
	}
	if b.broken != nil {
		return jobs, fmt.Errorf("scheduler: %w", b.broken)
	}
	return jobs, err
}
