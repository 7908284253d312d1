package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// Config is what a simulated batch needs besides its node.
type Config struct {
	Node Node
	Jobs []mixes.Job
	MPS  bool
	Seed uint64
	// Profiles is what the jobs do; a job that is not there is an error.
	Profiles profiles.Set
	Revokes  bool    // the scheduler takes memory back
	Noise    float64 // σ of the logarithm of each phase's length; 0 = none
}

// Executor is a simulated node that runs one batch. It implements
// runner.Executor.
type Executor struct {
	calendar
	config  Config
	loop    *runner.Loop
	rec     runner.Recorder
	cores   *pool
	devices []*device
	procs   []*process
}

type device struct {
	index     int
	free      int64
	managed   []*object // the least recently used first
	sms       *pool
	link      *pool
	busySince time.Duration
	busy      float64 // share of SMs in use since busySince
}

// NewExecutor prepares the batch; a job without a profile is an error that
// names it.
func NewExecutor(c Config, rec runner.Recorder) (*Executor, error) {
	x := &Executor{config: c, rec: rec, cores: &pool{capacity: float64(c.Node.Cores())}}
	for i := range c.Node.Count {
		d := &device{index: i, free: c.Node.Model.MemoryBytes, sms: &pool{capacity: 1}, link: &pool{capacity: 1}}
		if c.MPS {
			d.free -= runner.ServerBytes
		}
		x.devices = append(x.devices, d)
	}
	for i, j := range c.Jobs {
		p, err := c.Profiles.Lookup(j)
		if err != nil {
			return nil, fmt.Errorf("simulate job %d (%s): %w", i, j.Command(), err)
		}
		noise := rand.New(rand.NewPCG(c.Seed, uint64(i)))
		steps := p.Steps(j.Footprint)
		x.procs = append(x.procs, &process{x: x, index: i, job: j, listed: steps, divided: p.Rounds, device: runner.Unbound, movable: c.Revokes && movable(steps),
			stretch: func() float64 { return math.Exp(c.Noise * noise.NormFloat64()) }})
	}
	return x, nil
}

// Run implements runner.Executor.
func (x *Executor) Run(ctx context.Context, l *runner.Loop) error {
	x.loop = l
	x.post(runner.Arrive{})
	for !closed(l.Done()) {
		if ctx.Err() != nil {
			x.post(runner.Cancel{Why: context.Cause(ctx).Error()})
		}
		if !x.step() && !closed(l.Done()) {
			return errors.New("simulate: nothing is due and jobs are left: they wait for each other")
		}
	}
	for _, d := range x.devices {
		x.note(d)
	}
	return context.Cause(ctx)
}

func (x *Executor) post(e runner.Event) { x.loop.Post(x.now, e) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Start carries out runner.Start.
func (x *Executor) Start(job, device int) {
	p := x.procs[job]
	p.device = device
	x.at(x.now, p.start)
}

// Answer carries out runner.Answer.
func (x *Executor) Answer(d schedulers.Decision) {
	p := x.procs[d.Task.Job]
	x.at(x.now, func() { p.answered(d) })
}

// Revoke carries out runner.Revoke.
func (x *Executor) Revoke(d schedulers.Decision) {
	p := x.procs[d.Task.Job]
	x.at(x.now, func() { p.revoke(d) })
}

// searchTime is how long a search for a plan lasts. The time that one takes here differs from run to
// run, and with it the results would.
const searchTime = 50 * time.Millisecond

// Plan carries out runner.Search.
func (x *Executor) Plan(search func() runner.Event) {
	x.at(x.now+searchTime, func() { x.post(search()) })
}

// Stop carries out runner.Stop.
func (x *Executor) Stop(job int) {
	x.at(x.now, func() { x.procs[job].exit(runner.Exit{Signal: new("SIGKILL")}) })
}

// WakeAt carries out runner.WakeAt.
func (x *Executor) WakeAt(t time.Duration) {
	x.at(t, func() {
		for _, p := range x.procs {
			p.tellActivity()
		}
		x.post(runner.Tick{})
	})
}

// share puts work into a pool, which takes solo seconds alone there. done is called at its end.
func (x *Executor) share(p *pool, demand, solo float64, done func()) *activity {
	a := &activity{demand: demand, left: solo, done: done}
	p.add(a, x.now)
	x.expect(p)
	return a
}

// expect schedules the pool's next completion. A change of the pool meanwhile
// makes the event stale.
func (x *Executor) expect(p *pool) {
	at, ok := p.nextCompletion()
	if !ok {
		return
	}
	generation := p.generation
	x.at(at, func() {
		if p.generation != generation {
			return
		}
		for _, a := range p.finished(x.now) {
			a.done()
		}
		x.expect(p)
	})
}

func (x *Executor) leave(p *pool, a *activity) {
	p.remove(a, x.now)
	x.expect(p)
}

// note records the device's SM use so far and takes up the present one.
func (x *Executor) note(d *device) {
	if x.now > d.busySince {
		x.rec.Segment(results.Segment{Device: d.index, Series: results.SeriesSimulated,
			FirstS: d.busySince.Seconds(), LastS: x.now.Seconds(), Samples: 1, Value: new(d.busy)})
	}
	d.busySince = x.now
	d.busy = min(d.sms.demand(), 1)
}
