// Package replay runs a recorded batch again in virtual time, for example under another
// policy. A recording is what runner.Config.Observe was given.
//
// A replayed process does what it did in the recording, and as long after what it waited
// for. Jobs that were given, limits and devices come when they came. An event of a process therefore follows its previous event, and the answers that it
// had by then, by the recorded time. The first event of a process follows the start of its
// job, and the ends of the job's processes that were gone by then. Under the scheduler of
// the recording a replay makes the same decisions in the same order, unless the recording
// had requests that expired or an MPS server that broke.
//
// What a replay cannot know is what a process does after an answer that it did not get in
// the recording. The events of a task that is refused in the replay alone are left out.
package replay

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// Executor does what the processes of a recorded batch did, once. It implements
// runner.Executor.
type Executor struct {
	starts map[int]*node // by job
	given  []*node       // what came from outside, when it came

	loop    *runner.Loop
	now     time.Duration
	agenda  agenda
	asked   map[schedulers.TaskID]*node // answers that are awaited, if the recording has them
	refused map[schedulers.TaskID]bool
	ended   map[int]bool // jobs
	err     error
}

// node is something that happened in the recording: the start of a job, an event, or the
// answer to a request.
type node struct {
	order  int          // in the recording
	event  runner.Event // nil: a start or an answer, which is the batch's doing
	job    int
	task   schedulers.TaskID // 0: none
	answer *node             // of a request that was answered

	at    time.Duration // in the recording
	waits int           // for so many others that come before it
	gap   time.Duration // since the last of the nodes that it waits for
	next  []*node       // nodes that wait for it
}

// New makes an Executor of the steps of a batch that ran to its end, in their order. Where
// clients decided by themselves, or where the batch was cancelled, the recording does not
// tell what the processes would do otherwise: that is an error.
func New(steps []runner.Step) (*Executor, error) {
	r := recording{jobs: map[int]*job{}, scripts: map[schedulers.Process]*script{}, tasks: map[schedulers.TaskID]*task{}}
	for _, s := range steps {
		r.now = max(r.now, s.At) // steps are in order; their times are those of several goroutines
		if err := r.event(s.Event); err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		for _, c := range s.Commands {
			switch c := c.(type) {
			case runner.Start:
				r.job(c.Job).start = r.add(&node{job: c.Job})
			case runner.Answer:
				r.answered(c.Decision.Task.ID)
			}
		}
	}
	x := &Executor{starts: map[int]*node{}, asked: map[schedulers.TaskID]*node{}, refused: map[schedulers.TaskID]bool{}, ended: map[int]bool{}}
	for i, j := range r.jobs {
		x.starts[i] = j.start
	}
	x.given = r.given
	return x, nil
}

// noJob is the job of what is of none.
const noJob = -1

// recording is turned into nodes, step by step.
type recording struct {
	now     time.Duration
	nodes   int
	jobs    map[int]*job
	scripts map[schedulers.Process]*script
	tasks   map[schedulers.TaskID]*task
	given   []*node
}

type job struct {
	start   *node
	last    *node     // its latest event of its own, such as JobExited
	scripts []*script // of its processes
	gone    []*node   // ends of its processes
}

// script is what a process did.
type script struct {
	last     *node
	answered []*node // since last
}

type task struct {
	process schedulers.Process
	asks    *node // the latest request
}

func (r *recording) job(index int) *job {
	if r.jobs[index] == nil {
		r.jobs[index] = &job{}
	}
	return r.jobs[index]
}

// add puts a node behind those that it waits for. A nil node is ignored.
func (r *recording) add(n *node, after ...*node) *node {
	r.nodes++
	n.order, n.at = r.nodes, r.now
	last := time.Duration(0)
	for _, a := range after {
		if a != nil {
			n.waits++
			a.next = append(a.next, n)
			last = max(last, a.at)
		}
	}
	n.gap = n.at - last
	return n
}

func (r *recording) event(e runner.Event) error {
	switch e := e.(type) {
	case runner.Arrive, runner.Tick, runner.Note, runner.Planned, runner.Used, runner.ServerFaulted, runner.ServerBroken, runner.ServerRecovered:
		// not of a process, or of a time at which processes have something else in the replay (Used)
	case runner.Given, runner.NoMore, runner.Limit, runner.DeviceAdded:
		r.given = append(r.given, r.add(&node{event: e, job: noJob}))
	case runner.DeviceLost:
		if !e.Planned {
			return errors.New("a device of it was lost")
		}
		r.given = append(r.given, r.add(&node{event: e, job: noJob}))
	case runner.Cancel, runner.Fail:
		return errors.New("the batch was cancelled")
	case runner.JobStarted:
		j := r.job(e.Job)
		j.last = r.add(&node{event: e, job: e.Job}, j.start)
	case runner.JobExited:
		r.ofJob(e.Job, e)
	case runner.JobEnded:
		r.ofJob(e.Job, e)
	case runner.Limited:
		r.ofJob(e.Job, e)
	case runner.Overfull:
		r.ofJob(e.Job, e)
	case runner.Misbehaved:
		r.ofJob(e.Job, e)
	case runner.Unreached:
		r.ofJob(e.Job, e)
	case runner.Hint:
		r.ofJob(e.Job, e)
	case runner.TaskBegin:
		r.tasks[e.Task.ID] = &task{process: e.Task.Process()}
		return r.ofTask(e.Task.ID, e, true)
	case runner.TaskGrow:
		return r.ofTask(e.ID, e, true)
	case runner.TaskShrink:
		return r.ofTask(e.ID, e, false)
	case runner.TaskShape:
		return r.ofTask(e.ID, e, false)
	case runner.TaskFree:
		return r.ofTask(e.ID, e, false)
	case runner.ProcessWork:
		r.ofProcess(e.Process, &node{event: e})
	case runner.ProcessUse:
		r.ofProcess(e.Process, &node{event: e})
	case runner.OutOfMemory:
		r.ofProcess(e.Process, &node{event: e})
	case runner.Fault:
		r.ofProcess(e.Process, &node{event: e})
	case runner.ProcessGone:
		j := r.job(int(e.Process.Job))
		j.gone = append(j.gone, r.ofProcess(e.Process, &node{event: e}))
	case runner.TaskResume, runner.TaskYielded, runner.TaskActive, runner.TaskRevoked, runner.TaskMoved:
		return errors.New("its scheduler took memory back")
	case runner.RoomAsked, runner.ManagedAsked: // they change nothing
	case runner.TaskDecided:
		return errors.New("its clients decided by themselves")
	default:
		return fmt.Errorf("%T is unknown", e)
	}
	return nil
}

// ofJob adds an event that follows all that the job did before.
func (r *recording) ofJob(index int, e runner.Event) {
	j := r.job(index)
	after := []*node{j.start, j.last}
	for _, t := range j.scripts {
		after = append(append(after, t.last), t.answered...)
	}
	j.last = r.add(&node{event: e, job: index}, after...)
}

func (r *recording) ofTask(id schedulers.TaskID, e runner.Event, asks bool) error {
	t := r.tasks[id]
	if t == nil {
		return fmt.Errorf("%T of task %d, which did not begin", e, id)
	}
	n := r.ofProcess(t.process, &node{event: e, task: id})
	if asks {
		t.asks = n
	}
	return nil
}

func (r *recording) ofProcess(p schedulers.Process, n *node) *node {
	n.job = int(p.Job)
	t, j := r.scripts[p], r.job(n.job)
	if t == nil {
		t = &script{last: r.add(n, slices.Concat(j.gone, []*node{j.start})...)}
		r.scripts[p] = t
		j.scripts = append(j.scripts, t)
		return n
	}
	r.add(n, slices.Concat(t.answered, []*node{t.last})...)
	t.last, t.answered = n, nil
	return n
}

func (r *recording) answered(id schedulers.TaskID) {
	t := r.tasks[id]
	n := r.add(&node{task: id, job: int(t.process.Job)})
	t.asks.answer = n
	of := r.scripts[t.process]
	of.answered = append(of.answered, n)
}

func (x *Executor) Run(ctx context.Context, l *runner.Loop) error {
	x.loop = l
	l.Post(0, runner.Arrive{})
	for _, n := range x.given {
		x.plan(n.at, n.order, func() { x.post(n) })
	}
	cancelled := false
	for !over(l) {
		if ctx.Err() != nil && !cancelled {
			cancelled = true
			l.Post(x.now, runner.Cancel{Why: context.Cause(ctx).Error()})
			continue
		}
		if len(x.agenda) == 0 {
			return errors.Join(x.err, errors.New("replay: nothing is due and jobs are left: they wait for each other"))
		}
		next := heap.Pop(&x.agenda).(due)
		x.now = next.at
		next.do()
	}
	return errors.Join(x.err, context.Cause(ctx))
}

func over(l *runner.Loop) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// plan has something done at a time. What is due at one time is done in the order of the
// recording.
func (x *Executor) plan(at time.Duration, order int, do func()) {
	heap.Push(&x.agenda, due{max(at, x.now), order, do})
}

// afterAll is the order of what is not in the recording.
const afterAll = math.MaxInt

// happened plans what has waited for a node alone.
func (x *Executor) happened(n *node) {
	for _, follower := range n.next {
		if follower.waits--; follower.waits == 0 {
			x.plan(x.now+follower.gap, follower.order, func() { x.post(follower) })
		}
	}
}

// post has an event happen, unless its job has ended or its task was refused.
func (x *Executor) post(n *node) {
	if x.ended[n.job] {
		return
	}
	if x.refused[n.task] {
		if n.answer != nil {
			x.happened(n.answer)
		}
		x.happened(n)
		return
	}
	if n.answer != nil {
		x.asked[n.task] = n.answer
	}
	if _, ends := n.event.(runner.JobEnded); ends {
		x.ended[n.job] = true
	}
	if err := x.loop.TryPost(x.now, n.event); err != nil {
		x.err = errors.Join(x.err, fmt.Errorf("replay: %T of job %d at %v: %w", n.event, n.job, x.now, err))
	}
	x.happened(n)
}

// Start carries out runner.Start. A job that did not run in the recording ends at once.
func (x *Executor) Start(job int, _ []int) {
	if n := x.starts[job]; n != nil {
		x.happened(n)
		return
	}
	x.end(job, runner.Exit{NotStarted: true, Err: errors.New("the job did not run in the recording")})
}

// Answer carries out runner.Answer.
func (x *Executor) Answer(d schedulers.Decision) {
	if d.Kind == schedulers.Refused {
		x.refused[d.Task.ID] = true
	}
	if n := x.asked[d.Task.ID]; n != nil {
		delete(x.asked, d.Task.ID)
		x.happened(n)
	}
}

// Plan carries out runner.Search, in no time.
func (x *Executor) Plan(search func() runner.Event) {
	x.plan(x.now, afterAll, func() { x.loop.Post(x.now, search()) })
}

// Stop carries out runner.Stop.
func (x *Executor) Stop(job int) { x.end(job, runner.Exit{Signal: new("SIGKILL")}) }

// end has a job end now, and leaves out what is left of its recording.
func (x *Executor) end(job int, e runner.Exit) {
	x.plan(x.now, afterAll, func() {
		if !x.ended[job] {
			x.ended[job] = true
			x.loop.Post(x.now, runner.JobEnded{Job: job, Exit: e})
		}
	})
}

// WakeAt carries out runner.WakeAt.
func (x *Executor) WakeAt(t time.Duration) {
	x.plan(t, afterAll, func() { x.loop.Post(x.now, runner.Tick{}) })
}

// due is something to do at a time.
type due struct {
	at    time.Duration
	order int
	do    func()
}

type agenda []due

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(due)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	d := (*a)[last]
	*a = (*a)[:last]
	return d
}

var _ runner.Executor = (*Executor)(nil)
