// Package engine queues requests for devices and accounts what tasks hold.
//
// The rules beside the policy's are here:
//
//   - admission: a task is granted where the policy places it on a device that is open
//     to it (schedulers.DeviceView); a request that no empty node can serve is refused at
//     once;
//   - backpressure: every other request waits in the queue, as long as its wait limit
//     allows;
//   - head-of-line blocking: the queue's order says which later tasks may pass a task that
//     does not fit, and the age limit says how often (queue.go). A stalled request does
//     not hold back other requests (stalled.go);
//   - deadlock: requests that wait for each other for ever are found, and one of them is
//     refused (deadlock.go);
//   - oversubscription of memory is the policy's choice: managed memory that exceeds its
//     device (Placement.WholeMemory), or a policy without knowledge of memory;
//   - release on death: JobExit and ProcessExit give back everything at once.
//
// The policy is asked about a waiting task only if the task may fit (index.go), and what nothing has
// changed is not computed again. This does not change any decision: package schedtest compares them
// with those of an engine that does neither (Config.Exhaustive).
//
// docs/design/engine.md has the rules in the order in which a reader asks for them.
package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Config has the settings of the engine itself, not of the policy.
type Config struct {
	Queue     Order
	AgeLimit  int           // a task is passed at most this often before it blocks later tasks; 0: any number of times
	WaitLimit time.Duration // a request without its own limit that waits longer is refused; 0: it may wait for ever

	// Grace is how long after its deadline an answer to a revocation may come, beside the time to copy
	// (slowestCopy). After that the device is not kept for the request any more; 0: it is kept until the answer
	// comes, or the task ends.
	Grace time.Duration

	// PermitNeedsTask: under a Preempter, a context loses its permit with its last task. There would be nobody to ask for it.
	PermitNeedsTask bool

	// KeepsPermit: under a Preempter, a context that asks to resume by itself keeps its permit meanwhile.
	KeepsPermit bool

	// Exhaustive asks the policy about each waiting task at each call, and computes everything again.
	// It is what tests and benchmarks compare the engine with: the same decisions, but slow.
	Exhaustive bool
}

// Engine owns the accounting of the devices and the queue of waiting tasks, and asks its
// policy where a task may go. Each call answers at once with all the decisions that
// follow from it, in the order in which they were made. It is not safe for concurrent
// use.
type Engine struct {
	policy  schedulers.Policy
	config  Config
	devices []schedulers.Device
	state   *state
	empty   *state    // the node as it was, to tell "not now" from "never"
	ever    *measures // of empty; nil if the policy does not measure
	queue   *queue
	held    map[schedulers.TaskID]*holding
	growing []*growth // by arrival

	grants       uint64 // of devices so far
	grown        uint64 // growths so far
	parkedGrowth []*growth
	limits       map[schedulers.JobID]int // how many devices a job may use
	shut         int                      // devices that are not open
	sealed       bool                     // Seal

	now       time.Duration        // of the latest call that said its time
	preempter schedulers.Preempter // the policy, if it takes back; else nil
	issued    schedulers.Ticket    // the latest
	resting   int                  // tasks that are not asked for a while (revocable.rest)
	settled   bool                 // under a Preempter: the latest pump left nothing to do, and only the time has changed since
	acts      time.Duration        // when the policy wants to act, as it said last
	acting    bool                 // that time has come
	requested []schedulers.Request // those of the latest pump

	plan schedulers.Plan // that is followed; none: the queue's order and the policy decide

	withheld  *state                    // the node with what waiting jobs have there; nil: no request can be stalled
	stalls    *measures                 // of withheld
	withholds map[schedulers.JobID]bool // the jobs that have something in withheld
	node      *state                    // that withheld is when it is not nil
	waiters   map[schedulers.JobID]bool // the same of withholds
	stale     bool                      // withheld, and which requests are stalled, may have changed
}

// holding is a task with its device.
type holding struct {
	task       schedulers.Task
	bytes      int64 // charged: what it has on the device, growth included
	allocated  int64 // what it has anywhere; less than bytes if it is charged the whole device
	at         schedulers.Placement
	other      *holding // of a task that has several devices, its next place
	growth     *growth  // that it waits for; nil: none
	pays       int      // for so many devices
	grant      uint64   // the number of the grant of its device
	*revocable          // nil unless the policy is a Preempter
}

// New returns an engine for the devices in node order.
func New(devices []schedulers.Device, policy schedulers.Policy, config Config) (*Engine, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("new engine: no devices")
	}
	for i, d := range devices {
		if d.CapacityBytes <= 0 || d.ContextBytes < 0 || d.SMs <= 0 || d.WarpsPerSM <= 0 || d.BlocksPerSM <= 0 {
			return nil, fmt.Errorf("new engine: device %d (%s): capacity %d bytes, context %d bytes, %d SMs of %d warps and %d blocks: each must be positive",
				i, d.Name, d.CapacityBytes, d.ContextBytes, d.SMs, d.WarpsPerSM, d.BlocksPerSM)
		}
	}
	preempter, _ := policy.(schedulers.Preempter)
	e := &Engine{
		policy: policy, preempter: preempter, config: config, devices: slices.Clone(devices),
		state: newState(devices), empty: newState(devices), node: newState(devices), waiters: map[schedulers.JobID]bool{},
		queue: newQueue(config), acts: schedulers.Never,
		held: map[schedulers.TaskID]*holding{},
	}
	e.ever = e.measuresOf(e.empty)
	if m := e.measuresOf(e.state); m != nil {
		e.queue.index = &index{m, e.queue}
	}
	return e, nil
}

// View is the accounting as it stands.
func (e *Engine) View() schedulers.View { return e.state }

// Waiting is the number of requests in the queue.
func (e *Engine) Waiting() int { return e.queue.len() }

// Submit asks for a device for t, or for several at once (Terms.Devices). An id in use or a negative size is an error
// and changes nothing. So is a task for several devices of a job that has or had other tasks, or whose memory moves,
// and a task beside such a task. It cannot grow, shrink, have another shape or resume.
func (e *Engine) Submit(t schedulers.Task, now time.Duration) ([]schedulers.Decision, error) {
	e.at(now)
	if t.Bytes < 0 {
		return nil, fmt.Errorf("submit task %d of job %d: negative size %d", t.ID, t.Job, t.Bytes)
	}
	if e.known(t.ID) {
		return nil, fmt.Errorf("submit task %d of job %d: the id is in use", t.ID, t.Job)
	}
	if err := e.checkSeveral(t); err != nil {
		return nil, err
	}
	if e.preempter == nil {
		t.Need = nil
	} else if t.Needs() < 0 || t.Needs() > t.Bytes || t.Stays < 0 || t.Stays > t.Needs() {
		return nil, fmt.Errorf("submit task %d of job %d: it needs %d of its %d bytes, and %d may stay on the host", t.ID, t.Job, t.Needs(), t.Bytes, t.Stays)
	}
	_, fits := e.ask(t)
	if !fits && !e.fits(t, e.empty, e.ever) {
		return []schedulers.Decision{{Kind: schedulers.Refused, Task: t, Device: -1, Reason: e.tooLarge(t)}}, nil
	}
	w := e.queue.push(t, e.limit(t.Wait, now), now)
	if w.limit.longest == 0 {
		return e.nowOrNever(w), nil
	}
	e.stall(w)
	e.park(w)
	if !fits || e.queue.len() > 1 {
		e.touch(t.Job)
	}
	// The present state has turned down every request that waited before.
	if fits || e.stale || e.preempter != nil || e.planned() || e.nodeDeadlock() || e.deviceDeadlock() != nil {
		return e.pump(), nil
	}
	return nil, nil
}

// nowOrNever grants w, the latest request, if it is w's turn, and otherwise refuses w. w
// never waits, so that a refusal leaves no trace.
func (e *Engine) nowOrNever(w *waiting) []schedulers.Decision {
	first, p, ok := e.next()
	if e.planned() {
		first = w
		p, ok = e.atOnce(w)
	}
	if !ok || first != w {
		return []schedulers.Decision{e.timedOut(e.queue.take(w))}
	}
	return append([]schedulers.Decision{e.grant(e.queue.grant(w), p)}, e.pump()...)
}

// Release gives back everything that task id holds, or withdraws it from the queue. An
// unknown id is an error and changes nothing.
func (e *Engine) Release(id schedulers.TaskID) ([]schedulers.Decision, error) {
	if !e.known(id) {
		return nil, fmt.Errorf("release task %d: no such task", id)
	}
	if w := e.queue.get(id); w != nil {
		e.queue.take(w)
		e.touch(w.task.Job)
	}
	if h, ok := e.held[id]; ok {
		e.drop(h)
		e.touch(h.task.Job)
	}
	return e.pump(), nil
}

// Shape says that task id, which has its device, has a kernel of this size. The kernel
// counts if it is the task's largest so far (Task.WithKernel), or the first of a task
// whose grid was unknown. The task keeps its device.
func (e *Engine) Shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32) ([]schedulers.Decision, error) {
	h, err := e.one(id, "shape")
	if err != nil {
		return nil, err
	}
	t, larger := h.task.WithKernel(blocks, threadsPerBlock, blocksPerSM)
	if !larger {
		return nil, nil
	}
	d := &e.state.devices[h.at.Device]
	d.usedWarps += t.Warps() - h.task.Warps()
	if h.moves() {
		e.state.devices[h.ticket.Device].usedWarps += t.Warps() - h.task.Warps()
	}
	d.vacate(h.at)
	h.task, h.at = t, e.policy.Reshape(t, h.at, d)
	d.occupy(h.at)
	e.state.change(d.index)
	e.touch(t.Job)
	return e.pump(), nil
}

// JobExit gives back everything that the job holds and waits for, its contexts included,
// however it ended.
func (e *Engine) JobExit(job schedulers.JobID) []schedulers.Decision {
	e.leavePlan(job)
	e.unlimit(job)
	return e.exit(job, func(p schedulers.Process) bool { return p.Job == job })
}

// ProcessExit gives back everything that one process holds and waits for. Its job may continue.
func (e *Engine) ProcessExit(process schedulers.Process) []schedulers.Decision {
	return e.exit(process.Job, func(p schedulers.Process) bool { return p == process })
}

// exit removes processes of a job that end together, so that no task of theirs is granted
// memory that another of their tasks held.
func (e *Engine) exit(job schedulers.JobID, gone func(schedulers.Process) bool) []schedulers.Decision {
	e.touch(job) // while it has its contexts
	for _, w := range slices.Clone(e.queue.ofJob(job)) {
		if gone(w.task.Process()) {
			e.queue.take(w)
		}
	}
	for _, id := range slices.Clone(e.state.tasksOf(job)) {
		if h := e.held[id]; gone(h.task.Process()) {
			e.drop(h)
		}
	}
	e.state.leave(job, func(c context) bool { return gone(c.process) })
	e.state.forget(gone)
	return e.pump()
}

// NextExpiry is when Expire must next be called; Never if nothing expires.
func (e *Engine) NextExpiry() time.Duration {
	next := e.queue.nextExpiry()
	for _, growths := range [][]*growth{e.growing, e.parkedGrowth} {
		for _, g := range growths {
			next = min(next, g.limit.expires)
		}
	}
	if e.config.Grace > 0 && e.preempter != nil {
		for h := range e.listed() {
			if h.due() {
				next = min(next, h.ticket.ends)
			}
		}
	}
	return min(next, e.nextPassing())
}

// Expire refuses the requests that have waited as long as they may, and waits no longer for answers whose time is over.
func (e *Engine) Expire(now time.Duration) []schedulers.Decision {
	e.at(now)
	var decisions []schedulers.Decision
	for _, w := range e.queue.expire(now) {
		e.touch(w.task.Job)
		decisions = append(decisions, e.timedOut(w))
	}
	for _, g := range slices.Concat(e.growing, e.parkedGrowth) {
		if g.limit.expires <= now {
			e.endGrowth(g)
			decisions = append(decisions, e.growRefused(g.holding, g.bytes, schedulers.TimedOut, g.limit.why()))
		}
	}
	decisions = append(decisions, e.endTickets()...)
	if len(decisions) == 0 && e.settled && e.acts > e.now {
		return nil
	}
	return append(decisions, e.pump()...)
}

func (e *Engine) timedOut(w *waiting) schedulers.Decision {
	return e.refuse(w, schedulers.TimedOut, w.limit.why())
}

// pump makes every grant that is possible now, and resolves the deadlocks.
func (e *Engine) pump() []schedulers.Decision {
	if e.preempter != nil {
		return e.pumpRevoking()
	}
	e.enforce()
	decisions := e.pumpGrowth()
	for {
		e.enforce()
		e.findStalled()
		if e.nodeDeadlock() {
			d, _ := e.resolveNodeDeadlock() // without a Preempter everything answers
			decisions = append(decisions, d)
		} else if g := e.deviceDeadlock(); g != nil {
			decisions = append(decisions, e.resolveDeviceDeadlock(g))
		} else if w, p, ok := e.next(); ok {
			decisions = append(decisions, e.grant(e.queue.grant(w), p))
		} else {
			return decisions
		}
	}
}

func (e *Engine) grant(w *waiting, p schedulers.Placement) schedulers.Decision {
	if w.resumes != nil {
		return e.resumed(w)
	}
	e.leavePlan(w.task.Job)
	e.grants++
	if w.task.Several() {
		return e.grantSeveral(w)
	}
	h := &holding{task: w.task, bytes: e.state.add(w.task, p), allocated: w.task.Bytes, at: p, grant: e.grants}
	e.held[w.task.ID] = h
	e.pay(h, 1)
	if e.preempter != nil {
		e.enlist(h, w)
	}
	e.touch(w.task.Job)
	return schedulers.Decision{Kind: schedulers.Granted, Task: w.task, Device: p.Device, Passed: w.passed, Host: w.host}
}

// next returns the first waiting task that may go now, and its placement. A stalled task does
// not hold back other tasks.
func (e *Engine) next() (*waiting, schedulers.Placement, bool) {
	if e.planned() {
		return e.nextPlanned()
	}
	head := e.queue.head()
	for w := e.queue.candidate(nil); w != nil && !e.queue.stops(head, w); w = e.queue.candidate(w) {
		if p, ok := e.place(w); ok {
			return w, p, true
		}
	}
	return nil, schedulers.Placement{}, false
}

// place asks the policy where w may go now.
func (e *Engine) place(w *waiting) (schedulers.Placement, bool) {
	if w.resumes != nil && w.resumes.ticket != nil {
		return schedulers.Placement{}, false
	}
	if w.task.Several() {
		at, ok := e.askSeveral(w.task)
		if !ok {
			return schedulers.Placement{}, false
		}
		w.at = at
		return at[0], true
	}
	p, ok := e.ask(w.task)
	if !ok && e.queue.index != nil {
		e.queue.index.refused(w)
	}
	return p, ok
}

// ask asks the policy where t may go now, unless the index knows that t may go nowhere. If there is
// one device for t, the policy is asked about that device only.
func (e *Engine) ask(t schedulers.Task) (schedulers.Placement, bool) {
	if t.Several() {
		_, ok := e.askSeveral(t)
		return schedulers.Placement{}, ok
	}
	if x := e.queue.index; x != nil {
		x.refresh()
		one, several := x.where(t)
		if one == nil {
			return schedulers.Placement{}, false
		}
		if !several {
			t.OnDevice = one
		}
	}
	return e.policy.Place(t, e.state)
}

// fits reports whether the policy places t in s, whose measures are m; m is nil if the policy does not
// measure.
func (e *Engine) fits(t schedulers.Task, s *state, m *measures) bool {
	if t.Several() {
		if m != nil && !m.hasSeveral(t) {
			return false
		}
		_, ok := e.together(t, s)
		return ok
	}
	if m != nil {
		one, several := m.where(t)
		if one == nil {
			return false
		}
		there := t
		there.OnDevice = one
		if _, ok := e.policy.Place(there, s); ok || !several {
			return ok
		}
	}
	_, ok := e.policy.Place(t, s)
	return ok
}

// measuresOf returns the measures of s, or nil if the policy does not measure, or must not. Preempters
// do not: where their tasks may go depends on permits, and on memory that can move.
func (e *Engine) measuresOf(s *state) *measures {
	if m, ok := e.policy.(schedulers.Measurer); ok && e.preempter == nil && !e.config.Exhaustive {
		return newMeasures(m, s)
	}
	return nil
}

func (e *Engine) drop(h *holding) {
	if h.growth != nil {
		e.endGrowth(h.growth)
	}
	if h.moves() {
		e.endMove(h, false)
	}
	delete(e.held, h.task.ID)
	e.pay(h, 0)
	e.leave(h)
	for o := h.other; o != nil; o = o.other {
		e.leave(o)
	}
}

// leave gives back one place of a task.
func (e *Engine) leave(h *holding) {
	e.state.remove(h.task, h.bytes, h.at)
	if e.preempter == nil {
		return
	}
	e.delist(h)
	if d, p := &e.state.devices[h.at.Device], h.task.Process(); e.config.PermitNeedsTask && !d.hasTaskOf(p) {
		d.unpermit(p)
	}
}

func (e *Engine) known(id schedulers.TaskID) bool {
	_, held := e.held[id]
	return held || e.queue.get(id) != nil
}

// limit is the wait limit of a request that comes now.
func (e *Engine) limit(wait *time.Duration, now time.Duration) limit {
	longest := e.config.WaitLimit
	switch {
	case wait != nil:
		longest = max(*wait, 0)
	case longest <= 0:
		return limit{schedulers.Never, schedulers.Never}
	}
	if longest > schedulers.Never-now {
		return limit{longest, schedulers.Never}
	}
	return limit{longest, now + longest}
}
