package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// Config is what a simulated batch needs besides its node.
type Config struct {
	Node Node
	Jobs []mixes.Job
	MPS  bool
	Seed uint64
	// Profiles is what the jobs do; a job that is not there is an error.
	Profiles    profiles.Set
	Revokes     bool          // the scheduler takes memory back
	Bursts      bool          // with Revokes: a permit ends with each burst
	Checkpoints bool          // jobs give way as a whole
	Noise       float64       // σ of the logarithm of each phase's length; 0 = none
	Feed        *harness.Feed // of more jobs; nil: there are no more
	OfCluster   bool          // the cluster gives it jobs
	Number      func(int) int // of a job in the cluster, or in a mix with portions; nil: its place
	// Outside is before when the cluster does nothing with the node; nil: it is alone.
	Outside  func() time.Duration
	Woken    func()    // another node has planned something here
	Begun    func(int) // a job is started; nil: nobody has to know
	NIC      NIC       // to the other nodes
	Failures Failures  // of devices
	// FirstDevice is the number of the first device in the cluster; 0: the node is alone.
	FirstDevice int
}

// Executor is a simulated node that runs one batch.
type Executor struct {
	calendar
	config  Config
	loop    *runner.Loop
	rec     runner.Recorder
	cores   *pool
	devices []*device
	kinds   []*kind           // the first is nil
	known   map[kindKey]int32 // the kinds' places
	kindOf  []int32           // the jobs' places among the kinds, of several ranks that of the first; 0: their own are made at their start
	given   []*mixes.Job      // jobs that the feed had
	coming  *harness.Taken    // a job of the feed whose time has not come
	procs   map[rankOf]*process
	parts   map[int]*group // jobs that have ranks on other nodes too
	nicOut  *pool          // what goes to other nodes
	nicIn   *pool          // what comes from them
	wake    func()         // tick
	wakes   int            // that are due
	changed time.Duration  // when something happened last (changes)
	wrong   error          // the first event that could not be
	wholes  []*whole       // jobs that give way as a whole, in the order of their starts
	telling []*process     // the processes that have an open task whose memory can move, by index
}

var (
	_ runner.Revoker     = (*Executor)(nil)
	_ runner.Planner     = (*Executor)(nil)
	_ runner.Prioritizer = (*Executor)(nil)
	_ runner.Restarter   = (*Executor)(nil)
)

type device struct {
	index     int
	model     *Model
	free      int64
	room      int64     // for the memory of one process, beside its context
	aged      aged      // managed memory
	paging    []*paging // kernels with managed memory
	faults    *pool     // the fault engine
	queue     []*paging // for the fault engine, which serves them one after the other
	sms       *pool
	link      *pool
	peers     *pool // what goes to other devices directly
	failed    bool  // and is not repaired
	busySince time.Duration
	busy      float64 // share of SMs in use since busySince
}

// NewExecutor prepares the batch; a job without a profile is an error that
// names it.
func NewExecutor(c Config, rec runner.Recorder) (*Executor, error) {
	x := &Executor{config: c, rec: rec, kinds: []*kind{nil}, known: map[kindKey]int32{}, kindOf: make([]int32, len(c.Jobs)), procs: map[rankOf]*process{}, cores: newPool(float64(c.Node.Host.Cores)), parts: map[int]*group{}, nicOut: newPool(1), nicIn: newPool(1)}
	x.wake = x.tick
	x.cores.crowd = c.Node.Host.Crowd
	for i, m := range c.Node.models() {
		d := &device{index: i, model: m, free: m.MemoryBytes, sms: newPool(1), link: newPool(1), peers: newPool(1), faults: newPool(1)}
		if c.MPS {
			d.free -= runner.ServerBytes
		}
		d.room = d.free - m.context()
		x.devices = append(x.devices, d)
	}
	var text []byte
	for i := range c.Jobs {
		var err error
		if x.kindOf[i], text, err = x.placeOf(&c.Jobs[i], text); err != nil {
			return nil, fmt.Errorf("simulate job %d (%s): %w", i, c.Jobs[i].Command(), err)
		}
	}
	if c.Feed == nil && !c.OfCluster {
		x.known = nil // of a large mix they can be many
	}
	return x, nil
}

// placeOf is a job's place among the kinds, where one is made if the job is the first of its kind. text is room for its
// command.
func (x *Executor) placeOf(j *mixes.Job, text []byte) (place int32, _ []byte, err error) {
	if j.Profile != nil && j.Steps == "" { // the mix says what each job does: most may be of their own kind
		return 0, text, nil
	}
	text = j.AppendCommand(text[:0])
	key := kindKey{string(text), j.Steps, j.Binding, j.Footprint}
	of := x.known[key]
	if of == 0 {
		var made []*kind
		for rank := range j.Processes() {
			k, err := x.makeKind(j, rank)
			if err != nil {
				return 0, text, err
			}
			made = append(made, &k)
		}
		of = int32(len(x.kinds))
		x.kinds, x.known[key] = append(x.kinds, made...), of
	}
	return of, text, nil
}

// kind is what jobs do that do the same, of several ranks what one does. A large mix has few kinds.
type kind struct {
	steps    []profiles.Step
	rounds   int    // among which what they do with their memory is divided
	movable  bool   // their memory can go to the host (swap.go)
	stops    bool   // a kernel of theirs can be stopped
	managed  int64  // the most memory that they have at one time, if some of it is managed
	profiled *Model // on which their profile was measured
	common   []step // process.plan
}

// kindKey says which jobs are of one kind.
type kindKey struct {
	command, steps string
	binding        mixes.Binding
	footprint      mixes.Footprint
}

func (x *Executor) makeKind(j *mixes.Job, rank int) (kind, error) {
	p, err := x.config.Profiles.Lookup(*j)
	if err != nil {
		return kind{}, err
	}
	steps := p.Steps(j.Footprint, rank)
	return kind{steps: steps, rounds: p.Rounds, movable: x.config.Revokes && j.Binding != mixes.BindDeclared,
		managed:  withManaged(steps),
		stops:    slices.ContainsFunc(steps, func(s profiles.Step) bool { return s.Stoppable }),
		profiled: modelOf(p.GPU)}, nil
}

// newProcess makes a process of a job.
func (x *Executor) newProcess(job, rank int, devices []int) *process {
	p := &process{x: x, index: job, rank: rank, job: x.job(job)}
	p.place(devices)
	if of := x.kindOf[job]; of > 0 {
		p.kind = x.kinds[int(of)+rank]
	} else {
		k, err := x.makeKind(p.job, rank)
		if err != nil {
			panic(err) // what a mix says of a job is not looked up
		}
		p.kind = &k
	}
	of := uint64(max(p.job.Portion-1, 0))<<32 | uint64(x.number(job))
	if p.job.Profile != nil && p.job.Profile.Exponential {
		p.stretch = rand.New(rand.NewPCG(x.config.Seed, lengthStream|of)).ExpFloat64()
	}
	if x.config.Noise > 0 {
		p.noise = rand.New(rand.NewPCG(x.config.Seed, uint64(rank)<<32|of))
	}
	return p
}

// lengthStream marks the generators of the lengths of jobs, which are not those of their noise.
const lengthStream = 1 << 63

func (x *Executor) Run(ctx context.Context, l *runner.Loop) error {
	x.begin(l)
	x.takeNext(ctx)
	defer x.leaveNext()
	for !closed(l.Done()) {
		if ctx.Err() != nil {
			x.post(runner.Cancel{Why: context.Cause(ctx).Error()})
		}
		if !x.goOn() && !closed(l.Done()) && !x.isStuck() {
			return errIdle
		}
		if x.wrong != nil {
			return x.wrong
		}
	}
	x.end()
	return context.Cause(ctx)
}

var errIdle = errors.New("simulate: nothing is due and jobs are left: they wait for each other, for a limit to be lifted, or for a device to come back")

// begin begins the batch of a loop.
func (x *Executor) begin(l *runner.Loop) {
	x.loop = l
	x.post(runner.Arrive{})
	x.planFailures()
}

// goOn does what is due next; false: nothing is.
func (x *Executor) goOn() bool {
	if x.now-x.changed >= longStanding {
		x.changed = x.now
		x.endEndless()
	}
	return x.step()
}

// end records how busy the devices were until now.
func (x *Executor) end() {
	for _, d := range x.devices {
		x.note(d)
	}
}

// longStanding is how long nothing but kernels that never end may happen. They may go on to push blocks out, or be asked again and again
// to make room.
const longStanding = 4 * time.Hour

// endless has the jobs that are in kernels which never end, and reports whether a process does something else.
func (x *Executor) endless() (jobs []int, works bool) {
	for _, p := range x.procs {
		if p.doing != nil && p.doing.Step != nil && p.doing.Endless {
			jobs = append(jobs, p.index)
		} else if p.doing != nil || p.swap.moving != nil {
			return nil, true
		}
	}
	slices.Sort(jobs)
	return slices.Compact(jobs), false
}

// endEndless tells the batch that nothing but kernels that never end happens any more, if that is so.
func (x *Executor) endEndless() bool {
	jobs, works := x.endless()
	if works || len(jobs) == 0 {
		return false
	}
	x.post(runner.Stuck{Endless: jobs})
	return true
}

// changes reports whether an event shows that not only kernels that never end have gone on.
func changes(e runner.Event) bool {
	switch e := e.(type) {
	case runner.Tick, runner.TaskActive:
		return false
	case runner.TaskRevoked:
		return e.Answer.Outcome != schedulers.Busy
	}
	return true
}

// post applies an event. One that cannot be is a defect of the model, and ends the run.
func (x *Executor) post(e runner.Event) {
	if changes(e) {
		x.changed = x.now
	}
	if err := x.loop.TryPost(x.now, e); err != nil && x.wrong == nil {
		x.wrong = fmt.Errorf("simulate: %T at %v: %w", e, x.now, err)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Start carries out runner.Start.
func (x *Executor) Start(job int, devices []int) {
	if x.config.Begun != nil {
		x.config.Begun(job)
	}
	part, n := x.parts[job], x.job(job).Processes()
	switch {
	case part != nil:
		x.startRanks(part, devices)
	case n > 1:
		all := newMeeting(n).add(n)
		all.x, all.job = x, job
		x.startRanks(all, devices)
	default:
		x.startProcess(x.newProcess(job, 0, devices))
	}
	x.watchWhole(job)
}

// Restart carries out runner.Restart.
func (x *Executor) Restart(job int, t runner.Try) {
	p := x.newProcess(job, 0, nil)
	p.try, p.task.begun = &t, t.Tasks
	x.startProcess(p)
}

func (x *Executor) startProcess(p *process) {
	x.procs[p.key()] = p
	x.at(x.now, p.start)
}

// Answer carries out runner.Answer.
func (x *Executor) Answer(d schedulers.Decision) {
	if w := x.wholeOf(d.Task.ID); w != nil {
		x.at(x.now, func() { w.answered(d) })
		return
	}
	if p := x.procs[askedBy(d.Task.ID)]; p != nil {
		p.swap.known = false
		x.at(x.now, func() { p.answered(d) })
	}
}

// Revoke carries out runner.Revoke.
func (x *Executor) Revoke(d schedulers.Decision) {
	if w := x.wholeOf(d.Task.ID); w != nil {
		x.at(x.now, func() { w.revoke(d) })
		return
	}
	if p := x.procs[askedBy(d.Task.ID)]; p != nil {
		p.swap.known = false
		x.at(x.now, func() { p.revoke(d) })
	}
}

// searchTime is how long a search for a plan lasts. The time that one takes here differs from run to
// run, and with it the results would.
const searchTime = 50 * time.Millisecond

// Plan carries out runner.Search.
func (x *Executor) Plan(search func() runner.Event) {
	x.at(x.now+searchTime, func() { x.post(search()) })
}

func (x *Executor) CanPrioritize() error { return nil }

// Prioritize carries out runner.Prioritize. It counts from the process's next step on.
func (x *Executor) Prioritize(job, nice int) {
	for p := range x.processesOf(job) {
		p.nice = int32(nice)
	}
}

// Stop carries out runner.Stop.
func (x *Executor) Stop(job int) {
	for p := range x.processesOf(job) {
		x.at(x.now, func() { p.exit(runner.Exit{Signal: new("SIGKILL")}) })
	}
}

// WakeAt carries out runner.WakeAt.
func (x *Executor) WakeAt(t time.Duration) {
	x.wakes++
	x.at(t, x.wake)
}

// works reports whether something else is due than looks.
func (x *Executor) works() bool { return len(x.due) > x.wakes }

func (x *Executor) tick() {
	x.wakes--
	x.tell()
	x.look()
}

// tell tells the batch what processes do that can give memory back.
func (x *Executor) tell() {
	for _, p := range x.telling {
		p.tellActivity()
	}
	for _, w := range x.wholes {
		w.tellActivity()
	}
}

// look has the batch look at what is so now. Nothing happens before the next event, here or where the jobs come from.
func (x *Executor) look() {
	quiet, more := x.next()
	if !more {
		quiet = schedulers.Never
	}
	if x.config.Outside != nil {
		quiet = min(quiet, x.config.Outside())
	}
	x.post(runner.Tick{Quiet: quiet})
}

// tells returns the place of a process among those that tell of their task, and whether it is there.
func (x *Executor) tells(p *process) (at int, found bool) {
	return slices.BinarySearchFunc(x.telling, p, func(a, b *process) int { return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.rank, b.rank)) })
}

// share puts work into a pool.
func (x *Executor) share(p *pool, a *activity) *activity {
	p.add(a, x.now)
	x.expect(p)
	return a
}

// expect schedules the pool's next completion, if it has changed since that was scheduled.
func (x *Executor) expect(p *pool) {
	if p.expected {
		return
	}
	p.expected = true
	at, ok := p.nextCompletion()
	if !ok {
		x.cancel(&p.completion)
		return
	}
	if p.completion.fire == nil {
		p.completion.fire = func() { x.complete(p) }
	}
	x.schedule(&p.completion, at)
}

// complete goes on with the activities that are done.
func (x *Executor) complete(p *pool) {
	for _, a := range p.finished(x.now) {
		a.done()
	}
	x.expect(p)
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
	d.busy = min(d.sms.demand()+d.stalled(), 1)
}
