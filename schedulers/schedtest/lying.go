package schedtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// Lying is the property Preempting on a node where little can be relied on: processes stop and do not answer, answer late,
// twice, and what cannot be; the policy asks for anything at times; jobs are limited, and devices close and come back.
// The books are right all the same, no device has more than it holds, and nobody is waited for without end.
func (s Subject) Lying(queue engine.Order, bound func(policies.Scheduler) Bound) func(*rapid.T) {
	return func(rt *rapid.T) {
		m := newSwapping(rt, s, queue, bound, &lies{limits: map[schedulers.JobID]int{}})
		actions := m.actions()
		maps.Copy(actions, map[string]func(*rapid.T){
			"silence":  m.silence,
			"wake":     m.wake,
			"lie":      m.lie,
			"yield":    m.yieldItself,
			"shape":    m.shape,
			"limit":    m.limit,
			"lift":     m.lift,
			"close":    m.close,
			"open":     m.open,
			"push":     m.tick,
			"begin 2":  m.begin,
			"answer 2": m.answer,
		})
		rt.Repeat(actions)
		m.calmDown(rt)
		m.drain(rt)
	}
}

// grace is how long after its deadline an answer may come (engine.Config.Grace), without the time to copy.
const grace = 400 * time.Millisecond

// lies is what a node without order has beside others.
type lies struct {
	pushy  pushy
	limits map[schedulers.JobID]int
	closed map[int]bool // whether the device is gone
}

// pushy is a Preempter that at times asks, beside what it asks for by its rules, tasks for whatever comes to its mind.
type pushy struct {
	schedulers.Policy
	calm time.Duration // until when it does not; Never: for good
}

const pushes = 5 * time.Millisecond // between two times at which it does

func (p *pushy) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	out := p.Policy.(schedulers.Preempter).Revoke(waiting, v, now)
	if now <= p.calm || now%pushes != 0 {
		return out
	}
	for i := range v.Len() {
		for t := range v.Device(i).TaskViews() {
			draw := rand.New(rand.NewPCG(uint64(t.Task.ID), uint64(now))) // the same whenever it is asked
			if draw.IntN(4) > 0 {
				continue
			}
			r := schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Yield + schedulers.Action(draw.IntN(5)), Bytes: draw.Int64N(t.Resident + 1),
				Deadline: 10 * pushes, For: schedulers.Nobody, Device: draw.IntN(v.Len()+1) - draw.IntN(9)/8}
			if len(waiting) > 0 && draw.IntN(2) == 0 {
				r.For = waiting[draw.IntN(len(waiting))].Task.ID
			}
			out = append(out, r)
		}
	}
	return out
}

func (p *pushy) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := p.Policy.(schedulers.Preempter).NextTick(waiting, v, now)
	for i := 0; i < v.Len() && p.calm != schedulers.Never; i++ {
		if v.Device(i).Tasks() > 0 {
			return min(next, now.Truncate(pushes)+pushes)
		}
	}
	return next
}

func (p *pushy) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	return p.Policy.(schedulers.Preempter).NextLook(waiting, now)
}

// silence stops a process: it answers nothing any more.
func (m *swapping) silence(rt *rapid.T) {
	m.pick(rt, func(t *swapped) bool { return isHeld(t) && !t.silent }).silent = true
}

func (m *swapping) wake(rt *rapid.T) {
	m.pick(rt, func(t *swapped) bool { return t.silent }).silent = false
}

// lie answers what cannot be. Nothing changes.
func (m *swapping) lie(rt *rapid.T) {
	t := m.pick(rt, isHeld)
	answer := schedulers.Revoked{Outcome: schedulers.Done, Ticket: m.ticket + 1}
	if t.revoked != nil {
		view := m.view(t)
		answer = rapid.SampledFrom([]schedulers.Revoked{
			{Outcome: schedulers.Done, Ticket: t.revoked.Ticket, Resident: view.Resident + 1},
			{Outcome: schedulers.Done, Ticket: t.revoked.Ticket, Fixed: 1},
			{Outcome: schedulers.Done, Ticket: t.revoked.Ticket, Resident: view.Resident, Fixed: -1},
			{Outcome: schedulers.Busy, Ticket: t.revoked.Ticket - 1},
			{Outcome: schedulers.Unable, Ticket: t.revoked.Ticket + 1},
		}).Draw(rt, "answer that cannot be")
	}
	for _, e := range []*engine.Engine{m.engine, m.twin} {
		if ds, err := e.Revoked(t.task.ID, answer, m.now); err == nil || len(ds) > 0 {
			rt.Fatalf("task %d answers %+v: decided %q with error %v", t.task.ID, answer, Text(ds), err)
		}
	}
}

func (m *swapping) view(t *swapped) schedulers.TaskView {
	for v := range m.engine.View().Device(t.device).TaskViews() {
		if v.Task.ID == t.task.ID {
			return v
		}
	}
	return schedulers.TaskView{}
}

func (m *swapping) yieldItself(rt *rapid.T) {
	t := m.pick(rt, isHeld)
	m.contexts[t.device][t.task.Process()] = false
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Yielded(t.task.ID, m.now) })
}

func (m *swapping) shape(rt *rapid.T) {
	t, blocks := m.pick(rt, isHeld), rapid.Uint64Range(1, 9).Draw(rt, "blocks")
	t.task, _ = t.task.WithKernel(blocks, 32, 0)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Shape(t.task.ID, blocks, 32, 0) })
}

func (m *swapping) limit(rt *rapid.T) {
	m.setLimit(rt, m.drawJob(rt), rapid.IntRange(0, 2).Draw(rt, "devices"))
}

func (m *swapping) lift(rt *rapid.T) {
	if len(m.lies.limits) == 0 {
		rt.Skip("no limit")
	}
	m.setLimit(rt, rapid.SampledFrom(slices.Sorted(maps.Keys(m.lies.limits))).Draw(rt, "job"), engine.NoLimit)
}

func (m *swapping) setLimit(rt *rapid.T, job schedulers.JobID, devices int) {
	m.lies.limits[job] = devices
	if devices == engine.NoLimit {
		delete(m.lies.limits, job)
	}
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.Limit(job, devices, m.now), nil })
}

func (m *swapping) close(rt *rapid.T) {
	device, gone := rapid.IntRange(0, len(m.devices)-1).Draw(rt, "device"), rapid.Bool().Draw(rt, "gone")
	if m.lies.closed == nil {
		m.lies.closed = map[int]bool{}
	}
	m.lies.closed[device] = gone || m.lies.closed[device]
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.DeviceLost(device, gone, m.now), nil })
}

func (m *swapping) open(rt *rapid.T) {
	if len(m.lies.closed) == 0 {
		rt.Skip("no device is closed")
	}
	m.reopen(rt, rapid.SampledFrom(slices.Sorted(maps.Keys(m.lies.closed))).Draw(rt, "device"))
}

func (m *swapping) reopen(rt *rapid.T, device int) {
	delete(m.lies.closed, device)
	m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return e.DeviceAdded(device, m.now), nil })
}

// calmDown lets everybody do again what all rely on.
func (m *swapping) calmDown(rt *rapid.T) {
	m.lies.pushy.calm = schedulers.Never
	for _, t := range m.tasks {
		t.silent = false
	}
	for _, job := range slices.Sorted(maps.Keys(m.lies.limits)) {
		m.setLimit(rt, job, engine.NoLimit)
	}
	for _, device := range slices.Sorted(maps.Keys(m.lies.closed)) {
		m.reopen(rt, device)
	}
}

// mayGrant says why the task may not have what it was given, by limits and closed devices.
func (m *swapping) mayGrant(d schedulers.Decision) error {
	if m.lies == nil {
		return nil
	}
	process := d.Task.Process()
	_, here := m.contexts[d.Device][process]
	most, limited := m.lies.limits[d.Task.Job]
	gone, closed := m.lies.closed[d.Device]
	used := 0
	for i, c := range m.contexts {
		for p, has := range c {
			if p.Job == d.Task.Job && has && i != d.Device {
				used++
				break
			}
		}
	}
	has := here && m.contexts[d.Device][process]
	switch {
	case limited && most == 0:
		return fmt.Errorf("its job may use no device")
	case limited && d.Kind != schedulers.Grown && !has && used >= most && !m.usesOf(d.Task.Job, d.Device):
		return fmt.Errorf("its job uses %d other devices, of %d that it may", used, most)
	case closed && (gone && d.Kind != schedulers.Grown || d.Kind == schedulers.Granted && (d.Task.OnDevice == nil || !here)):
		return fmt.Errorf("the device is closed")
	}
	return nil
}

// usesOf reports whether a context of the job has a permit on the device.
func (m *swapping) usesOf(job schedulers.JobID, device int) bool {
	for p, has := range m.contexts[device] {
		if p.Job == job && has {
			return true
		}
	}
	return false
}

// movesTo has the tasks that are being moved to the device.
func (m *swapping) movesTo(device int) []*swapped {
	var out []*swapped
	for _, id := range m.ids(func(t *swapped) bool {
		return t.revoked != nil && t.revoked.Revocation.Action == schedulers.Move && t.revoked.Revocation.Device == device
	}) {
		out = append(out, m.tasks[id])
	}
	return out
}

// moved does what a move does to the process's account.
func (m *swapping) moved(t *swapped, to int) {
	from, p := t.device, t.task.Process()
	has := m.contexts[from][p]
	t.device = to
	m.contexts[to][p] = m.contexts[to][p] || has
	if has && len(m.ids(func(o *swapped) bool { return o.device == from && o.task.Process() == p })) == 0 {
		m.contexts[from][p] = false
	}
}
