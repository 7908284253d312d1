// Package live runs batches on the GPUs of this machine: real processes, a
// probe server, MPS, and NVML samples.
package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/control"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/runner/schedshm"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurmstep"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/userfile"
)

// Config is what an Executor needs besides the batch.
type Config struct {
	Jobs     []mixes.Job
	Programs []string      // the executable of each job, absolute
	Dirs     []string      // the working directory of each job
	UUIDs    []string      // devices in node order, as CUDA_VISIBLE_DEVICES takes them
	IDs      [][16]byte    // the same as bytes
	Checks   []mixes.Check // of each job
	Dir      string        // the run's directory, for output files and the probe's socket
	// ServerEnv, where not nil, has the variables with which a process becomes a client of the MPS that serves a device. Pipes has
	// the pipe directory of each device, where each has an MPS daemon of its own.
	ServerEnv   func(device int) []string
	Pipes       []string
	Preload     string   // libcase.so, absolute, for every job; "" = none
	Layer       *layered // what jobs run under; nil: nothing that a file describes
	Guard       bool     // nothing is mapped beside the jobs' allocations (native/lazy/memory/memory.cc)
	Tracer      string   // libcasetrace.so, absolute, for every job; "" = no tracing
	OutputLimit int64    // bytes that a job may write to its output files together; 0: any number
	Traces      Traces   // takes what the tracer recorded; nil without Tracer
	Grace       time.Duration
	// Clients, where not nil, is written to a state file, over which the jobs' processes decide
	// by themselves. They report how their requests end (policies.Scheduler).
	Clients *schedshm.Config
	// Swap, where not nil, is the host memory of a run whose scheduler takes memory back.
	Swap *swaparea.Area
	// Bursts: a task gives up its permission when it has nothing submitted; with Swap.
	Bursts bool
	// Checkpoint, where not empty, is the program that checkpoints whole jobs (runner.WholeJob).
	Checkpoint string
	// TaskBytes is the most that one task can have on a device. Capped: a device is to seem no larger than that.
	TaskBytes int64
	Capped    bool
	// Terminate, where not nil, asks the MPS server to end processes' work
	// before it is killed: kill -9 in mid-kernel harms its neighbours.
	Terminate func(pids ...int) error
	// MendServer, where not nil, puts back what leads to the MPS daemon, and reports whether it was spoiled. After an error
	// programs run without MPS.
	MendServer func() (mended bool, err error)
	// AwaitServer, where not nil, waits until the MPS server is healthy or ctx ends. If the
	// server is broken it says through broken what is wrong, and whether it is in state FAULT; devices are those of a server of
	// their own, nil: all.
	AwaitServer func(ctx context.Context, broken func(devices []int, why error, fault bool)) error
	// WatchServer, where not nil, calls seen for each device, by its place in node order, on
	// which the MPS server handles a fault. It returns when done is closed.
	WatchServer func(done <-chan struct{}, seen func(device int, at time.Time)) error
	// Users, where not nil, has the processes that use a device, by its place in node order, and the processor time that this took.
	Users func(device int) ([]nvml.Process, time.Duration, error)
	// Compares: the batch compares what processes use with what they are charged (runner.ComparesUse).
	Compares bool
	// Feed, where not nil, has more jobs. Admit finds what each of them needs, and notes what its record must say.
	Feed *harness.Feed
	// Desk, where not nil, has the seats of jobs' ranks in steps of Slurm.
	Desk *slurmstep.Desk
	// JobNumber and DeviceNumber are as in runner.Config.
	JobNumber, DeviceNumber func(int) int
	Admit                   func(*harness.Taken) (job, error)
	// Lost, where not nil, has each device that falls off the bus.
	Lost  <-chan Lost
	Run   int64 // its number, for who speaks to it
	Warn  func(format string, args ...any)
	Start time.Time // time zero of the batch; it must carry a monotonic reading
}

// Executor runs real processes. What they say to the scheduler the server of their probes posts.
type Executor struct {
	config   Config
	loop     *runner.Loop
	server   *probe.Server
	preload  string                             // what jobs find config.Preload by
	meeting  string                             // the directory of those in which ranks of a job meet
	links    string                             // the directory of links to it; "": there are none
	state    string                             // the state file of clients that decide; "": they do not
	spare    string                             // another name of the state file
	mending  sync.Mutex                         // held by mendState
	dir      string                             // for output files
	suspects []int                              // jobs that have run since files were looked at; under mu
	spoiled  int                                // files of the run that a job spoiled; under mu
	written  []written                          // output files of jobs that have ended; under mu
	cutOff   bool                               // nothing leads to the MPS daemon; under mu
	strays   map[int]func(job int) runner.Event // what processes said of their jobs, by session; under mu
	spawn    *spawner
	guard    *guard
	own      []int                                // PIDs of children from before the run; they stay theirs until this process collects them
	limit    time.Duration                        // clientLimit; tests set another
	killed   time.Duration                        // killLimit; the same
	after    func(time.Duration) <-chan time.Time // time.After; tests set another
	hurry    chan struct{}                        // asks for a look at the devices at once
	clean    sync.WaitGroup                       // goroutines that wait for a job or stop it

	cancelled atomic.Bool  // every job is being stopped: no neighbour needs to be spared
	escaped   atomic.Int64 // processes that had left their job's group, and were killed
	struck    atomic.Int64 // when a job last ended as by an interruption, in ns of x.now

	traced   results.Tracer // totals of the traces read so far; under mu
	outlived []error        // of jobs whose processes outlive them; under mu
	undead   map[int]bool   // PIDs of children that SIGKILL does not end; under mu
	lost     bool           // a device of the run is lost; under mu
	failed   error          // why the run failed; under mu

	priorities priorities // settled before the batch starts

	mu      sync.Mutex
	given   []job                           // that the feed had
	procs   [][]*process                    // of each job that has started, by rank
	bound   [][]int                         // devices of each job as the batch bound it; settled before the job starts
	timers  map[time.Duration]*time.Timer   // that have not fired
	tries   map[int]runner.Try              // of jobs that were started again
	awaited map[int]context.CancelCauseFunc // ends the wait of a job for the seats of its ranks
	wholes  map[int]*whole                  // of jobs that have been taken out
}

// NewExecutor makes the run's directory.
func NewExecutor(c Config) (*Executor, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	x := &Executor{config: c, dir: c.Dir, limit: clientLimit, killed: killLimit, after: time.After, hurry: make(chan struct{}, 1),
		timers: map[time.Duration]*time.Timer{}, awaited: map[int]context.CancelCauseFunc{}, wholes: map[int]*whole{}, procs: make([][]*process, len(c.Jobs)), bound: make([][]int, len(c.Jobs))}
	return x, nil
}

// listen opens the probe's socket and the state file, and settles what jobs preload. closes
// gives all that back.
func (x *Executor) listen() (closes func() error, err error) {
	dir, err := scratch.Make("run")
	if err != nil {
		return nil, err
	}
	if err = x.serve(filepath.Join(dir.Path(), "probe")); err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	x.meeting = dir.Path()
	links := filepath.Join(dir.Path(), "preload")
	if x.preload, err = preloadable(x.config.Preload, links); err != nil {
		x.config.Warn("programs linked with musl will not run, nor scripts that start one: %v", err)
	} else if x.preload != "" {
		x.links = links
	}
	dirs, err := x.makeState()
	dirs = append(dirs, dir)
	var user *control.Server
	if err == nil { // its path is shorter than that of the probes' socket
		user, err = control.Listen(dir.Path(), x.config.Run, x.control)
	}
	if err != nil {
		err = errors.Join(err, x.server.Close())
		x.remove(dirs...)
		return nil, err
	}
	return func() error {
		err := errors.Join(user.Close(), x.server.Close())
		x.remove(dirs...)
		return err
	}, nil
}

// control does what the user asks of a device while the batch runs.
func (x *Executor) control(do control.Verb, device int) (s runner.DeviceState, err error) {
	switch do {
	case control.Drain, control.Undo:
		err = x.loop.Drain(x.now(), device, do == control.Undo)
	case control.Look:
	default:
		err = fmt.Errorf("%q: want drain, undo or look", do)
	}
	if err != nil {
		return s, err
	}
	return x.loop.Device(device)
}

// makeState makes the state file where clients decide, in the first of the directories.
func (x *Executor) makeState() (dirs []*scratch.Dir, err error) {
	if x.config.Clients == nil {
		return nil, nil
	}
	for range 2 {
		dir, err := scratch.MakeInMemory("state")
		if err != nil {
			return dirs, err
		}
		dirs = append(dirs, dir)
	}
	x.state, x.spare = filepath.Join(dirs[0].Path(), "state"), filepath.Join(dirs[1].Path(), "state")
	if err := schedshm.Create(x.state, *x.config.Clients); err != nil {
		return dirs, err
	}
	if err := os.Link(x.state, x.spare); err != nil {
		return dirs, fmt.Errorf("make another name of the state file: %w", err)
	}
	return dirs, nil
}

func (x *Executor) now() time.Duration { return time.Since(x.config.Start) }

// note has the batch record an event of now.
func (x *Executor) note(e results.Event) {
	now := x.now()
	e.AtS = now.Seconds()
	x.loop.Post(now, runner.Note{Event: e})
}

// post posts an event that happens now.
func (x *Executor) post(e runner.Event) { x.loop.Post(x.now(), e) }

func (x *Executor) Run(ctx context.Context, l *runner.Loop) (err error) {
	x.loop = l
	makeThreads()
	closes, err := x.listen()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closes()) }()
	if x.guard, err = startGuard(x.noteGuard); err != nil {
		return err
	}
	defer x.guard.close()
	for _, s := range children() {
		x.own = append(x.own, s.pid)
	}
	if err := becomeSubreaper(); err != nil {
		return err
	}
	x.spawn = startSpawner()
	defer x.spawn.close()
	x.watchServer()
	x.clean.Go(x.watchFiles)
	x.clean.Go(x.watchDevices)
	x.clean.Go(x.watchUsers)
	x.post(runner.Arrive{})
	if x.config.Feed != nil {
		x.clean.Go(func() { x.takeJobs(ctx) })
	}
	select {
	case <-l.Done():
		x.awaitInterruption(ctx)
	case <-ctx.Done():
		x.cancelled.Store(true)
		x.post(runner.Cancel{Why: context.Cause(ctx).Error()})
		<-l.Done()
	}
	_ = x.mendServer() // before it is told to end; no job is left that needs it
	x.clean.Wait()
	x.tellWritten()
	x.killEscaped()
	if n := x.escaped.Load(); n > 0 {
		x.config.Warn("processes that had left their job's group and outlived it: %d, killed", n)
	}
	x.mu.Lock()
	for _, t := range x.timers {
		t.Stop()
	}
	x.mu.Unlock()
	return errors.Join(append(x.outlived, x.whyFailed(), context.Cause(ctx))...)
}

// heard is how long after its jobs an interruption reaches this program at the latest.
const heard = time.Second

// awaitInterruption waits at the end of a run for an interruption that has ended jobs of it. Slurm, for one, sends SIGTERM
// to all processes of an allocation, and jobs may die of it before this program has handled it. The run is then
// interrupted, whatever its jobs did.
func (x *Executor) awaitInterruption(ctx context.Context) {
	if at := time.Duration(x.struck.Load()); at > 0 {
		select {
		case <-ctx.Done():
		case <-x.after(at + heard - x.now()):
		}
	}
}

// Start carries out runner.Start.
func (x *Executor) Start(job int, devices []int) {
	x.mu.Lock()
	x.bound[job] = devices
	x.mu.Unlock()
	x.clean.Add(1)
	x.seatRanks(job, func(seats []*slurmstep.Seat, stopped error) {
		x.spawn.do(func() {
			started, err := x.launchRanks(job, devices, seats, stopped)
			x.mu.Lock()
			x.procs[job] = started
			x.mu.Unlock()
			go func() {
				defer x.clean.Done()
				if err != nil {
					x.abort(job, started, fmt.Errorf("start job %d (%s): %w", x.number(job), x.job(job).spec.Command(), err))
					return
				}
				said := runner.JobStarted{Job: job}
				if len(started) == 1 {
					said.PID = &started[0].pid
				}
				x.loop.Post(started[0].started, said)
				x.await(job, started)
				x.readTraces(job, started)
			}()
		})
	})
}

// AwaitServer carries out runner.AwaitServer.
func (x *Executor) AwaitServer() {
	x.clean.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		x.clean.Go(func() {
			select {
			case <-x.loop.Done(): // no job waits
				cancel()
			case <-ctx.Done():
			}
		})
		var err error
		if x.config.AwaitServer != nil {
			err = x.config.AwaitServer(ctx, func(devices []int, why error, fault bool) {
				x.post(runner.ServerBroken{Why: why, Fault: fault, Devices: devices})
			})
		}
		x.post(runner.ServerRecovered{Err: err})
	})
}

// watchDevices tells the batch of devices that are lost.
func (x *Executor) watchDevices() {
	for {
		select {
		case lost := <-x.config.Lost:
			x.mu.Lock()
			x.lost = true
			x.mu.Unlock()
			x.config.Warn("GPU %d of the run is lost: its jobs end, and no job goes there any more: %v", x.gpu(lost.Device), lost.Err)
			x.post(runner.DeviceLost{Device: lost.Device, Why: lost.Err.Error()})
		case <-x.loop.Done():
			return
		}
	}
}

func (x *Executor) watchServer() {
	if x.config.WatchServer == nil {
		return
	}
	x.clean.Go(func() {
		err := x.config.WatchServer(x.loop.Done(), func(device int, at time.Time) {
			if device < len(x.config.UUIDs) {
				x.loop.Post(at.Sub(x.config.Start), runner.ServerFaulted{Device: device})
			}
		})
		if err != nil {
			x.config.Warn("the MPS server's log cannot be read, so faults are seen only when jobs report them: %v", err)
		}
	})
}

// await waits until the job's processes and their children have ended and the server has read
// everything that they sent. An out-of-memory report counts even if the exit is seen first.
func (x *Executor) await(job int, ranks []*process) {
	var e runner.Exit
	several := x.job(job).several()
	if several {
		x.awaitRanks(job, ranks)
		x.post(runner.JobExited{Job: job})
	} else {
		p := ranks[0]
		e = x.awaitExit(job, p)
		x.post(runner.JobExited{Job: job})
		x.end(job, p)
	}
	x.awaitClients(job, ranks)
	x.leave(job, ranks)
	if !several {
		x.guard.forget(ranks[0])
	}
	x.post(runner.JobEnded{Job: job, Exit: e})
}

// end settles that a process and its group have ended.
func (x *Executor) end(job int, p *process) {
	close(p.ended)
	x.killRest(job, p)
}

// leave keeps what the processes of a job leave.
func (x *Executor) leave(job int, ranks []*process) {
	for _, p := range ranks {
		x.leaveOutput(p)
		x.settleStrays(job, p)
	}
	x.leaveRendezvous(job)
}

// awaitExit waits until a process and its group have ended.
func (x *Executor) awaitExit(job int, p *process) runner.Exit {
	e := p.wait()
	if p.step != nil {
		p.step.End()
	}
	if p.interrupted(e) {
		x.struck.Store(int64(x.now()))
	}
	switch {
	case errors.Is(e.Err, errUndead):
		x.abandon(p.pid)
		x.noteOutlived(job, "a process of it that SIGKILL does not end")
	case p.left:
		x.noteOutlived(job, "a process of it that runs as another user")
	}
	x.settleOutput(job, p)
	of := x.job(job)
	check := of.check
	e.Checked, e.Wrong = check.Passes, check.Failed != 0 && e.Status != nil && *e.Status == check.Failed
	if e.Status != nil && *e.Status != 0 && userfile.HasCR(of.program) { // as env and a shell end of it
		e.Hint = userfile.CR
	}
	return e
}

// Plan carries out runner.Search.
func (x *Executor) Plan(search func() runner.Event) { go func() { x.post(search()) }() }

// WakeAt carries out runner.WakeAt.
func (x *Executor) WakeAt(t time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timers[t] == nil {
		x.timers[t] = time.AfterFunc(t-x.now(), func() {
			x.mu.Lock()
			delete(x.timers, t)
			x.mu.Unlock()
			x.server.PostActivity()
			x.tellWhole()
			x.post(runner.Tick{})
		})
	}
}

var (
	_ runner.Recoverer   = (*Executor)(nil)
	_ runner.Prioritizer = (*Executor)(nil)
)
