package schedtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// Bound is what a Preempter promises to a request that waits first, when nothing runs and every
// process answers: it goes if it fits beside what stays on the device.
type Bound struct {
	slots     int  // contexts with a permit on one device, which yield as a whole; 0: any number
	oneVictim bool // one context makes room for a request, or those that wait behind it
	advises   bool // some of its tasks can use memory on the host
	moves     bool // some of its tasks can move: one that waits for a slot, or
	balances  bool // any that has one, while nothing waits
	// idle is after which time a context yields, if another waits for its slot. It has no slot without a task. 0: it keeps its slot.
	idle time.Duration
	none bool // it promises nothing
}

// NoBound is of a Preempter that promises nothing to a request, as far as anybody knows.
func NoBound(policies.Scheduler) Bound { return Bound{none: true} }

// Preempting is the property Workload of a scheduler that takes back. Its random processes keep their
// own account of what they have on their devices, and answer as they like.
func (s Subject) Preempting(queue engine.Order, bound func(policies.Scheduler) Bound) func(*rapid.T) {
	return func(rt *rapid.T) {
		m := newSwapping(rt, s, queue, bound, nil)
		rt.Repeat(m.actions())
		m.drain(rt)
	}
}

func (m *swapping) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"begin":   m.begin,
		"resume":  m.resume,
		"grow":    m.grow,
		"shrink":  m.shrink,
		"look":    m.look,
		"active":  m.active,
		"answer":  m.answer,
		"tick":    m.tick,
		"expire":  m.expire,
		"release": m.release,
		"vanish":  m.vanish,
		"exit":    m.exit,
		"settle":  m.settle,
		"":        m.check,
	}
}

// swapping is a node of processes that move memory, beside the engine that decides about them.
type swapping struct {
	engine    *engine.Engine
	twin      *engine.Engine // exhaustive
	devices   []schedulers.Device
	scheduler policies.Scheduler
	bound     Bound
	now       time.Duration
	tasks     map[schedulers.TaskID]*swapped
	contexts  []map[schedulers.Process]bool // by device: whether the context has a permit
	looks     looks
	last      schedulers.TaskID
	lastJob   schedulers.JobID
	requests  int
	ticket    schedulers.Ticket
	lies      *lies // nil: everybody keeps to the rules
}

// swapped is a task that waits for a device, or has one. Sizes are in bytes.
type swapped struct {
	task      schedulers.Task
	device    int // -1: it waits
	asked     int // when it asked for what it waits for: the number of its request; 0: it waits for nothing
	allocated int64
	there     int64 // on the device
	fixed     int64 // of there

	resumes        bool
	kernel, loaded int64 // what its next kernel references; of that, on the device

	grows   int64
	growing bool

	revoked *schedulers.Decision
	issued  time.Duration // when that came
	late    bool          // nobody waits for the answer any more
	silent  bool          // it does not answer
	rest    time.Duration
	gave    time.Duration // when it last gave what it was asked for
	unable  schedulers.Actions
}

func newSwapping(rt *rapid.T, of Subject, queue engine.Order, bound func(policies.Scheduler) Bound, untrue *lies) *swapping {
	m := &swapping{devices: drawNode(rt), tasks: map[schedulers.TaskID]*swapped{}, lies: untrue}
	s, err := of.Settle(drawParameters(rt, of.Info, queue), len(m.devices))
	if err != nil {
		rt.Fatal(err)
	}
	if m.bound = bound(s); m.lies != nil {
		m.lies.pushy.Policy = s.Policy
		s.Policy, s.Config.Grace = &m.lies.pushy, grace
	}
	m.scheduler = s
	if m.engine, m.twin, err = twins(m.devices, s); err != nil {
		rt.Fatal(err)
	}
	m.looks = newLooks(len(m.devices))
	for range m.devices {
		m.contexts = append(m.contexts, map[schedulers.Process]bool{})
	}
	return m
}

// both makes the same call on the engine and on the exhaustive one, checks that they agree, and carries out
// the decisions.
func (m *swapping) both(rt *rapid.T, call func(*engine.Engine) ([]schedulers.Decision, error)) []schedulers.Decision {
	rt.Helper()
	for _, e := range []*engine.Engine{m.engine, m.twin} {
		e.Spend(m.now)
	}
	got, err := call(m.engine)
	if err != nil {
		rt.Fatal(err)
	}
	again, err := call(m.twin)
	if err != nil {
		rt.Fatal(err)
	}
	if diff := gocmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
		rt.Fatalf("the engine and the exhaustive engine decide differently (-engine +exhaustive):\n%s", diff)
	}
	logDecisions(rt, got)
	for _, d := range got {
		if err := m.carryOut(d); err != nil {
			rt.Fatalf("decision %v of task %d on device %d: %v", d.Kind, d.Task.ID, d.Device, err)
		}
	}
	checkRoom(rt, got, m.engine, func(schedulers.TaskID) bool { return false })
	return got
}

// carryOut does what a decision says, or says why it is wrong.
func (m *swapping) carryOut(d schedulers.Decision) error {
	t, ok := m.tasks[d.Task.ID]
	refuses := d.Kind == schedulers.Refused || d.Kind == schedulers.GrowRefused || d.Kind == schedulers.ResumeRefused
	switch {
	case !ok:
		return fmt.Errorf("no such task")
	case t.device >= 0 && d.Device != t.device:
		return fmt.Errorf("it is on device %d", t.device)
	case refuses && (d.Reason == nil || d.Reason.NeedBytes <= 0 && d.Reason.Cause == schedulers.TooLarge && m.lies == nil || d.Reason.CapacityBytes <= 0):
		return fmt.Errorf("reason %+v does not state need and capacity", d.Reason)
	case t.revoked != nil && !refuses && d.Kind != schedulers.Granted && d.Kind != schedulers.Unanswered:
		return fmt.Errorf("its ticket %d is outstanding", t.revoked.Ticket)
	case d.Host != 0 && (d.Host < 0 || !t.task.Can.Has(schedulers.Advise) || d.Host > t.lacks()):
		return fmt.Errorf("%d bytes of %d stay on the host: %+v", d.Host, t.lacks(), *t)
	}
	if d.Kind == schedulers.Granted || d.Kind == schedulers.Resumed || d.Kind == schedulers.Grown {
		if err := m.mayGrant(d); err != nil {
			return err
		}
	}
	switch d.Kind {
	case schedulers.Granted:
		if pin := t.task.OnDevice; t.device >= 0 || pin != nil && *pin != d.Device {
			return fmt.Errorf("it has device %d and wants %v", t.device, t.task.OnDevice)
		}
		t.device, t.asked, t.there = d.Device, 0, t.task.Needs()-d.Host
		m.contexts[t.device][t.task.Process()] = true
		m.looks.granted(t.device, t.task.Process())
	case schedulers.Refused:
		if t.device >= 0 {
			return fmt.Errorf("it has device %d", t.device)
		}
		delete(m.tasks, d.Task.ID)
	case schedulers.Resumed, schedulers.ResumeRefused:
		if !t.resumes {
			return fmt.Errorf("it does not wait to resume")
		}
		t.resumes, t.asked = false, 0
		if d.Kind == schedulers.Resumed {
			t.there += t.kernel - t.loaded - d.Host
			m.contexts[t.device][t.task.Process()] = true
		}
	case schedulers.Grown, schedulers.GrowRefused:
		if !t.growing {
			return fmt.Errorf("it does not wait to grow")
		}
		t.growing = false
		if d.Kind == schedulers.Grown {
			t.allocated += t.grows
			t.there += t.grows
		}
	case schedulers.Revoke:
		r := d.Revocation
		beneficiary, waits := m.tasks[r.For]
		switch {
		case d.Ticket <= m.ticket:
			return fmt.Errorf("ticket %d comes after ticket %d", d.Ticket, m.ticket)
		case t.device < 0 || !t.task.Can.Has(r.Action) || t.unable.Has(r.Action):
			return fmt.Errorf("it cannot be asked: %+v", *t)
		case m.now < t.rest:
			return fmt.Errorf("it was busy and is not asked before %v: %v", t.rest, m.now)
		case r.For != schedulers.Nobody && (!waits || !beneficiary.waits()):
			return fmt.Errorf("task %d waits for nothing", r.For)
		case r.For == d.Task.ID && m.lies == nil && m.isAlone(t):
			return fmt.Errorf("it is asked to give %d bytes for itself, is alone, and its memory fits", r.Bytes)
		case r.Action == schedulers.Move && m.lies == nil && !t.resumes && (!m.bound.balances || len(m.ids((*swapped).waits)) > 0 || m.devices[r.Device].SMs <= m.devices[t.device].SMs):
			return fmt.Errorf("it is moved, and waits for no slot: %+v", *r)
		case r.Deadline <= 0 || r.Bytes < 0 || r.Bytes > t.allocated:
			return fmt.Errorf("revocation %+v of a task of %d bytes", *r, t.allocated)
		}
		m.ticket, t.revoked, t.issued, t.late = d.Ticket, &d, m.now, false
		if r.Action == schedulers.Move {
			m.looks.granted(r.Device, t.task.Process())
		}
	case schedulers.Unanswered:
		if t.revoked == nil || t.late || m.now < t.issued+t.revoked.Revocation.Deadline+grace {
			return fmt.Errorf("it has time to answer: %+v", *t)
		}
		t.late = true
	}
	return nil
}

// isAlone reports whether t's process is the only one that has anything on its device, which has room for all that it has and asks for.
func (m *swapping) isAlone(t *swapped) bool {
	limits := m.devices[t.device]
	all := limits.ContextBytes
	for _, o := range m.tasks {
		switch {
		case o.device == t.device && o.task.Process() != t.task.Process():
			return false
		case o.device == t.device || o.device < 0 && o.task.Process() == t.task.Process():
			all += o.allocated
		}
		if o.device == t.device && o.growing {
			all += o.grows
		}
	}
	return len(m.contexts[t.device]) == 1 && m.looks.charged(t.device, anyJob) == 0 && all <= limits.CapacityBytes
}

// lacks is what the task asks to have on its device.
func (t *swapped) lacks() int64 {
	if t.device < 0 {
		return t.task.Needs()
	}
	return t.kernel - t.loaded
}

func (t *swapped) waits() bool { return t.device < 0 || t.resumes || t.growing }

// check compares the engine's accounting with the processes' own.
func (m *swapping) check(rt *rapid.T) {
	for i, limits := range m.devices {
		d := m.engine.View().Device(i)
		contexts, used, warps, permits := maps.Clone(m.contexts[i]), int64(0), uint64(0), 0
		for _, has := range m.contexts[i] {
			if has {
				permits++
			}
		}
		arriving := m.movesTo(i)
		for _, t := range arriving {
			contexts[t.task.Process()] = true
			used += m.view(t).Resident
			warps += t.task.Warps()
		}
		used += int64(len(contexts)) * limits.ContextBytes
		tasks := len(arriving)
		for v := range d.TaskViews() {
			t := m.tasks[v.Task.ID]
			tasks++
			if t == nil || t.device != i || v.Allocated != t.allocated || v.Resident < t.there || v.Resident > v.Allocated || v.Movable > v.Resident || len(arriving) == 0 && v.Permit != m.contexts[i][t.task.Process()] {
				rt.Fatalf("device %d: the view %+v of a task %+v", i, v, t)
			}
			used += v.Resident
			warps += t.task.Warps()
		}
		unaccounted := m.looks.charged(i, anyJob)
		if d.Tasks() != tasks || d.UsedBytes() != used+unaccounted || d.UsedWarps() != warps || used-m.looks.contexts(i)*limits.ContextBytes > limits.CapacityBytes {
			rt.Fatalf("device %d: %d tasks with %d bytes and %d warps, accounted as %d with %d and %d, capacity %d", i, tasks, used, warps, d.Tasks(), d.UsedBytes(), d.UsedWarps(), limits.CapacityBytes)
		}
		if n := d.Permits(); n < permits || n > permits+len(arriving) || m.lies == nil && m.bound.slots > 0 && n > m.bound.slots {
			rt.Fatalf("device %d: %d permits, accounted as %d, slots %d", i, permits, d.Permits(), m.bound.slots)
		}
	}
	if tick := m.engine.NextTick(); tick <= m.now {
		rt.Fatalf("at %v the next tick is at %v", m.now, tick)
	}
	m.twin.NextTick()
	for _, id := range m.ids(func(t *swapped) bool { return m.lies != nil && t.revoked != nil && !t.late }) {
		ends := m.tasks[id].issued + m.tasks[id].revoked.Revocation.Deadline + grace + time.Microsecond
		if next := m.engine.NextExpiry(); next > ends {
			rt.Fatalf("task %d is waited for until %v, and its time is over at %v", id, next, ends)
		}
	}
}

// pick draws a task that ok accepts.
func (m *swapping) pick(rt *rapid.T, ok func(*swapped) bool) *swapped {
	ids := m.ids(ok)
	if len(ids) == 0 {
		rt.Skip("no such task")
	}
	return m.tasks[rapid.SampledFrom(ids).Draw(rt, "task")]
}

// ids returns the tasks that ok accepts, in order.
func (m *swapping) ids(ok func(*swapped) bool) []schedulers.TaskID {
	var ids []schedulers.TaskID
	for id, t := range m.tasks {
		if ok(t) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func isHeld(t *swapped) bool { return t.device >= 0 }

// drawJob draws a job that has been, or the next.
func (m *swapping) drawJob(rt *rapid.T) schedulers.JobID {
	return schedulers.JobID(rapid.IntRange(1, int(m.lastJob)+1).Draw(rt, "job"))
}

func (m *swapping) begin(rt *rapid.T) {
	m.last++
	job := m.drawJob(rt)
	m.lastJob = max(m.lastJob, job)
	largest := int64(120)
	if m.lies != nil {
		largest = 30 // so that most find room, and may move
	}
	task := schedulers.Task{ID: m.last, Job: job, Serial: rapid.IntRange(0, 1).Draw(rt, "process"), Bytes: rapid.Int64Range(0, largest).Draw(rt, "bytes"),
		Priority: rapid.IntRange(0, 2).Draw(rt, "priority"), Wait: drawWait(rt)}
	if rapid.IntRange(0, 5).Draw(rt, "movable") > 0 {
		task.Can = schedulers.Movable
		if m.bound.advises && rapid.IntRange(0, 2).Draw(rt, "advisable") > 0 {
			task.Can |= 1 << schedulers.Advise
		}
		if m.bound.moves && rapid.IntRange(0, 2).Draw(rt, "can move") > 0 {
			task.Can |= 1 << schedulers.Move
		}
	}
	if m.lies != nil {
		task.Can |= schedulers.Actions(rapid.SampledFrom([]int{0, 31, rapid.IntRange(0, 31).Draw(rt, "actions")}).Draw(rt, "can") << 1)
	}
	if rapid.IntRange(0, 2).Draw(rt, "needs part") > 0 {
		task.Need = new(rapid.Int64Range(0, min(task.Bytes, 40)).Draw(rt, "need"))
	}
	if task.Can.Has(schedulers.Advise) {
		task.Stays = rapid.Int64Range(0, task.Needs()).Draw(rt, "may stay")
	}
	if rapid.IntRange(0, 4).Draw(rt, "pinned") == 0 {
		task.OnDevice = new(rapid.IntRange(0, len(m.devices)-1).Draw(rt, "on device"))
	}
	logTask(rt, task)
	m.requests++
	m.tasks[task.ID] = &swapped{task: task, device: -1, asked: m.requests, allocated: task.Bytes}
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Submit(task, m.now) })
}

func (m *swapping) resume(rt *rapid.T) {
	t := m.pick(rt, func(t *swapped) bool { return isHeld(t) && !t.resumes })
	t.kernel = rapid.Int64Range(0, t.allocated).Draw(rt, "references")
	least := max(0, t.kernel-(t.allocated-t.there)) // what is not on the host is on the device
	t.loaded = rapid.Int64Range(least, min(t.kernel, t.there)).Draw(rt, "of that on the device")
	m.requests++
	t.resumes, t.asked = true, m.requests
	if !m.scheduler.Config.KeepsPermit {
		m.contexts[t.device][t.task.Process()] = false
	}
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) {
		return e.Resume(t.task.ID, t.kernel-t.loaded, t.kernel, m.now)
	})
}

func (m *swapping) grow(rt *rapid.T) {
	t := m.pick(rt, func(t *swapped) bool { return isHeld(t) && !t.growing })
	wait := drawWait(rt)
	t.growing, t.grows = true, rapid.Int64Range(0, 30).Draw(rt, "grow by")
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Grow(t.task.ID, t.grows, wait, m.now) })
}

func (m *swapping) shrink(rt *rapid.T) {
	t := m.pick(rt, func(t *swapped) bool { return isHeld(t) && !t.resumes && t.allocated > t.fixed })
	bytes := rapid.Int64Range(0, t.allocated-t.fixed).Draw(rt, "shrink by")
	t.there -= rapid.Int64Range(max(0, bytes-(t.allocated-t.there)), min(bytes, t.there-t.fixed)).Draw(rt, "of that on the device")
	t.allocated -= bytes
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Shrink(t.task.ID, bytes) })
}

func (m *swapping) active(rt *rapid.T) {
	t := m.pick(rt, isHeld)
	if t.task.Can.Has(schedulers.Evict) {
		t.fixed = rapid.Int64Range(0, t.there).Draw(rt, "fixed")
	}
	m.report(rt, t, schedulers.Activity{Running: rapid.IntRange(0, 3).Draw(rt, "running") == 0, Last: m.now,
		Referenced: rapid.Int64Range(0, t.allocated).Draw(rt, "referenced"), Fixed: t.fixed})
}

func (m *swapping) report(rt *rapid.T, t *swapped, a schedulers.Activity) {
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return nil, e.Active(t.task.ID, a, m.now) })
}

func (m *swapping) answer(rt *rapid.T) {
	t := m.pick(rt, func(t *swapped) bool { return t.revoked != nil && !t.silent })
	o := rapid.SampledFrom([]schedulers.Outcome{schedulers.Done, schedulers.Done, schedulers.Done, schedulers.Busy, schedulers.Unable}).Draw(rt, "answer")
	freed := int64(0)
	if o == schedulers.Done {
		most := t.most()
		freed = rapid.Int64Range(min(most, t.revoked.Revocation.Bytes), most).Draw(rt, "freed")
		if rapid.IntRange(0, 7).Draw(rt, "less") == 0 {
			freed = rapid.Int64Range(0, most).Draw(rt, "freed at most")
		}
	}
	m.reply(rt, t, o, freed)
}

// most is what the task can give: all but what is fixed, and what it needs itself if it gives for
// itself.
func (t *swapped) most() int64 {
	most := t.there - t.fixed
	if t.revoked.Revocation.For == t.task.ID && t.resumes {
		most = min(most, t.there-t.loaded)
	}
	return most
}

func (m *swapping) reply(rt *rapid.T, t *swapped, o schedulers.Outcome, freed int64) {
	d := *t.revoked
	t.revoked = nil
	t.there -= freed
	if o == schedulers.Done {
		t.gave = m.now
	}
	if d.Revocation.For != t.task.ID { // perhaps what its kernel references
		t.loaded = max(0, t.loaded-freed)
	}
	switch {
	case o == schedulers.Busy:
		t.rest = m.now + d.Revocation.Deadline
	case o == schedulers.Unable:
		t.unable |= 1 << d.Revocation.Action
	case d.Revocation.Action == schedulers.Move:
		m.moved(t, d.Revocation.Device)
	case d.Revocation.Action == schedulers.Yield || d.Revocation.Action == schedulers.Stop:
		m.contexts[t.device][t.task.Process()] = false
	}
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) {
		return e.Revoked(t.task.ID, schedulers.Revoked{Ticket: d.Ticket, Outcome: o, Resident: t.there, Fixed: t.fixed}, m.now)
	})
	if _, err := m.engine.Revoked(t.task.ID, schedulers.Revoked{Ticket: d.Ticket, Outcome: schedulers.Done, Resident: t.there}, m.now); err == nil {
		rt.Fatalf("ticket %d was answered twice", d.Ticket)
	}
}

func (m *swapping) tick(rt *rapid.T) {
	m.now += rapid.SampledFrom([]time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, time.Second}).Draw(rt, "time passes")
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Tick(m.now, 0), nil })
}

func (m *swapping) expire(rt *rapid.T) {
	m.now += time.Duration(rapid.IntRange(0, 10).Draw(rt, "seconds")) * time.Second
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Expire(m.now), nil })
	if next := m.engine.NextExpiry(); next <= m.now {
		rt.Fatalf("at %v the next wait is over at %v", m.now, next)
	}
}

func (m *swapping) release(rt *rapid.T) {
	t := m.pick(rt, func(*swapped) bool { return true })
	delete(m.tasks, t.task.ID)
	m.endPermit(t)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Release(t.task.ID) })
}

// endPermit takes the permit of a context of which t was the last task, if it needs one.
func (m *swapping) endPermit(t *swapped) {
	p := t.task.Process()
	if m.bound.idle > 0 && isHeld(t) && len(m.ids(func(o *swapped) bool { return o.device == t.device && o.task.Process() == p })) == 0 {
		m.contexts[t.device][p] = false
	}
}

// end forgets processes that are gone.
func (m *swapping) end(gone func(schedulers.Process) bool) {
	maps.DeleteFunc(m.tasks, func(_ schedulers.TaskID, t *swapped) bool { return gone(t.task.Process()) })
	for _, c := range m.contexts {
		maps.DeleteFunc(c, func(p schedulers.Process, _ bool) bool { return gone(p) })
	}
	m.looks.forget(gone)
}

func (m *swapping) vanish(rt *rapid.T) {
	process := m.pick(rt, func(*swapped) bool { return true }).task.Process()
	m.end(func(p schedulers.Process) bool { return p == process })
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.ProcessExit(process), nil })
}

func (m *swapping) exit(rt *rapid.T) {
	m.exitJob(rt, m.drawJob(rt))
}

func (m *swapping) exitJob(rt *rapid.T, job schedulers.JobID) {
	m.end(func(p schedulers.Process) bool { return p.Job == job })
	if m.lies != nil {
		delete(m.lies.limits, job)
	}
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.JobExit(job), nil })
}

// settle lets every process finish its kernels and answer what it is asked, until nothing changes.
// The number of rounds is limited, because each one serves a request or finds out what a task can
// give.
func (m *swapping) settle(rt *rapid.T) {
	due := func(t *swapped) bool { return t.revoked != nil && !t.silent }
	rounds := 4*len(m.tasks) + 4
	if m.lies != nil {
		forGood := m.lies.pushy.calm == schedulers.Never
		m.lies.pushy.calm, rounds = schedulers.Never, 2*rounds+8
		if !forGood {
			defer func() { m.lies.pushy.calm = m.now }()
		}
	}
	for range rounds {
		changed := false
		for _, id := range m.ids(due) {
			if t := m.tasks[id]; t != nil && due(t) {
				changed = true
				m.reply(rt, t, schedulers.Done, min(t.most(), t.revoked.Revocation.Bytes))
				m.check(rt)
			}
		}
		m.now += 2 * time.Minute // more than any deadline
		for _, id := range m.ids(isHeld) {
			m.report(rt, m.tasks[id], schedulers.Activity{Last: m.now, Referenced: m.tasks[id].kernel, Fixed: m.tasks[id].fixed})
		}
		before := len(m.ids((*swapped).waits))
		if m.lies != nil {
			m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Expire(m.now), nil })
		}
		for _, later := range slices.Compact([]time.Duration{0, m.bound.idle}) {
			m.now += later
			m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Tick(m.now, 0), nil })
			m.check(rt)
		}
		if !changed && before == len(m.ids((*swapped).waits)) && len(m.ids(func(t *swapped) bool { return t.revoked != nil && !t.late })) == 0 {
			m.checkBound(rt)
			return
		}
	}
	rt.Fatalf("requests %v wait, and tasks are still being asked to give back after %d rounds", m.ids((*swapped).waits), rounds)
}

// checkBound checks that the first request waits only for what stays on its devices, or for a slot.
func (m *swapping) checkBound(rt *rapid.T) {
	if m.bound.none {
		return
	}
	ordered := m.scheduler.Config.Queue == engine.FIFO || m.scheduler.Config.Queue == engine.FirstFit
	if !ordered || m.scheduler.Config.AgeLimit > 0 || len(m.ids(func(t *swapped) bool { return t.growing })) > 0 {
		return
	}
	waiting := m.ids(func(t *swapped) bool { return t.waits() && t.revoked == nil })
	if len(waiting) == 0 || m.lies != nil && len(m.lies.limits)+len(m.lies.closed) > 0 {
		return
	}
	first := m.tasks[slices.MinFunc(waiting, func(a, b schedulers.TaskID) int { return cmp.Compare(m.tasks[a].asked, m.tasks[b].asked) })]
	for i := range m.devices {
		if first.device >= 0 && first.device != i || first.task.OnDevice != nil && *first.task.OnDevice != i {
			continue
		}
		if first.device < 0 && first.task.OnDevice == nil && m.hasContextElsewhere(first.task, i) {
			continue
		}
		if m.couldGo(first, i) {
			rt.Fatalf("task %d waits first, nothing runs, and device %d has room for it: %+v", first.task.ID, i, *first)
		}
	}
}

func (m *swapping) hasContextElsewhere(t schedulers.Task, device int) bool {
	for i := range m.devices {
		if here, _ := m.engine.View().Device(i).Context(t.Process()); here && i != device {
			return true
		}
	}
	return false
}

// couldGo reports whether the device has a slot for t, and room if those give who may.
func (m *swapping) couldGo(t *swapped, device int) bool {
	view, process := m.engine.View().Device(device), t.task.Process()
	here, _ := view.Context(process)
	if m.bound.slots > 0 && m.seatsKept(view, process) >= m.bound.slots {
		return false
	}
	need := t.lacks()
	if !here {
		need += m.devices[device].ContextBytes
	}
	own, others := int64(0), map[schedulers.Process]int64{}
	for v := range view.TaskViews() {
		switch {
		case v.Asked: // it does not answer
		case v.Task.ID == t.task.ID: // perhaps it references all that it has there
		case v.Task.Process() != process:
			others[v.Task.Process()] += v.Movable
		default:
			own += v.Movable
		}
	}
	for v := range view.TaskViews() {
		p := v.Task.Process()
		switch {
		case v.CanAsk(schedulers.Yield):
		case m.bound.slots > 0 && (v.Permit || v.Movable > 0): // a context yields as a whole
			delete(others, p)
		case v.Asked:
		case p != process:
			others[p] -= v.Movable
		}
	}
	all, largest, waiting := int64(0), int64(0), int64(0)
	for p, bytes := range others {
		all += bytes
		largest = max(largest, bytes)
		_, seated := view.Context(p)
		if m.bound.idle > 0 && !seated || len(m.ids(func(t *swapped) bool { return t.task.Process() == p && t.device == device && t.resumes })) > 0 {
			waiting += bytes
		}
	}
	if m.bound.oneVictim {
		all = max(largest, waiting)
	}
	return need <= view.FreeBytes()+own+all
}

// seatsKept is how many contexts other than that of p keep their permit: all, or those that cannot be asked for it.
func (m *swapping) seatsKept(d schedulers.DeviceView, p schedulers.Process) int {
	seats := d.Permits()
	if _, seated := d.Context(p); seated {
		seats--
	}
	if m.bound.idle == 0 {
		return seats
	}
	keeps := map[schedulers.Process]bool{}
	for v := range d.TaskViews() {
		if v.Permit && v.Task.Process() != p && !v.CanAsk(schedulers.Yield) {
			keeps[v.Task.Process()] = true
		}
	}
	return len(keeps)
}

// drain lets the jobs that wait for nothing exit one by one. At the end nobody may wait, and the
// node must be as it was at the start.
func (m *swapping) drain(rt *rapid.T) {
	m.settle(rt)
	for job, ok := m.free(); ok; job, ok = m.free() {
		m.exitJob(rt, job)
		m.settle(rt)
	}
	if waiting := m.ids((*swapped).waits); len(waiting) > 0 && !m.oneWaitsForItself() {
		rt.Fatalf("every job waits: %v", waiting)
	}
	for _, t := range slices.Collect(maps.Values(m.tasks)) {
		m.exitJob(rt, t.task.Job)
	}
	fresh, err := engine.New(m.devices, m.scheduler.Policy, m.scheduler.Config)
	if err != nil {
		rt.Fatal(err)
	}
	for i := range m.devices {
		if diff := gocmp.Diff(useOf(fresh.View().Device(i)), useOf(m.engine.View().Device(i))); diff != "" {
			rt.Fatalf("device %d after all jobs have gone (-want +got):\n%s", i, diff)
		}
	}
	if m.engine.Waiting() != 0 || m.engine.NextExpiry() != schedulers.Never || m.engine.NextTick() != schedulers.Never {
		rt.Fatalf("%d requests wait after all jobs have gone", m.engine.Waiting())
	}
}

// free returns the first job that has a context and waits for nothing.
func (m *swapping) free() (schedulers.JobID, bool) {
	waits, here := map[schedulers.JobID]bool{}, map[schedulers.JobID]bool{}
	for _, t := range m.tasks {
		waits[t.task.Job] = waits[t.task.Job] || t.waits()
	}
	for _, c := range m.contexts {
		for p := range c {
			here[p.Job] = true
		}
	}
	for _, job := range slices.Sorted(maps.Keys(here)) {
		if !waits[job] {
			return job, true
		}
	}
	return 0, false
}

// oneWaitsForItself reports whether a job that waits has a process or a task that does not, and may
// end by itself.
func (m *swapping) oneWaitsForItself() bool {
	waits := map[schedulers.Process]bool{}
	for _, t := range m.tasks {
		if t.waits() {
			waits[t.task.Process()] = true
		}
	}
	for _, t := range m.tasks {
		if !t.waits() {
			return true
		}
	}
	for _, c := range m.contexts {
		for p := range c {
			if !waits[p] {
				return true
			}
		}
	}
	return false
}
