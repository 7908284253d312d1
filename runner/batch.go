package runner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/blame"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// Batch is the state of one batch under way. It is pure: it reads no clock, and the same
// events with the same times give the same commands. It is not safe for concurrent use.
type Batch struct {
	config   Config
	engine   *engine.Engine
	timed    schedulers.Timed // the policy, if it is told the time; else nil
	commands []Command        // that answer the event being applied

	records   []results.Job               // by the jobs' places in the mix, and then of the given ones
	jobs      []*job                      // what else is known of each; nil: nothing, before its start and when it is forgotten
	tasks     map[schedulers.TaskID]*task // the ledger: those that wait or have a device
	deadlines deadlines                   // of jobs that have started
	arrived   int                         // jobs of the mix that have arrived: the first ones
	grouped   int                         // jobs of the mix up to the end of the present group
	groupAt   time.Duration               // when the present group arrived, from which the times of its jobs count
	others    int                         // that have arrived and not ended, without companions
	alone     bool                        // given jobs are companions, and so are all others of the cluster
	arriveAt  time.Duration               // a tick was asked for then, because the next job of the group arrives
	next      int                         // first job of the mix that has not been admitted
	backlog   *backlog                    // nil: jobs are admitted in the order of their arrival
	open      bool                        // jobs may still be given
	given     []given
	nextGiven int      // first given job that has not been admitted
	said      commands // of the jobs, while more may be given
	active    int      // admitted and not ended
	// waitsToRestart are jobs of which a try has ended and the next has not begun.
	waitsToRestart []int
	ended          int
	cancelled      bool
	broken         error       // of our own accounting: the run cannot be trusted
	indexes        []int       // of the devices, for records to point to
	closed         []closure   // by device
	limits         map[int]int // how many devices jobs may use, where that is limited

	nice   []int           // of each job until it has a device; nil: priorities are left alone
	sorted []time.Duration // lengths by which the levels are ordered, if jobs may be given
	ahead  *ahead          // nil: nothing is planned
	looks  time.Duration   // when the engine's next tick is due; it was asked for
	idles  bool            // nothing will happen by itself: another look at the processes would show nothing new

	managed      managedMemory
	starvedCheck time.Duration // when watchStarved looks next
	progress     progress
	server       blame.Server
	held         []schedulers.Decision // grants to jobs that have their devices, and may not be clients of the server before it has recovered
	looked       bool                  // looks at what processes use have come
	inFault      bool                  // the server says that its clients have lost their contexts
	endsClients  time.Duration         // when those that have not ended are ended; 0: no time is set
}

// job is what a batch knows of a job beside its record, while something can happen to it.
type job struct {
	spec      *mixes.Job
	record    *results.Job
	arrived   time.Duration
	tasks     int
	open      []*task        // those of its tasks that are in the ledger
	exited    *time.Duration // end of its process and group
	deadline  time.Duration
	bound     bool // the whole job has asked the engine for its device
	started   bool
	client    bool // bound, and a process of it has been answered
	timedOut  bool
	over      bool // a companion, and the others have ended
	told      bool // it has been told to stop
	cut       bool // told, and the MPS server has ended its work
	stopped   bool
	stuck     string // why it would run for ever
	starved   string // why a request of it starves
	lost      string // why its device was lost
	withdrawn string // why it is ended before its work is done
	protocol  string // which breach of the protocol it was stopped for
	overfull  string // what it wrote too much
	hint      string // what may explain its end
	early     string // a process of it asked early, and for what
	unheard   string // why a process of it could not reach the scheduler
	reports   map[results.EventKind]*reports

	said
	ranks *ranks // nil: it has one process

	try      Try  // the zero Try is its first
	again    *Try // the next try, which begins when this one has ended; nil: none follows
	afterOOM *Try // the next one if this one ends oom; nil: none follows

	residencies blame.Residencies
	endedClient bool               // by endClient
	deaths      []blame.Incident   // of processes that had a device and did not say goodbye
	end         time.Duration      // Never: it has not ended
	work        map[int]blame.Work // of its processes, where their probes tell
	uses        map[int]int64      // the most bytes that each of its processes had in use, where their probes tell

	unaccounted unaccounted

	waited       time.Duration // before its start, and in its probe
	blocked      int           // its tasks that wait for an answer
	blockedSince time.Duration // when the first of them asked
}

// runs reports whether the job's process runs or is about to.
func (j *job) runs() bool { return j.started && j.exited == nil && j.record.Outcome == nil }

// NewBatch returns a batch in which nothing has happened yet.
func NewBatch(c Config) (*Batch, error) {
	if c.Scheduler.Policy == nil {
		return nil, fmt.Errorf("run batch: the program of scheduler %s has not been started", c.Scheduler.Name)
	}
	ahead, unplanned := newAhead(c)
	policy := c.Scheduler.Policy
	if unplanned != "" {
		policy = c.Scheduler.Plans.Unplanned
		c.Notes = append(slices.Clone(c.Notes), results.Event{Kind: results.EventUnplanned, Detail: unplanned})
	}
	settings := c.Scheduler.Config
	settings.Grace = c.Grace
	engine, err := engine.New(c.Devices, policy, settings)
	if err != nil {
		return nil, err
	}
	if len(c.Jobs) == 0 && !c.Open {
		return nil, errors.New("run batch: the mix has no jobs")
	}
	b := &Batch{config: c, engine: engine, ahead: ahead, nice: c.niceLevels(ahead), tasks: map[schedulers.TaskID]*task{},
		records: make([]results.Job, len(c.Jobs)), jobs: make([]*job, len(c.Jobs)), indexes: make([]int, len(c.Devices)), closed: make([]closure, len(c.Devices)),
		open: c.Open, backlog: newBacklog(c.Scheduler.Config, engine.Before)}
	b.timed, _ = c.Scheduler.Policy.(schedulers.Timed)
	said := commands{known: map[string]string{}}
	for i := range b.indexes {
		b.indexes[i] = i
	}
	for i := range c.Jobs {
		spec := &c.Jobs[i]
		if err := c.checkPlace(i); err != nil {
			return nil, fmt.Errorf("run batch: %w", err)
		}
		if err := c.check(spec); err != nil {
			return nil, fmt.Errorf("run batch: job %d (%s) %w", Numbered(c.JobNumber, i), spec.Command(), err)
		}
		b.records[i] = said.record(i, spec)
	}
	if c.Open {
		b.said = said
	}
	if start := c.atStart(); c.Open || len(start.Jobs) < len(c.Jobs) {
		b.sorted = start.sortedLengths()
	}
	return b, nil
}

// checkPlace refuses a job that does not arrive in the order of the mix.
func (c *Config) checkPlace(i int) error {
	spec, before := &c.Jobs[i], &c.Jobs[max(i-1, 0)]
	switch {
	case spec.Group < before.Group:
		return fmt.Errorf("job %d of group %d is listed behind group %d", i, spec.Group, before.Group)
	case spec.Group == before.Group && spec.At < before.At:
		return fmt.Errorf("job %d arrives at %v and is listed behind one that arrives at %v", i, spec.At, before.At)
	case spec.At > 0 && c.Open:
		return fmt.Errorf("job %d arrives at %v: a batch that is given jobs while it runs has all others from its start", i, spec.At)
	}
	return nil
}

// check refuses a job that the scheduler cannot serve.
func (c *Config) check(job *mixes.Job) error {
	switch {
	case job.Binding == mixes.BindDeclared && c.Scheduler.ClientsDecide:
		return errors.New("has binding: declared, but under arch=shared only processes with a probe get devices: use arch=server")
	case job.Isolate && c.Scheduler.ClientsDecide:
		return errors.New("has isolate: true, but under arch=shared clients share what has the memory free: use arch=server")
	case c.Scheduler.Checkpoints:
		return CheckWhole(job)
	}
	return nil
}

// commands has each command once, because a large mix has few.
type commands struct {
	known map[string]string
	text  []byte
}

// Records are those of jobs to which nothing has happened.
func Records(jobs []mixes.Job) []results.Job {
	said, records := commands{known: map[string]string{}}, make([]results.Job, len(jobs))
	for i := range jobs {
		records[i] = said.record(i, &jobs[i])
	}
	return records
}

// record is a job's before anything has happened to it.
func (c *commands) record(i int, spec *mixes.Job) results.Job {
	c.text = spec.AppendCommand(c.text[:0])
	command, found := c.known[string(c.text)]
	if !found {
		command = string(c.text)
		c.known[command] = command
	}
	r := results.Job{Index: i, Name: spec.Name, Command: command, Class: spec.Class}
	if spec.Footprint.Bytes > 0 {
		r.FootprintBytes = &spec.Footprint.Bytes
	}
	if spec.Deadline > 0 {
		r.DeadlineS = new(seconds(spec.Deadline))
	}
	if spec.User != "" {
		r.User = &spec.User
	}
	if spec.Credits > 0 {
		r.Credits = &spec.Credits
	}
	return r
}

// Title is a job's number and name, for texts.
func Title(job int, name string) string { return fmt.Sprintf("job %d (%s)", job, name) }

func (b *Batch) title(i int) string {
	title := Title(Numbered(b.config.JobNumber, i), b.records[i].Name)
	if n := b.spec(i).Portion; n > 0 {
		title = fmt.Sprintf("portion %d of %s", n-1, title)
	}
	return title
}

// Numbered is a number of the batch's as the user knows it.
func Numbered(as func(int) int, i int) int {
	if as == nil {
		return i
	}
	return as(i)
}

// job returns what is known of a job, with room for more.
func (b *Batch) job(i int) *job {
	if b.jobs[i] == nil {
		b.jobs[i] = &job{spec: b.spec(i), record: &b.records[i], arrived: b.arrival(i), bound: b.boundBeforeStart(i),
			ranks: b.newRanks(i), deadline: schedulers.Never, end: schedulers.Never}
	}
	return b.jobs[i]
}

// forget drops what is known of a job that has ended, unless the attribution of faults needs it. Its
// record stays.
func (b *Batch) forget(i int) {
	if !b.config.MPS {
		b.jobs[i] = nil
	}
}

// Apply takes in an event that happened at a time since the batch's arrival, and returns
// the commands that answer it, which are valid until the next call. An error says that the
// event cannot be; then only its time counts.
func (b *Batch) Apply(now time.Duration, e Event) ([]Command, error) {
	b.engine.Spend(now)
	if b.timed != nil {
		b.timed.Tell(now)
	}
	b.watchStarved(now)
	err := e.apply(b, now)
	if b.ahead != nil && err == nil {
		b.follow(now)
	}
	b.noteEmpty(now)
	if b.managed.most != nil && b.Ended() {
		b.noteManaged(now)
	}
	return b.take(), err
}

// take returns the commands that have gathered.
func (b *Batch) take() []Command {
	commands := b.commands
	b.commands = commands[:0]
	return commands
}

func (b *Batch) command(c Command) { b.commands = append(b.commands, c) }

func (b *Batch) recordJob(j *results.Job) { b.command(RecordJob{*j}) }

// recordArrivals records jobs to which nothing has happened yet, except that they have arrived; nil:
// not even that.
func (b *Batch) recordArrivals(from, to int, arrivalS *float64) {
	records := b.records // its names and sizes stay, wherever jobs that are given take the others
	b.command(RecordJobs{func(yield func(results.Job) bool) {
		for i := from; i < to; i++ {
			r := &records[i]
			if !yield(results.Job{Index: i, Name: r.Name, Command: r.Command, Class: r.Class, FootprintBytes: r.FootprintBytes, DeadlineS: r.DeadlineS, User: r.User, Credits: r.Credits, ArrivalS: arrivalS}) {
				return
			}
		}
	}})
}

func (b *Batch) recordEvent(e results.Event) { b.command(RecordEvent{e}) }

// Ended reports whether every job has its outcome, and no more come.
func (b *Batch) Ended() bool { return !b.open && b.ended == len(b.records) }

// Err is the first error of the batch's own accounting, after which it cannot be trusted.
func (b *Batch) Err() error {
	if b.broken != nil {
		return fmt.Errorf("scheduler: %w", b.broken)
	}
	return nil
}

// check keeps the first error of our own accounting.
func (b *Batch) check(err error) {
	if err != nil && b.broken == nil {
		b.broken = err
	}
}

// Jobs are the jobs as recorded. They are the batch's own: they change with the next event.
func (b *Batch) Jobs() []results.Job { return b.records }

func (Arrive) apply(b *Batch, now time.Duration) error {
	b.arrive(now)
	b.recordArrivals(b.arrived, len(b.records), nil) // to which nothing has happened
	for _, e := range b.config.Notes {
		b.recordEvent(e)
	}
	for i := range b.config.Jobs {
		b.noteShare(i, now)
	}
	if err := b.policyFailed(); err != nil { // before it was asked anything
		b.endWithPolicy(err, now)
	}
	b.admit(now)
	return nil
}

// arrive lets jobs of the mix arrive: those of the present group whose time has come, and the next group once all jobs
// before it have ended, the given ones too.
func (b *Batch) arrive(now time.Duration) {
	jobs := b.config.Jobs
	if b.arrived == b.grouped {
		if b.arrived == len(jobs) || b.arrived+len(b.given) > b.ended {
			return
		}
		for b.grouped < len(jobs) && jobs[b.grouped].Group == jobs[b.arrived].Group {
			b.grouped++
		}
		b.groupAt = now
	}
	for b.arrived < b.grouped && b.arrival(b.arrived) <= now {
		first, at := b.arrived, new(seconds(b.arrival(b.arrived)))
		for b.arrived < b.grouped && jobs[b.arrived].At == jobs[first].At {
			b.records[b.arrived].ArrivalS = at
			b.arrived++
		}
		b.recordArrivals(first, b.arrived, at)
		for i := first; i < b.arrived; i++ {
			b.countOther(i, 1)
			b.wait(i)
			if jobs[i].At > 0 {
				b.expectNext(&jobs[i], b.prediction(i)) // whether enough is known of the mix was settled at its start
			}
		}
	}
	if b.arrived < b.grouped && b.arriveAt != b.arrival(b.arrived) {
		b.arriveAt = b.arrival(b.arrived)
		b.command(WakeAt{b.arriveAt})
	}
}

// wait notes that a job has arrived and is to be admitted.
func (b *Batch) wait(i int) {
	if b.backlog == nil {
		return
	}
	key, whose := schedulers.Never, schedulers.Terms{}
	switch b.config.Scheduler.Config.Queue {
	case engine.ShortestFirst:
		if expected := b.expected(i); expected != nil {
			key = *expected
		}
	case engine.EarliestDeadline:
		if due := b.due(i); due != 0 {
			key = due
		}
	case engine.Credits:
		whose.User, whose.Credits = b.spec(i).User, b.spec(i).Credits
	}
	b.backlog.add(i, &whose, key, b.arrival(i))
}

// left notes that a job that was admitted has ended.
func (b *Batch) left(i int) {
	b.active--
	b.over(i)
	b.leaveBacklog(i)
}

// over notes that a job has ended.
func (b *Batch) over(i int) {
	b.ended++
	b.countOther(i, -1)
	b.endCompanions()
}

// leaveBacklog notes that a job that the backlog has admitted has ended.
func (b *Batch) leaveBacklog(i int) {
	switch {
	case b.backlog == nil:
	case b.config.Scheduler.Config.Queue == engine.Credits:
		b.backlog.end(b.spec(i).User)
	default:
		b.backlog.end("")
	}
}

// admit is the admission of jobs: those that have arrived are let in, in the mix's order unless there is a backlog. A
// task-bound scheduler sees as many of them as there are workers, which is the backpressure of the
// batch. A process-bound one sees those that run and the next if it serves them in the order of arrival: the jobs behind it
// could not go before it, and a million of them would take memory in the queue.
func (b *Batch) admit(now time.Duration) {
	if b.cancelled {
		return
	}
	limit, inTurn := b.config.Workers, b.config.Scheduler.Binds == policies.BindsJob && b.config.Scheduler.Config.Queue == engine.FIFO
	if limit <= 0 || b.config.Scheduler.Binds == policies.BindsJob {
		limit = len(b.records)
	}
	b.arrive(now)
	if !b.server.Recovering() {
		b.startAgain()
	}
	for b.active < limit+b.suspended() && !b.cancelled { // binding a job can end the batch, and one that starts may be suspended
		i, ok := b.nextToAdmit()
		if !ok || inTurn && b.engine.Waiting() > 0 {
			return
		}
		if b.server.Recovering() {
			return // a new client would be turned away; ServerRecovered goes on
		}
		b.takeNext()
		if b.records[i].Outcome != nil { // it was withdrawn
			b.leaveBacklog(i)
			continue
		}
		b.active++
		if b.ahead != nil {
			b.ahead.open = append(b.ahead.open, i)
		}
		if b.boundBeforeStart(i) {
			b.bind(i, now)
		} else {
			b.start(i, nil)
		}
	}
}

// boundBeforeStart reports whether the job's device is settled before its
// process exists: under a process-bound scheduler, or because it has no probe.
func (b *Batch) boundBeforeStart(job int) bool {
	return b.config.Scheduler.Binds == policies.BindsJob || b.config.Scheduler.Checkpoints || b.spec(job).Binding == mixes.BindDeclared
}

// isolated reports whether the job shares its device with no other job.
func (c *Config) isolated(job *mixes.Job) bool {
	return job.Isolate || job.KnownFault && c.Scheduler.IsolateKnown
}

// terms are what a job states, for a task that has so many devices at once; nil: nothing.
func (b *Batch) terms(i, devices int) *schedulers.Terms {
	spec := b.spec(i)
	all := schedulers.Terms{Devices: devices, Share: b.config.share(spec), Due: b.due(i), Expected: b.expected(i), User: spec.User, Credits: spec.Credits, MaxWait: spec.MaxWait, Restarts: b.restarts(i)}
	if n := spec.Processes(); n > 1 {
		all.Ranks = n
	}
	if all == (schedulers.Terms{}) {
		return nil
	}
	stated := all // has its memory only here
	return &stated
}

// due is when the job should have ended (schedulers.Terms).
func (b *Batch) due(i int) time.Duration {
	if after := b.spec(i).Deadline; after > 0 {
		return b.arrival(i) + after
	}
	return 0
}

// expected is how long the job is expected to have its device (schedulers.Terms).
func (b *Batch) expected(i int) *time.Duration {
	p := b.prediction(i)
	switch {
	case p == nil:
		return nil
	case b.boundBeforeStart(i):
		return new(p.Before + p.Held + p.After)
	}
	return &p.Held
}

// wholeJob is the range of the tasks that stand for a whole job. Executors choose the ids
// of all others, below it.
const wholeJob = schedulers.TaskID(1) << 63

// binding is the task that stands for a job.
func binding(job int) schedulers.TaskID { return wholeJob | schedulers.TaskID(job) }

// bind asks for a device for the whole job.
func (b *Batch) bind(i int, now time.Duration) {
	spec := b.spec(i)
	f, wait := b.whole(spec), spec.Wait
	if b.config.Scheduler.Binds == policies.BindsJob {
		wait = nil // the job has not asked for it: jobs take turns
	}
	ds, err := b.engine.Submit(schedulers.Task{ID: binding(i), Job: schedulers.JobID(i), Bytes: f.Bytes,
		Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock, GridUnknown: f.Blocks == 0,
		Priority: spec.Priority, Isolate: b.config.isolated(spec), Terms: b.terms(i, spec.GPUs), Wait: wait, Can: b.givesWay(spec)}, now)
	b.check(err)
	b.carryOut(ds, now)
}

func (b *Batch) start(i int, devices []int) {
	b.job(i).started = true
	if r := &b.records[i]; len(devices) > 0 {
		r.Device = &b.indexes[devices[0]]
		r.Devices = results.DeviceList(devices)
	}
	b.command(Start{Job: i, Devices: devices})
	if b.nice != nil && len(devices) == 0 {
		b.command(Prioritize{i, b.nice[i]})
	}
}

// devicesOf are the devices of a grant.
func (b *Batch) devicesOf(d schedulers.Decision) []int {
	if d.Devices != nil {
		return d.Devices
	}
	return b.indexes[d.Device : d.Device+1]
}

// share is the part of a device's time that a task of the job asks for.
func (c *Config) share(job *mixes.Job) int {
	if job.Share == 0 || !c.Scheduler.TakesShares() {
		return 0
	}
	return int(math.Round(job.Share * schedulers.WholeDevice))
}

// noteShare records that the scheduler ignores what the job asks for.
func (b *Batch) noteShare(i int, now time.Duration) {
	if spec := b.spec(i); spec.Share > 0 && spec.Portion <= 1 && !b.config.Scheduler.TakesShares() {
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventShareIgnored, Job: &b.records[i].Index, Detail: ShareIgnored(spec, b.config.Scheduler)})
	}
}

// ShareIgnored says that a scheduler ignores the share of a job.
func ShareIgnored(job *mixes.Job, s policies.Scheduler) string {
	return fmt.Sprintf("share: %g has no effect: scheduler %s knows no shares", job.Share, s.Name)
}

// carryOut acts on the engine's decisions. If the policy has failed, they do not count, and the
// batch ends: the requests stay without an answer until their processes are stopped.
func (b *Batch) carryOut(ds []schedulers.Decision, now time.Duration) {
	if err := b.policyFailed(); err != nil {
		b.endWithPolicy(err, now)
		return
	}
	for _, d := range ds {
		i := int(d.Task.Job)
		switch {
		case b.records[i].Outcome != nil: // cancelled while it waited for its device
		case d.Task.ID != binding(i) && b.tasks[d.Task.ID] == nil: // its process has just ended, and the engine does not know yet
		case d.Kind == schedulers.Revoke:
			b.command(Revoke{d})
			t := b.tasks[d.Task.ID]
			t.revocation, t.to = b.revocation(d, now), d.Revocation.Device
		case d.Kind == schedulers.Restart:
			b.restart(d, now)
		case d.Kind == schedulers.Unanswered:
			b.recordUnanswered(b.tasks[d.Task.ID], now)
		case b.tasks[d.Task.ID] != nil:
			b.command(Answer{d}) // first, because its process waits
			b.settle(d, now)
		case d.Kind == schedulers.Granted:
			devices := b.devicesOf(d)
			if why := b.barsStart(i, devices); why != nil {
				b.refuse(i, why, now)
				b.carryOut(b.engine.JobExit(d.Task.Job), now)
				continue
			}
			b.start(i, devices)
			b.holdWhole(d, now)
			j := b.job(i)
			for _, device := range devices {
				j.residencies = j.residencies.Enter(0, device, now)
			}
		default:
			b.refuse(i, d.Reason, now)
		}
	}
	if t := b.engine.NextExpiry(); t != schedulers.Never {
		b.command(WakeAt{t})
	}
	next := b.engine.NextTick
	if b.idles {
		next = b.engine.NextAct
	}
	if t := next(); t != schedulers.Never && t != b.looks {
		b.looks = t
		b.command(WakeAt{t})
	}
}

func (b *Batch) endWithPolicy(err error, now time.Duration) {
	b.check(err)
	b.withdraw(results.Cancelled, err.Error(), now)
}

// policyFailed is why the policy can decide no more; nil if it can.
func (b *Batch) policyFailed() error {
	f, ok := b.config.Scheduler.Policy.(schedulers.Fallible)
	if !ok {
		return nil
	}
	if n := b.engine.Waiting(); f.Err() == nil && n > 0 && isEmpty(b.engine.View()) {
		return f.Stuck(n)
	}
	return f.Err()
}

// isEmpty reports whether nothing is on the node.
func isEmpty(v schedulers.View) bool {
	for i := range v.Len() {
		if d := v.Device(i); d.Tasks() > 0 || d.FreeBytes() < d.Limits().CapacityBytes {
			return false
		}
	}
	return true
}

// refuse ends a job that gets no device and therefore never starts.
func (b *Batch) refuse(i int, why error, now time.Duration) {
	b.endUnstarted(i, results.Refused, why.Error(), true, now)
	b.endPortions(i, now)
	b.admit(now)
}

func (e JobStarted) apply(b *Batch, now time.Duration) error {
	j := b.job(e.Job)
	b.progress.made(now)
	j.record.StartS, j.record.PID = new(seconds(now)), e.PID
	j.waited += now - j.arrived // += because a task of the job may have waited before this event came
	j.record.WaitS = new(seconds(j.waited))
	limit := b.config.Timeout
	if j.spec.Timeout > 0 {
		limit = j.spec.Timeout
	}
	if limit > 0 {
		j.deadline = now + limit
		b.deadlines.add(j.deadline, e.Job)
		b.command(WakeAt{j.deadline})
	}
	b.recordJob(j.record)
	b.endCompanions()
	return nil
}

func (e JobExited) apply(b *Batch, now time.Duration) error {
	j := b.job(e.Job)
	j.exited = &now
	j.deadline = schedulers.Never
	return nil
}

func (e JobEnded) apply(b *Batch, now time.Duration) error {
	j := b.job(e.Job)
	j.end = now
	if j.exited != nil {
		j.end = *j.exited
	}
	if j.ranks != nil {
		e.Exit = j.ranks.exit(e.Exit)
	}
	died := e.Exit.Signal != nil && len(j.work) == 0 && slices.ContainsFunc(j.residencies, blame.Residency.Open) // ProcessGone has noted other deaths
	if died {
		j.deaths = append(j.deaths, blame.Incident{Process: schedulers.Process{Job: schedulers.JobID(e.Job)}, At: j.end})
	}
	// The engine hears of the tasks through JobExit alone. Otherwise a waiting task of the job
	// could get what another task of the job gives back.
	b.endTasks(j, func(*task) bool { return true }, now)
	j.residencies.LeaveAll(now)
	b.managed.leave(func(p schedulers.Process) bool { return int(p.Job) == e.Job })
	b.countReports(j, now)
	b.nameHog(j)
	outcome, detail := b.outcomeOf(j, e.Exit)
	if outcome == results.OOM {
		b.restartAfterOOM(j, detail, now)
	}
	if b.endTry(e, died, now) {
		return nil
	}
	j.record.UsedBytes, j.record.UnaccountedBytes = j.used(), j.unaccounted.bytes()
	j.record.EndS = new(seconds(j.end))
	j.record.ExitStatus, j.record.Signal = e.Exit.Status, e.Exit.Signal
	j.record.UserS, j.record.SysS, j.record.MaxRSSBytes = e.Exit.UserS, e.Exit.SysS, e.Exit.MaxRSSBytes
	j.record.StderrTail = e.Exit.StderrTail
	j.record.Outcome, j.record.Detail = shared(outcome), detail
	j.deadline = schedulers.Never
	if outcome == results.OK && j.tasks == j.try.Tasks && !j.bound && !j.over {
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventUnscheduled, Job: &e.Job,
			Detail: "it never asked for a device, so it ran unscheduled: if it uses one, give it binding: declared and its memory in the mix"})
	}
	b.recordJob(j.record)
	delete(b.limits, e.Job)
	b.forget(e.Job)
	b.left(e.Job)
	b.endPortions(e.Job, now)
	b.progress.made(now)
	if died {
		b.suspectOutage(j.residencies, j.end, false)
	}
	b.carryOut(b.engine.JobExit(schedulers.JobID(e.Job)), now)
	b.admit(now)
	return nil
}

var outcomeOK = results.OK

// shared returns a pointer to an outcome for a record. Those that are ok have one in common, because a large batch
// has a million.
func shared(o results.Outcome) *results.Outcome {
	if o == outcomeOK {
		return &outcomeOK
	}
	return &o
}

// outcomeOf says how a job ended.
func (b *Batch) outcomeOf(j *job, e Exit) (results.Outcome, string) {
	if j.ranks != nil {
		return b.outcomeOfRanks(j, e)
	}
	return b.outcome(j, &j.said, e)
}

// outcome says how a job, or a rank of it, ended that said this. What the probe reported goes before the exit
// status: programs that do not check CUDA calls exit 0 after an error.
func (b *Batch) outcome(j *job, by *said, e Exit) (results.Outcome, string) {
	switch {
	case e.NotStarted:
		return results.NotStarted, e.Err.Error()
	case j.stopped:
		return results.Cancelled, explained("stopped with the run", j.starved)
	case j.timedOut:
		return results.Timeout, explained("it ran longer than its limit", j.starved)
	case j.stuck != "":
		return results.Timeout, j.stuck
	case j.lost != "":
		return results.Lost, j.lost
	case j.withdrawn != "":
		return results.Cancelled, j.withdrawn
	case j.overfull != "":
		return results.Crash, j.overfull
	case e.Err != nil:
		return results.Crash, e.Err.Error()
	case by.oom+by.refused != "" && b.finished(j, by, e):
		return results.OKAfterOOM, cmp.Or(by.oom+by.remedy, by.refused+by.larger) + "; it went on, and its output check passed"
	case by.oom != "":
		return results.OOM, by.oom + by.remedy
	case by.refused != "": // before a fault: many programs go on as if they had the memory
		return results.Refused, by.refused + by.larger
	case len(by.faults) > 0:
		return results.Fault, blame.OwnFault(by.faults).Detail
	case j.protocol != "":
		return results.Crash, j.protocol
	case j.unheard != "":
		return results.NotScheduled, "it could not reach the scheduler: " + j.unheard
	case j.over && (e.Signal != nil || j.cut):
		return results.OK, "it was ended with the last of the other jobs"
	case e.Signal != nil:
		return results.Crash, explained("ended by "+*e.Signal, j.hint)
	case e.Wrong:
		return results.Wrong, "its output check failed"
	case e.Status != nil && *e.Status != 0:
		return results.Crash, explained(fmt.Sprintf("exit status %d", *e.Status), cmp.Or(j.hint, e.Hint))
	}
	return results.OK, ""
}

// explained is a detail with what may explain it.
func explained(detail, hint string) string {
	if hint == "" {
		return detail
	}
	return detail + ": " + hint
}

// finished reports whether a job did its work although an allocation failed or was refused. Its exit status alone does not
// show that, because many programs ignore CUDA's errors: a check of its output must have passed.
func (b *Batch) finished(j *job, by *said, e Exit) bool {
	return !b.config.OOMFails && e.Checked && e.Status != nil && *e.Status == 0 && len(by.faults) == 0 && j.protocol == "" && j.unheard == ""
}

func (e Tick) apply(b *Batch, now time.Duration) error {
	for _, i := range b.deadlines.due(now) {
		if j := b.jobs[i]; j != nil && j.deadline <= now {
			j.timedOut = true
			b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventTimeout, Job: &i, Device: j.record.Device})
			b.stopJob(i)
		}
	}
	b.endClients(now)
	if b.arriveAt > 0 && b.arriveAt <= now {
		b.admit(now)
	}
	ds := b.engine.Expire(now)
	if b.config.Scheduler.Revokes {
		quiet := e.Quiet
		if len(ds)+len(b.commands) > 0 || quiet == schedulers.Never {
			quiet = 0 // what follows comes before
		}
		ds = append(ds, b.engine.Tick(now, quiet)...)
		b.idles = e.Quiet == schedulers.Never && len(ds)+len(b.commands) == 0
	}
	b.carryOut(ds, now)
	b.idles = false
	b.watchProgress(now)
	return nil
}

func (e Cancel) apply(b *Batch, now time.Duration) error {
	b.withdraw(results.Cancelled, e.Why, now)
	return nil
}

func (e Fail) apply(b *Batch, now time.Duration) error {
	b.withdraw(results.NotStarted, e.Err.Error(), now)
	return nil
}

// withdraw stops the jobs that run, and gives the others their outcome.
func (b *Batch) withdraw(outcome results.Outcome, why string, now time.Duration) {
	if b.cancelled || b.Ended() {
		return
	}
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventCancelled, Detail: why})
	b.endAll(func(j *job) { j.stopped = true }, outcome, why)
}

// endAll stops the jobs that run, of each of which note notes why, and gives the others their outcome. No more are admitted.
func (b *Batch) endAll(note func(*job), outcome results.Outcome, why string) {
	b.cancelled, b.open = true, false
	var never []int32
	for i := range b.records {
		r, j := &b.records[i], b.jobs[i]
		switch {
		case r.Outcome != nil || j != nil && j.exited != nil:
		case j != nil && j.started:
			note(j)
			b.stopJob(i)
		default:
			r.Outcome, r.Detail = &outcome, why
			never = append(never, int32(i))
			b.ended++
		}
	}
	records := b.records
	b.command(RecordJobs{func(yield func(results.Job) bool) {
		for _, i := range never {
			if !yield(records[i]) { // nothing happens to it any more
				return
			}
		}
	}})
}

// stopJob stops a job that has started.
func (b *Batch) stopJob(i int) {
	b.jobs[i].told = true
	b.command(Stop{i})
}

func (e Limited) apply(b *Batch, now time.Duration) error {
	j := b.job(e.Job)
	if j.refused == "" {
		j.refused = e.Why
	}
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventRefused, Job: &e.Job, Device: j.record.Device, Detail: e.Why})
	return nil
}

func (e Unreached) apply(b *Batch, now time.Duration) error {
	b.keep(e.Job, &b.job(e.Job).unheard, results.EventNotScheduled, e.Why, now)
	return nil
}

// ofChoice says what to do about a program that chose a device that it does not see. Hints are of nothing else.
func (j *job) ofChoice() string {
	if n := j.spec.GPUs; n > 1 {
		return fmt.Sprintf("; the job has %d GPUs, as its devices 0 to %d: a program that uses more needs a larger gpus in the mix", n, n-1)
	}
	return "; a job has one GPU, as its device 0. A program that chooses among several needs pin: true in the mix, and these GPUs in --devices"
}

func (e Hint) apply(b *Batch, now time.Duration) error {
	j := b.job(e.Job)
	b.keep(e.Job, &j.hint, results.EventHint, e.What+j.ofChoice(), now)
	return nil
}

func (e Overfull) apply(b *Batch, now time.Duration) error {
	if j := b.job(e.Job); j.exited == nil && b.keep(e.Job, &j.overfull, results.EventOutput, e.Why, now) {
		b.stopJob(e.Job)
	}
	return nil
}

func (e Misbehaved) apply(b *Batch, now time.Duration) error {
	if j := b.job(e.Job); j.exited == nil && b.keep(e.Job, &j.protocol, results.EventProtocol, e.Why, now) {
		b.stopJob(e.Job)
	}
	return nil
}

// keep keeps the first that is said of a job while it has no outcome, and records it as an event. It reports whether it did.
func (b *Batch) keep(job int, first *string, kind results.EventKind, what string, now time.Duration) bool {
	record := b.job(job).record
	if record.Outcome != nil || *first != "" {
		return false
	}
	*first = what
	b.recordEvent(results.Event{AtS: seconds(now), Kind: kind, Job: &job, Device: record.Device, Detail: what})
	return true
}

func (e Note) apply(b *Batch, _ time.Duration) error {
	b.recordEvent(e.Event)
	return nil
}

// reports are those of one kind that a job's processes made. A process can make them
// without end: the first few of each are records, and the others a number.
type reports struct {
	of         map[int]int // kept, by the process's serial
	kept, more int
}

const (
	processReports = 8 // CASE_WIRE_REPORTS of native/probe/wire.h
	jobReports     = 8 * processReports
)

// keeps reports whether another report of the kind, of this process, is one to keep.
func (j *job) keeps(kind results.EventKind, serial int) bool {
	r := j.reports[kind]
	if r == nil {
		r = &reports{of: map[int]int{}}
		if j.reports == nil {
			j.reports = map[results.EventKind]*reports{}
		}
		j.reports[kind] = r
	}
	if r.kept == jobReports || r.of[serial] == processReports {
		r.more++
		return false
	}
	r.kept++
	r.of[serial]++
	return true
}

// countReports records how many reports of the job were not kept.
func (b *Batch) countReports(j *job, now time.Duration) {
	if len(j.reports) == 0 {
		return
	}
	for _, kind := range slices.Sorted(maps.Keys(j.reports)) {
		if more := j.reports[kind].more; more > 0 {
			b.recordEvent(results.Event{AtS: seconds(now), Kind: kind, Job: &j.record.Index, Device: j.record.Device,
				Detail: fmt.Sprintf("%d more of these reports, which are not recorded", more)})
		}
	}
}

func seconds(d time.Duration) float64 { return d.Seconds() }
