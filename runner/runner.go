// Package runner drives a batch. A Batch is a state machine: it is handed events with their
// times and answers with commands, such as to start a job or to grant a task its device. An
// Executor makes the events and carries the commands out, with real processes or on the
// simulated node. The loop between them is the same for both.
package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/plan"
	"github.com/caserun/caserun/schedulers/policies"
)

// Executor runs the jobs of one batch, on real devices or on modelled ones. Each method except
// Run carries out the command of its name. The loop calls these methods one at a time, in the
// order of the commands, and without a lock held. They must not block, because the goroutine
// that posts an event carries out the commands that are due.
type Executor interface {
	// Run posts Arrive and then everything that happens, until l.Done is closed. When ctx
	// ends first it posts Cancel, waits until every job has ended, and returns the cause,
	// with what went wrong beside it (errors.Join).
	Run(ctx context.Context, l *Loop) error
	Start(job int, devices []int)
	Answer(d schedulers.Decision)
	Stop(job int)
	WakeAt(t time.Duration)
}

// Recoverer is an Executor whose MPS server can break: the fault or death of one of its
// clients can harm the others. Other executors need no recovery, and Config.MPS says nothing
// there.
type Recoverer interface {
	Executor
	AwaitServer()
	EndClient(job int)
}

// Revoker is an Executor whose processes can give device memory back. Under a scheduler that takes
// back it posts TaskActive before each Tick, for each task of which something has changed: what its process does, or
// what was asked or answered.
type Revoker interface {
	Executor
	Revoke(d schedulers.Decision)
}

// Informer is an Executor whose processes ask what the scheduler knows.
type Informer interface {
	Executor
	TellRoom(p schedulers.Process, bytes int64)
}

// Planner is an Executor beside which a scheduler can look for a plan. Plan calls search, which takes
// milliseconds to a second, or until the context of the batch ends, and posts the event that it returns.
type Planner interface {
	Executor
	Plan(search func() Event)
}

// Prioritizer is an Executor that can give jobs host priorities. CanPrioritize is asked once, before the
// batch: an error says why it cannot, and then the batch leaves priorities alone. Prioritize gives a job
// a nice level (schedulers.NiceLevels).
type Prioritizer interface {
	Executor
	CanPrioritize() error
	Prioritize(job, nice int)
}

// Recorder keeps records as they complete. Jobs, ranks, tasks and segments with the same key replace
// each other. Its methods do not block, except in virtual time, which can stand still.
type Recorder interface {
	Job(results.Job)
	Rank(results.Rank)
	Task(results.Task)
	Swap(results.Swap)
	Kernel(results.Kernel)
	Segment(results.Segment)
	Event(results.Event)
}

// Forgetful is a Recorder that keeps nothing. Recorders that keep only some records embed it.
type Forgetful struct{}

func (Forgetful) Job(results.Job)         {}
func (Forgetful) Rank(results.Rank)       {}
func (Forgetful) Task(results.Task)       {}
func (Forgetful) Swap(results.Swap)       {}
func (Forgetful) Kernel(results.Kernel)   {}
func (Forgetful) Segment(results.Segment) {}
func (Forgetful) Event(results.Event)     {}

// Config is what a batch is made of.
type Config struct {
	Jobs      []mixes.Job         // which nobody changes while the batch runs
	Open      bool                // jobs may be given while the batch runs (Given): it ends when its jobs have ended and NoMore has come
	Devices   []schedulers.Device // in node order
	Scheduler policies.Scheduler
	Workers   int             // jobs of a task-bound scheduler that run at once; 0 = all
	Timeout   time.Duration   // of each job from its start, unless it has its own; 0 = none
	Cores     int             // of the host; 0: unknown
	Seed      uint64          // of everything random in the run
	OOMFails  bool            // a job with a failed allocation is never ok-after-oom
	MPS       bool            // processes share a server, so that a fault can spread to neighbours (Recoverer)
	Notes     []results.Event // what is known of the jobs before the run; recorded after their rows
	// JobNumber and DeviceNumber are the numbers in texts where the batch is one node's part of a larger one; nil: its own.
	JobNumber, DeviceNumber func(int) int
	// GuardsManaged: processes are refused managed memory that exceeds what is free on a device, and jobs that would cause that under a
	// scheduler without knowledge of memory do not start.
	GuardsManaged bool
	// Grace is how long after its deadline a process may answer a revocation (engine.Config); 0: as long as it likes.
	Grace time.Duration
	// NoProgressAfter is how long nothing may happen, while all jobs that run wait, before
	// an event says so; 0: no event says so.
	NoProgressAfter time.Duration
	// StarvedAfter is how long a request waits for work without end before an event says so (engine.Engine.Starved); 0: no event
	// says so.
	StarvedAfter time.Duration
	// FaultsAlone says of jobs, by index, that they have faulted without neighbours
	// before, and where: "it faulted without neighbours in run 12".
	FaultsAlone map[int]string
	// Predictions say what each job is expected to do, nil where nothing is known of it. They are
	// for schedulers that plan, host priorities and the queue order by length; empty: the scheduler asks for none.
	Predictions []*schedulers.Prediction
	// Restartable reports whether a job may be started again (Restarter); nil: no job may.
	Restartable func(*mixes.Job) bool
	// Observe gets each event that was applied, in order, with the commands that answer it
	// (package replay). An event that cannot be is seen as a Tick, if its time alone brings commands.
	// It must not block or post events. nil: nobody observes.
	Observe func(Step)
}

// Step is an event with its time and the commands that answered it.
type Step struct {
	At       time.Duration
	Event    Event
	Commands []Command
}

// Run drives one batch to its end and returns its jobs as recorded. The error
// is the executor's; the jobs are valid beside it.
func Run(ctx context.Context, c Config, x Executor, rec Recorder) ([]results.Job, error) {
	l, err := NewLoop(ctx, c, x, rec)
	if err != nil {
		return nil, err
	}
	err = x.Run(ctx, l)
	jobs, broken := l.Finish()
	if broken != nil {
		return jobs, broken
	}
	return jobs, err
}

// NewLoop is the loop of a batch in which nothing has happened yet, on an executor that can do what its scheduler asks.
func NewLoop(ctx context.Context, c Config, x Executor, rec Recorder) (*Loop, error) {
	recoverer, canBreak := x.(Recoverer)
	c.MPS = c.MPS && canBreak
	revoker, givesBack := x.(Revoker)
	if c.Scheduler.Revokes && !givesBack {
		return nil, fmt.Errorf("run batch: %s takes memory back from running processes, which this node cannot do", c.Scheduler.Name)
	}
	planner, plans := x.(Planner)
	if c.Scheduler.Plans != nil && !plans {
		return nil, fmt.Errorf("run batch: %s plans ahead, which this node cannot do", c.Scheduler.Name)
	}
	prioritizer := c.prioritizer(x)
	restarter, again := x.(Restarter)
	if !again {
		c.Restartable = nil
	}
	b, err := NewBatch(c)
	if err != nil {
		return nil, err
	}
	l := &Loop{batch: b, observe: c.Observe, executor: x, recoverer: recoverer, revoker: revoker, planner: planner, prioritizer: prioritizer, restarter: restarter, recorder: rec, done: make(chan struct{})}
	l.search = func(c Search) Event {
		return Planned{plan.Search(c.Situation, c.Settings, func() bool { return ctx.Err() != nil })}
	}
	return l, nil
}

// Loop hands the events of a batch to its state machine and carries out the commands. Its
// methods may be called from any goroutine.
type Loop struct {
	executor    Executor
	recoverer   Recoverer          // the executor, where it is one
	revoker     Revoker            // the same
	planner     Planner            // the same
	search      func(Search) Event // for the planner
	prioritizer Prioritizer        // the same
	restarter   Restarter          // the same
	recorder    Recorder
	observe     func(Step)
	done        chan struct{}

	mu       sync.Mutex
	batch    *Batch
	outbox   []Command
	spare    []Command // where the next outbox goes
	carrying bool      // a goroutine carries out what is in the outbox
	finished bool      // done is closed
}

// Done is closed when every job has ended and all that followed was carried out.
func (l *Loop) Done() <-chan struct{} { return l.done }

// Standings are who waits and who holds now, and the names of some jobs whose kernels never end.
func (l *Loop) Standings(endless []int) Standings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.batch.standingsWith(endless)
}

// Post applies an event that happened at time at, which may be earlier than the time of an
// event before it. The commands are carried out before Post returns, unless another
// goroutine carries commands out: then that goroutine does it, behind those of earlier
// events. An event that cannot be is ignored.
func (l *Loop) Post(at time.Duration, e Event) { _ = l.TryPost(at, e) }

// TryPost is Post for an event that a job's process can get wrong. An error says that the
// event cannot be.
func (l *Loop) TryPost(at time.Duration, e Event) error {
	return l.postIf(at, e, func(*Batch) error { return nil })
}

// postIf is TryPost for an event that the batch may not allow. Nothing happens then.
func (l *Loop) postIf(at time.Duration, e Event, allows func(*Batch) error) error {
	l.mu.Lock()
	if err := allows(l.batch); err != nil {
		l.mu.Unlock()
		return err
	}
	commands, err := l.batch.Apply(at, e)
	if err != nil {
		e = Tick{}
	}
	if l.observe != nil && (err == nil || len(commands) > 0) {
		l.observe(Step{at, e, slices.Clone(commands)})
	}
	l.outbox = append(l.outbox, commands...)
	l.carryOut()
	l.mu.Unlock()
	return err
}

// carryOut empties the outbox, unless another goroutine does so already. The caller holds mu,
// which carryOut releases while it carries out commands.
func (l *Loop) carryOut() {
	if l.carrying {
		return
	}
	l.carrying = true
	for len(l.outbox) > 0 {
		commands := l.outbox
		l.outbox = l.spare[:0]
		l.mu.Unlock()
		for _, c := range commands {
			l.do(c)
		}
		l.mu.Lock()
		clear(commands)
		l.spare = commands
	}
	l.carrying = false
	if l.batch.Ended() && !l.finished {
		l.finished = true
		close(l.done)
	}
}

func (l *Loop) do(c Command) {
	switch c := c.(type) {
	case Start:
		l.executor.Start(c.Job, c.Devices)
	case Answer:
		l.executor.Answer(c.Decision)
	case Revoke:
		l.revoker.Revoke(c.Decision)
	case TellRoom:
		if informer, tells := l.executor.(Informer); tells {
			informer.TellRoom(c.Process, c.Bytes)
		}
	case Prioritize:
		l.prioritizer.Prioritize(c.Job, c.Nice)
	case Search:
		l.planner.Plan(func() Event { return l.search(c) })
	case Restart:
		l.restarter.Restart(c.Job, c.Try)
	case Stop:
		l.executor.Stop(c.Job)
	case WakeAt:
		l.executor.WakeAt(c.At)
	case AwaitServer:
		l.recoverer.AwaitServer()
	case EndClient:
		l.recoverer.EndClient(c.Job)
	case RecordJob:
		l.recorder.Job(c.Job)
	case RecordJobs:
		for j := range c.Jobs {
			l.recorder.Job(j)
		}
	case RecordRank:
		l.recorder.Rank(c.Rank)
	case RecordTask:
		l.recorder.Task(c.Task)
	case RecordSwap:
		l.recorder.Swap(c.Swap)
	case RecordEvent:
		l.recorder.Event(c.Event)
	}
}

// Finish attributes the faults of a batch that has ended, and returns the jobs as recorded, and an error of the
// batch's own accounting.
func (l *Loop) Finish() ([]results.Job, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outbox = append(l.outbox, l.batch.AttributeFaults()...)
	l.carryOut()
	return l.batch.Jobs(), l.batch.Err()
}
