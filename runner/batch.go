package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// Batch is the state of one batch under way. Executors report events to it,
// from any goroutine; it answers through the Executor and the Recorder.
type Batch struct {
	config   Config
	executor Executor
	recorder Recorder
	done     chan struct{}

	mu        sync.Mutex
	engine    *engine.Engine
	jobs      []*job
	tasks     map[schedulers.TaskID]*task
	lastTask  schedulers.TaskID
	arrived   int // jobs that have arrived: the first ones of the mix
	next      int // first job that has not been admitted
	active    int // admitted and not ended
	ended     int
	cancelled bool
	broken    error // an accounting error of our own: the run cannot be trusted

	quiet    quiet
	ailments []ailment
	healing  bool                  // Heal has been asked for and not answered
	relapsed bool                  // there was trouble since
	sick     bool                  // the server was seen broken since
	held     []schedulers.Decision // grants that wait for the answer
}

type job struct {
	spec     mixes.Job
	record   results.Job
	binding  schedulers.TaskID // the engine's task for the whole job, or 0
	arrived  time.Duration
	tasks    int
	started  bool
	exited   *time.Duration // end of its process and group
	deadline time.Duration
	timedOut bool
	stopped  bool
	oom      string // first report of each kind, as a line for the reader
	refused  string
	protocol string    // why the executor stopped it
	deaths   []trouble // of processes that had a device and did not say goodbye
	faults   []trouble
	reports  map[results.EventKind]*reports
	stays    []stay        // one of each process on each device
	work     map[int]work  // of its processes, where their probes tell
	uses     map[int]int64 // bytes that its processes had in use at most, likewise

	waited       time.Duration // before its start, and in its probe
	blocked      int           // its tasks that wait for an answer
	blockedSince time.Duration // when the first of them asked
}

// Exit is how a job's process ended.
type Exit struct {
	Status      *int    // nil when a signal ended it or it never ran
	Signal      *string // such as "SIGKILL"
	Wrong       bool    // its own output check failed
	Err         error   // it could not be started or watched
	NotStarted  bool    // Err says nothing about the job
	UserS       *float64
	SysS        *float64
	MaxRSSBytes *int64
	StderrTail  string
}

func newBatch(c Config, x Executor, rec Recorder) (*Batch, error) {
	engine, err := engine.New(c.Devices, c.Scheduler.Policy, c.Scheduler.Config)
	if err != nil {
		return nil, err
	}
	if len(c.Jobs) == 0 {
		return nil, errors.New("run batch: the mix has no jobs")
	}
	b := &Batch{config: c, executor: x, recorder: rec, engine: engine,
		done: make(chan struct{}), tasks: map[schedulers.TaskID]*task{}}
	for i, spec := range c.Jobs {
		if i > 0 && spec.Group < c.Jobs[i-1].Group {
			return nil, fmt.Errorf("run batch: job %d of group %d is listed behind group %d", i, spec.Group, c.Jobs[i-1].Group)
		}
		if spec.Binding == mixes.BindDeclared && c.Scheduler.ClientsDecide {
			return nil, fmt.Errorf("run batch: job %d (%s) has binding: declared, but under arch=shared only processes with a probe get devices: use arch=server", i, spec.Command())
		}
		if spec.Isolate && c.Scheduler.ClientsDecide {
			return nil, fmt.Errorf("run batch: job %d (%s) has isolate: true, but under arch=shared clients share what has the memory free: use arch=server", i, spec.Command())
		}
		spec.Isolate = spec.Isolate || spec.KnownFault && c.Scheduler.IsolateKnown
		j := &job{spec: spec, deadline: schedulers.Never, reports: map[results.EventKind]*reports{}, record: results.Job{
			Index: i, Name: spec.Name, Command: spec.Command(), Class: spec.Class}}
		if spec.Footprint.Bytes > 0 {
			j.record.FootprintBytes = &spec.Footprint.Bytes
		}
		b.jobs = append(b.jobs, j)
	}
	return b, nil
}

// Done is closed when every job has ended.
func (b *Batch) Done() <-chan struct{} { return b.done }

// Arrive starts the batch: the jobs of its first group arrive.
func (b *Batch) Arrive(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrive(now)
	for _, j := range b.jobs[b.arrived:] {
		b.recorder.Job(j.record)
	}
	for _, e := range b.config.Notes {
		b.recorder.Event(e)
	}
	b.admit(now)
}

// JobStarted says that the job's process runs.
func (b *Batch) JobStarted(index int, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stir(now)
	j := b.jobs[index]
	j.record.StartS = new(seconds(now))
	j.waited += now - j.arrived // a task of it may have asked already: its process was there before this call
	j.record.WaitS = new(seconds(j.waited))
	limit := b.config.Timeout
	if j.spec.Timeout > 0 {
		limit = j.spec.Timeout
	}
	if limit > 0 {
		j.deadline = now + limit
		b.executor.WakeAt(j.deadline)
	}
	b.recorder.Job(j.record)
}

// JobExited says that the job's process and its group have ended, which is the job's
// end: nothing stops it any more. JobEnded follows, once everything is given back; an
// executor for which that is the same moment need not call JobExited.
func (b *Batch) JobExited(index int, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	j.exited = &now
	j.deadline = schedulers.Never
}

// JobEnded says that the job's process and all its children are gone, and what they
// held with them.
func (b *Batch) JobEnded(index int, e Exit, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	end := now
	if j.exited != nil {
		end = *j.exited
	}
	died := e.Signal != nil && len(j.work) == 0 && slices.ContainsFunc(j.stays, stay.open) // ProcessGone has seen to the others
	if died {
		j.deaths = append(j.deaths, trouble{job: index, at: end})
	}
	b.endTasksOf(index, now)
	b.countReports(index, now)
	j.record.UsedBytes = j.used()
	j.record.EndS = new(seconds(end))
	j.record.ExitStatus, j.record.Signal = e.Status, e.Signal
	j.record.UserS, j.record.SysS, j.record.MaxRSSBytes = e.UserS, e.SysS, e.MaxRSSBytes
	j.record.StderrTail = e.StderrTail
	outcome, detail := j.outcome(e)
	j.record.Outcome, j.record.Detail = &outcome, detail
	j.deadline = schedulers.Never
	if outcome == results.OK && j.tasks == 0 && !b.boundBeforeStart(j) {
		b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventUnscheduled, Job: &index,
			Detail: "it never asked for a device, so it ran unscheduled: if it uses one, give it binding: declared and its memory in the mix"})
	}
	b.recorder.Job(j.record)
	b.active--
	b.countEnd()
	b.stir(now)
	if died {
		b.unwell(j.stays, end)
	}
	b.carryOut(b.engine.JobExit(schedulers.JobID(index)), now)
	b.admit(now)
}

// countEnd is called once for each job, when it has its outcome.
func (b *Batch) countEnd() {
	b.ended++
	if b.ended == len(b.jobs) {
		close(b.done)
	}
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
func (b *Batch) countReports(index int, now time.Duration) {
	j := b.jobs[index]
	for _, kind := range slices.Sorted(maps.Keys(j.reports)) {
		if more := j.reports[kind].more; more > 0 {
			b.recorder.Event(results.Event{AtS: seconds(now), Kind: kind, Job: &index, Device: j.record.Device,
				Detail: fmt.Sprintf("%d more of these reports, which are not recorded", more)})
		}
	}
}

// ReportOOM says that an allocation of a process of a job failed.
func (b *Batch) ReportOOM(index, serial int, bytes uint64, where string, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	detail := fmt.Sprintf("out of memory: %d bytes in %s", bytes, where)
	if j.oom == "" {
		j.oom = detail
	}
	if !j.keeps(results.EventOOM, serial) {
		return
	}
	b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventOOM, Job: &index, Device: j.record.Device, Detail: detail})
}

// ReportFault says that a CUDA call of a process of a job showed a lasting error at time at.
func (b *Batch) ReportFault(index, serial, code int, where string, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	detail := fmt.Sprintf("CUDA error %d in %s", code, where)
	if !j.keeps(results.EventFault, serial) {
		return
	}
	j.faults = append(j.faults, trouble{job: index, process: serial, at: at, code: code, detail: detail, work: j.work[serial]})
	b.recorder.Event(results.Event{AtS: seconds(at), Kind: results.EventFault, Job: &index, Device: j.record.Device, Detail: detail})
	if !private(code) {
		b.unwell(j.staysOf(serial), at)
	}
}

// Limited says that requests of a job are refused without a word to the engine, because it
// has too many open.
func (b *Batch) Limited(index int, why string, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	if j.refused == "" {
		j.refused = why
	}
	b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventRefused, Job: &index, Device: j.record.Device, Detail: why})
}

// Misbehaved says that a process of a job broke the protocol of its probe, and stops the
// job.
func (b *Batch) Misbehaved(index int, why string, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	if j.record.Outcome != nil || j.exited != nil || j.protocol != "" {
		return
	}
	j.protocol = why
	b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventProtocol, Job: &index, Device: j.record.Device, Detail: why})
	b.executor.Stop(index)
}

// Note records something that the executor saw.
func (b *Batch) Note(e results.Event) { b.recorder.Event(e) }

// Tick ends what has waited or run too long, and tells where nothing happens.
func (b *Batch) Tick(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, j := range b.jobs {
		if j.deadline <= now && !j.timedOut {
			j.timedOut = true
			b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventTimeout, Job: &i, Device: j.record.Device})
			b.executor.Stop(i)
		}
	}
	b.carryOut(b.engine.Expire(now), now)
	b.tellQuiet(now)
}

// Cancel stops the jobs that run and withdraws the others.
func (b *Batch) Cancel(why string, now time.Duration) { b.withdraw(results.Cancelled, why, now) }

// Fail is Cancel for an executor that cannot go on: it could not start the others.
func (b *Batch) Fail(why error, now time.Duration) { b.withdraw(results.NotStarted, why.Error(), now) }

// withdraw stops the jobs that run, and gives the others their outcome.
func (b *Batch) withdraw(outcome results.Outcome, why string, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancelled || b.ended == len(b.jobs) {
		return
	}
	b.cancelled = true
	b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventCancelled, Detail: why})
	for i, j := range b.jobs {
		switch {
		case j.record.Outcome != nil || j.exited != nil:
		case j.started:
			j.stopped = true
			b.executor.Stop(i)
		default:
			j.record.Outcome, j.record.Detail = &outcome, why
			b.recorder.Job(j.record)
			b.countEnd()
		}
	}
}

// carryOut acts on the engine's decisions.
func (b *Batch) carryOut(ds []schedulers.Decision, now time.Duration) {
	for _, d := range ds {
		index := int(d.Task.Job)
		j := b.jobs[index]
		if j.record.Outcome != nil {
			continue // cancelled while it waited for its device
		}
		if d.Kind == schedulers.Granted && b.hold(d) {
			continue
		}
		if j.binding != d.Task.ID {
			b.answer(d, now)
			continue
		}
		if d.Kind == schedulers.Granted {
			b.start(index, d.Device)
			j.stay(0, d.Device, now)
			continue
		}
		j.refused = d.Reason.Error()
		j.record.EndS, j.record.WaitS = new(seconds(now)), new(seconds(now-j.arrived))
		j.record.Outcome, j.record.Detail = new(results.Refused), j.refused
		b.recorder.Job(j.record)
		b.active--
		b.countEnd()
		b.admit(now)
	}
	if t := b.engine.NextExpiry(); t != schedulers.Never {
		b.executor.WakeAt(t)
	}
}

// check keeps the first error of our own accounting.
func (b *Batch) check(err error) {
	if err != nil && b.broken == nil {
		b.broken = err
	}
}

func seconds(d time.Duration) float64 { return d.Seconds() }
