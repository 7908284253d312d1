package engine

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Revocation: under a Preempter, what a task has on its device can go to the host and come back.
//
//   - Accounting: a task is charged what it has on the device. A grant charges what it brings
//     there at once. A revocation frees nothing before its answer is in.
//   - Permits: a context has a permit from a grant to its Yield, or until it asks to resume. A
//     request to resume waits in the queue together with those of new tasks.
//   - Tickets: a task has one at most. It gets nothing while it has one, so that its answer says
//     exactly what it has. A task that answers Busy is not asked again for the length of its
//     deadline, and a task that answers Unable never again for that action. The end of a task
//     withdraws its ticket. A process that does not answer in time (Config.Grace) keeps its ticket: it is
//     asked for nothing more and gets nothing, and its answer counts whenever it comes. But nobody waits for it.
//   - Advice: a task that was asked to advise uses memory on the host while it has its permit, or until the advice is taken
//     back. A request that is advised needs less on the device.
//   - For whom: a revocation that is for nobody reserves nothing, and nobody waits for it.
//   - Reservation: a device on which room is being made for a request is open to no other request
//     of the queue, until every answer is in and the policy asks no other task.
//   - Deadlock: a request to resume waits like one to grow (deadlock.go). A device on which an
//     answer may still come is not in deadlock (device.live).

// revocable is what the engine knows of a task under a Preempter.
type revocable struct {
	referenced int64
	untouched  int64 // of referenced
	fixed      int64
	advised    *schedulers.Advice
	kept       int64 // on the device after it gave less than it was asked for; 0 once it launches again
	can        schedulers.Actions
	running    bool // as far as its context has a permit
	busy       bool
	busySince  time.Duration // since when each look has shown it busy, and none of its work has ended
	ended      uint64
	stopped    bool
	lost       time.Duration // as in TaskView
	last       time.Duration
	given      time.Duration // when it was last granted its device, or resumed
	got        time.Duration // when it last got anything onto its device
	gave       time.Duration // when it last answered that it has given what it was asked for
	ticket     *ticket
	rest       time.Duration // until when it is not asked, because it was busy; 0: it may be asked
	resume     *waiting      // its request to resume
}

type ticket struct {
	id                    schedulers.Ticket
	schedulers.Revocation               // Bytes: what is still to go out
	ends                  time.Duration // when nobody waits for the answer any more
	late                  bool          // that time is over
	elsewhere             bool          // the request that it is for got another device
}

// isLate reports whether the time for h's answer is over.
func (h *holding) isLate() bool { return h.revocable != nil && h.ticket != nil && h.ticket.late }

// slowestCopy is how fast memory that moves goes to the host at least, in bytes per second: that of a
// PCIe 3.0 link that several processes share.
const slowestCopy = 1 << 30

// copyTime is the longest time that so many bytes take to the host or back.
func copyTime(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / slowestCopy * float64(time.Second))
}

// due reports whether an answer to a revocation is waited for.
func (h *holding) due() bool { return h.ticket != nil && !h.ticket.late }

// endTickets no longer waits for the answers whose time is over.
func (e *Engine) endTickets() []schedulers.Decision {
	if e.config.Grace == 0 || e.preempter == nil {
		return nil
	}
	var decisions []schedulers.Decision
	for h := range e.listed() {
		if !h.due() || h.ticket.ends > e.now {
			continue
		}
		h.ticket.late = true
		e.stallTask(h)
		e.settled = false
		e.touch(h.task.Job)
		decisions = append(decisions, schedulers.Decision{Kind: schedulers.Unanswered, Task: h.task, Device: h.at.Device, Ticket: h.ticket.id})
	}
	return decisions
}

// Resume asks for the permit of a context whose task id has its device: need bytes of the task
// must come onto the device before its next kernel runs, which references a number of bytes that
// includes them. The answer is Resumed or ResumeRefused. A task asks once at a time, and may be
// asked to give back meanwhile: what it then loses is added to what must come, as far as its
// kernel may reference it. The device has done what the context has submitted.
func (e *Engine) Resume(id schedulers.TaskID, need, referenced int64, now time.Duration) ([]schedulers.Decision, error) {
	return e.ResumePart(id, need, need, referenced, now)
}

// ResumePart is Resume where no more than a number of the bytes may stay on the host (Advise).
func (e *Engine) ResumePart(id schedulers.TaskID, need, stays, referenced int64, now time.Duration) ([]schedulers.Decision, error) {
	e.at(now)
	h, err := e.one(id, "resume")
	switch {
	case e.preempter == nil:
		return nil, fmt.Errorf("resume task %d: the scheduler takes nothing back", id)
	case err != nil:
		return nil, err
	case need < 0 || stays < 0 || stays > need || need > referenced || referenced > h.allocated:
		return nil, fmt.Errorf("resume task %d: %d of %d referenced bytes, of %d that it has", id, need, referenced, h.allocated)
	case h.resume != nil:
		return nil, fmt.Errorf("resume task %d: it waits to resume already", id)
	}
	e.settled = false
	e.endBurst(h, !e.config.KeepsPermit)
	h.referenced, h.kept = referenced, 0
	d, t := &e.state.devices[h.at.Device], h.task
	t.OnDevice, t.Need, t.Stays, t.Wait = &d.index, &need, stays, nil
	h.resume = e.queue.push(t, e.limit(nil, now), now)
	h.resume.resumes = h
	e.pay(h, 0)
	if !e.couldResume(h, d.limits) {
		return []schedulers.Decision{e.resumeRefused(e.queue.take(h.resume), schedulers.TooLarge, "its kernel references more than the device has")}, nil
	}
	e.touch(t.Job)
	if h.isLate() {
		e.stallTask(h)
	}
	e.park(h.resume)
	return e.pump(), nil
}

// couldResume reports whether h, which waits to, could resume if it were alone on a device.
func (e *Engine) couldResume(h *holding, on schedulers.Device) bool {
	need := *h.resume.task.Need
	alone := device{limits: on, usedBytes: sumBytes(on.ContextBytes, max(e.kept(h), h.referenced-need))}
	return e.policy.CanGrow(need, &alone)
}

// Yielded enters that the context of task id has given up its permit by itself: nothing that it has submitted is on the
// device. A ticket of the task is answered nevertheless.
func (e *Engine) Yielded(id schedulers.TaskID, now time.Duration) ([]schedulers.Decision, error) {
	e.at(now)
	h, err := e.one(id, "yield")
	switch {
	case e.preempter == nil:
		return nil, fmt.Errorf("yield task %d: the scheduler takes nothing back", id)
	case err != nil:
		return nil, err
	}
	e.endBurst(h, true)
	e.touch(h.task.Job)
	return e.pump(), nil
}

// endBurst enters that the device has done what h's context submitted, and whether the context has no permit any more. The activity page
// may have been read before.
func (e *Engine) endBurst(h *holding, unpermits bool) {
	if unpermits {
		e.state.devices[h.at.Device].unpermit(h.task.Process())
	}
	h.running = false
	h.busy, h.last, h.advised = false, e.now, nil
}

// Revoked enters a process's answer. A ticket that is not outstanding, and numbers that cannot
// be, are errors and change nothing.
func (e *Engine) Revoked(id schedulers.TaskID, answer schedulers.Revoked, now time.Duration) ([]schedulers.Decision, error) {
	e.at(now)
	h, ok := e.held[id]
	switch {
	case !ok || e.preempter == nil || h.ticket == nil || h.ticket.id != answer.Ticket:
		return nil, fmt.Errorf("task %d answers ticket %d: it is not outstanding", id, answer.Ticket)
	case answer.Lost < 0:
		return nil, fmt.Errorf("task %d answers ticket %d: %v lost", id, answer.Ticket, answer.Lost)
	case answer.Outcome == schedulers.Done && (answer.Fixed < 0 || answer.Fixed > answer.Resident || answer.Resident > h.bytes):
		return nil, fmt.Errorf("task %d answers ticket %d: %d bytes on the device, %d of them fixed, of %d that it had", id, answer.Ticket, answer.Resident, answer.Fixed, h.bytes)
	}
	h.lost = time.Duration(sumBytes(int64(h.lost), int64(answer.Lost)))
	r, wasLate := h.ticket.Revocation, h.isLate()
	if h.moves() {
		e.endMove(h, answer.Outcome == schedulers.Done)
	}
	h.ticket = nil
	var decisions []schedulers.Decision
	switch answer.Outcome {
	case schedulers.Busy:
		e.setRest(h, e.now+r.Deadline)
	case schedulers.Unable:
		h.can = h.can.Without(r.Action)
	case schedulers.Done:
		decisions = e.done(h, r, answer)
	}
	e.touch(h.task.Job)
	if wasLate {
		e.stallTask(h)
	}
	if h.resume != nil { // it can move no more, or has moved
		e.park(h.resume)
	}
	if h.growth != nil {
		e.parkGrowth(h.growth)
	}
	return append(decisions, e.pump()...), nil
}

// done enters that h has done what r asks for. What it waits for may not fit on the device to which it has moved.
func (e *Engine) done(h *holding, r schedulers.Revocation, answer schedulers.Revoked) (refused []schedulers.Decision) {
	freed, wanted := h.bytes-answer.Resident, r.Bytes
	if r.Action == schedulers.Advise { // of other memory nothing goes out
		wanted = min(wanted, h.movable())
	}
	h.fixed, h.busy, h.gave = answer.Fixed, false, e.now // the device had done all of it, or stopped
	e.charge(h, answer.Resident)
	if w := h.resume; w != nil && r.For != h.task.ID { // what went out may be what it asked to have
		more := min(freed, max(0, h.referenced-*w.task.Need))
		w.task.Need, w.task.Stays = new(*w.task.Need+more), w.task.Stays+min(more, answer.Moved.Bytes)
	}
	switch r.Action {
	case schedulers.Yield, schedulers.Stop:
		d := &e.state.devices[h.at.Device]
		h.stopped = h.stopped || d.permitted(h.task.Process())
		d.unpermit(h.task.Process())
		h.advised = nil
	case schedulers.Advise:
		h.advise(r.Bytes, e.now)
	case schedulers.Move:
		return e.stranded(h)
	}
	if freed < wanted {
		e.spend(h, r.For)
	}
	return nil
}

// advise notes that so many bytes of what h uses stay on the host from now on; 0: none any more.
func (h *holding) advise(bytes int64, now time.Duration) {
	if bytes == 0 {
		h.advised = nil
		return
	}
	a := schedulers.Advice{Since: now, Limit: max(h.bytes, h.used()-bytes)}
	if h.advised != nil {
		a.Since = h.advised.Since
	}
	h.advised = &a
}

// used is TaskView.Used.
func (h *holding) used() int64 {
	return schedulers.TaskView{Resident: h.bytes, Referenced: h.referenced, Untouched: h.untouched, Advised: h.advised}.Used()
}

// adviseRequest leaves up to so many bytes of what w needs on the host. It reports whether w needs less now.
func (e *Engine) adviseRequest(w *waiting, bytes int64) bool {
	can := w.task.Can
	if w.resumes != nil {
		can = w.resumes.can
	}
	need := w.task.Needs()
	bytes = min(bytes, need, w.task.Stays)
	if bytes <= 0 || !can.Has(schedulers.Advise) {
		return false
	}
	w.task.Need, w.task.Stays = new(need-bytes), w.task.Stays-bytes
	w.host += bytes
	e.touch(w.task.Job)
	e.park(w)
	return true
}

// spend notes that h gave less than it was asked for, so that no request waits for more.
func (e *Engine) spend(h *holding, beneficiary schedulers.TaskID) {
	if beneficiary != h.task.ID {
		h.kept = h.bytes
		return
	}
	if h.resume != nil { // another request may have what its kernel references
		h.resume.spent = true
	}
	if h.growth != nil {
		h.growth.spent = true
	}
}

// Active enters what the activity page of task id's process says. Nothing follows before the next
// Tick. A page that was last written before the task's latest grant does not make it idle: a
// task keeps what it was granted for at least one call.
func (e *Engine) Active(id schedulers.TaskID, a schedulers.Activity, now time.Duration) error {
	e.at(now)
	h, ok := e.held[id]
	switch {
	case !ok || e.preempter == nil || h.task.Several():
		return fmt.Errorf("activity of task %d: it has no device, or the scheduler takes nothing back", id)
	case a.Referenced < 0 || a.Fixed < 0 || a.Untouched < 0 || a.Untouched > a.Referenced:
		return fmt.Errorf("activity of task %d: %d bytes referenced, %d of them not reached, %d fixed", id, a.Referenced, a.Untouched, a.Fixed)
	}
	if a.Busy && (!h.busy || a.Ended != h.ended) {
		h.busySince = e.now
	}
	h.ended = a.Ended
	h.fixed, h.busy = min(a.Fixed, h.bytes), a.Busy
	if h.resume == nil {
		h.referenced = min(a.Referenced, h.allocated)
	}
	h.untouched = min(a.Untouched, h.referenced)
	if a.Last > h.gave { // what it has launched since may have changed what it can give
		h.kept = 0
	}
	if a.Running || a.Last > h.given {
		h.running, h.last = a.Running, max(h.last, a.Last)
	}
	e.settled = false
	e.touch(h.task.Job)
	return nil
}

// Tick asks the policy what to take back at this time, if it wanted to act now or anything has changed. The caller
// enters what the activity pages say (Active) before. If nothing follows from the tick, nothing happens before quiet.
// Ticks until then at which the policy would only look would decide nothing, so they count as made, and NextTick
// leaves them out.
func (e *Engine) Tick(now, quiet time.Duration) []schedulers.Decision {
	e.at(now)
	if e.preempter == nil {
		return nil
	}
	if e.acting || !e.settled {
		decisions := e.pump()
		e.acting, e.acts = false, schedulers.Never
		if len(decisions) > 0 {
			return decisions
		}
	}
	if e.settled && e.resting == 0 && quiet > e.now {
		e.NextTick()
		e.now = e.lastLook(min(quiet, e.acts))
	}
	return nil
}

// lastLook returns when the policy would look last before a time, which may be many looks away; now if it would not.
func (e *Engine) lastLook(before time.Duration) time.Duration {
	next := func(from time.Duration) time.Duration { return e.preempter.NextLook(e.requested, from) }
	last := next(e.now)
	if last >= before {
		return e.now
	}
	for back := last - e.now; before-back > last; back *= 2 {
		if look := next(before - back); look < before {
			last = look
			break
		}
	}
	for look := next(last); look < before; look = next(look) {
		last = look
	}
	return last
}

// NextTick is when Tick must next be called; Never if it need not be.
func (e *Engine) NextTick() time.Duration { return e.nextTick(true) }

// NextAct is when Tick must next be called although no process does anything any more; Never if it need not be.
func (e *Engine) NextAct() time.Duration { return e.nextTick(false) }

func (e *Engine) nextTick(looks bool) time.Duration {
	if e.preempter == nil {
		return schedulers.Never
	}
	requests := e.requested
	if !e.settled {
		requests = e.requests()
	}
	e.acts = e.preempter.NextTick(requests, e.state, e.now)
	next := e.acts
	if looks {
		next = min(next, e.preempter.NextLook(requests, e.now))
	}
	if (len(requests) > 0 || e.reclaims()) && e.resting > 0 {
		for h := range e.listed() {
			if h.rest > 0 {
				next = min(next, h.rest)
			}
		}
	}
	return next
}

// pumpRevoking makes every grant that is possible now, asks for room for the requests that remain,
// and resolves the deadlocks.
func (e *Engine) pumpRevoking() []schedulers.Decision {
	var decisions []schedulers.Decision
	e.settled = false
	for {
		e.enforce()
		decisions = append(decisions, e.pumpGrowth()...)
		e.findStalled()
		if w, p, ok := e.next(); ok {
			decisions = append(decisions, e.grant(e.queue.grant(w), p))
			continue
		}
		reclaimed := e.reclaim()
		decisions = append(decisions, reclaimed...)
		requests := e.requests()
		asked, advised := e.revoke(requests)
		decisions = append(decisions, asked...)
		reserved, reopened := e.reserve(requests)
		if reopened || advised {
			continue
		}
		ended, ok := e.endDeadlock()
		if !ok {
			e.settled = len(asked)+len(reclaimed) == 0 && !reserved && !e.config.Exhaustive
			return decisions
		}
		decisions = append(decisions, ended...)
	}
}

// endDeadlock resolves a deadlock, perhaps by an offer, which is no decision yet. It reports whether it did.
func (e *Engine) endDeadlock() ([]schedulers.Decision, bool) {
	if e.nodeDeadlock() {
		if e.offerWhole(e.growing) {
			return nil, true
		}
		if d, ok := e.resolveNodeDeadlock(); ok {
			return []schedulers.Decision{d}, true
		}
	}
	g := e.deviceDeadlock()
	switch {
	case g == nil:
		return nil, false
	case e.offerWhole([]*growth{g}):
		return nil, true
	}
	return []schedulers.Decision{e.resolveDeviceDeadlock(g)}, true
}

// revoke asks the policy what to take back for the requests, and carries it out as far as it can be. It reports whether a request
// needs less than before.
func (e *Engine) revoke(requests []schedulers.Request) (decisions []schedulers.Decision, advised bool) {
	if len(requests) == 0 && !e.acting {
		return nil, false
	}
	for _, r := range e.preempter.Revoke(requests, e.state, e.now) {
		if w := e.queue.get(r.Task); w != nil && r.Action == schedulers.Advise && r.For == r.Task {
			advised = e.adviseRequest(w, r.Bytes) || advised
			continue
		}
		h, ok := e.held[r.Task]
		if !ok || r.For != schedulers.Nobody && !waits(requests, r.For) {
			continue
		}
		d := &e.state.devices[h.at.Device]
		switch {
		case !d.view(h).CanAsk(r.Action), d.isReservedFrom(r.For):
			continue
		case r.Action == schedulers.Move && !e.canMove(h, r.Device), r.Action != schedulers.Move && !d.gives(h, r):
			continue
		}
		decisions = append(decisions, e.issue(h, r))
		if r.For != schedulers.Nobody {
			d.reserved = &h.ticket.For
		}
	}
	return decisions, advised
}

// reserve reserves devices for the requests for which room is being made there. It reports whether any device is
// reserved for another request than before, and whether one is open to more requests than before.
func (e *Engine) reserve(requests []schedulers.Request) (reserved, reopened bool) {
	for i := range e.state.devices {
		d := &e.state.devices[i]
		before := d.reserved
		d.reserved = nil
		for _, h := range d.held {
			if h.due() && !h.ticket.elsewhere && waits(requests, h.ticket.For) {
				d.reserved = &h.ticket.For
				break
			}
		}
		moved := before != nil && (d.reserved == nil || *d.reserved != *before)
		reserved = reserved || moved || before == nil && d.reserved != nil
		reopened = reopened || moved
	}
	return reserved, reopened
}

// gives reports whether h has a permit, bytes or advice that r would take, or uses managed memory.
func (d *device) gives(h *holding, r schedulers.Revocation) bool {
	if r.Action == schedulers.Advise && (r.Bytes == 0 || h.used() > h.bytes) {
		return r.Bytes > 0 || h.advised != nil
	}
	permit := r.Action == schedulers.Yield || r.Action == schedulers.Stop
	return min(r.Bytes, h.movable()) > 0 || permit && d.permitted(h.task.Process())
}

// issue asks h for what r says.
func (e *Engine) issue(h *holding, r schedulers.Revocation) schedulers.Decision {
	e.issued++
	if r.Action == schedulers.Move {
		r.Bytes = h.bytes
	}
	h.ticket = &ticket{id: e.issued, Revocation: r, ends: e.now + r.Deadline + e.config.Grace + copyTime(r.Bytes)}
	if r.Action == schedulers.Move {
		e.beginMove(h)
	}
	return schedulers.Decision{Kind: schedulers.Revoke, Task: h.task, Device: h.at.Device, Ticket: e.issued, Revocation: &r}
}

// waits reports whether one of the requests is the task's.
func waits(requests []schedulers.Request, id schedulers.TaskID) bool {
	for i := range requests {
		if requests[i].Task.ID == id {
			return true
		}
	}
	return false
}

// requests sets requested to the requests that wait, in the order in which the engine serves them, and returns it.
func (e *Engine) requests() []schedulers.Request {
	out := e.requested[:0]
	e.requested = out
	if len(e.growing)+e.queue.len()+len(e.queue.parked) == 0 {
		return out
	}
	var asked []schedulers.TaskID // those for which others are
	for h := range e.listed() {
		if h.due() && !h.ticket.elsewhere {
			asked = append(asked, h.ticket.For)
		}
	}
	for _, g := range e.growthInTurn() {
		h, t := g.holding, g.holding.task
		t.OnDevice = &h.at.Device
		out = append(out, schedulers.Request{Task: t, Bytes: g.bytes, Grows: true, Asked: slices.Contains(asked, t.ID), Own: e.own(h, g.needed(), g.spent), Since: g.since})
	}
	for w := range e.queue.all() {
		r := schedulers.Request{Task: w.task, Bytes: w.task.Needs(), Asked: slices.Contains(asked, w.task.ID), Since: w.since}
		if h := w.resumes; h != nil {
			r.Task.Can = h.can
			r.Own = e.own(h, h.referenced-r.Bytes, w.spent)
		}
		out = append(out, r)
	}
	for _, w := range e.queue.parked {
		if h := w.resumes; h != nil && e.mustLeave(h) && !h.moves() { // it needs room on another device, for all that it has
			t := w.task
			t.OnDevice, t.Can, t.Need = nil, h.can, new(t.Needs()+h.bytes)
			out = append(out, schedulers.Request{Task: t, Bytes: *t.Need, Asked: slices.Contains(asked, t.ID), Since: w.since})
		}
	}
	e.requested = out
	return out
}

// own returns what h can be asked to evict for itself, if its next kernel needs some of what it
// has on the device.
func (e *Engine) own(h *holding, needed int64, spent bool) int64 {
	if v := e.state.devices[h.at.Device].view(h); !spent && v.CanAsk(schedulers.Evict) {
		return max(0, v.Movable-max(0, needed))
	}
	return 0
}

// resumed answers w. The caller has taken w out of the queue.
func (e *Engine) resumed(w *waiting) schedulers.Decision {
	h := w.resumes
	h.resume = nil
	e.pay(h, 1)
	e.charge(h, min(h.bytes+w.task.Needs(), h.allocated))
	e.give(h, w)
	e.touch(h.task.Job)
	return schedulers.Decision{Kind: schedulers.Resumed, Task: h.task, Device: h.at.Device, Passed: w.passed, Host: w.host}
}

// resumeRefused states the memory that w's task would hold if it resumed, its context included.
func (e *Engine) resumeRefused(w *waiting, cause schedulers.Cause, why string) schedulers.Decision {
	h := w.resumes
	h.resume = nil
	e.pay(h, 1)
	limits, stays := e.devices[h.at.Device], max(e.kept(h), h.referenced-w.task.Needs())
	return schedulers.Decision{Kind: schedulers.ResumeRefused, Task: h.task, Device: h.at.Device, Passed: w.passed, Reason: &schedulers.Refusal{
		Cause: cause, Why: why, NeedBytes: sumBytes(sumBytes(stays, limits.ContextBytes), w.task.Needs()), CapacityBytes: limits.CapacityBytes}}
}

// enlist enters a task that was granted its device, for which it waited as w.
func (e *Engine) enlist(h *holding, w *waiting) {
	h.revocable = &revocable{can: h.task.Can, referenced: h.task.Needs() + w.host}
	e.state.devices[h.at.Device].list(h)
	e.give(h, w)
	for o := range e.listed() { // what it may wait for next is another request, on this device
		if o.ticket != nil && o.ticket.For == h.task.ID && o.at.Device != h.at.Device {
			o.ticket.elsewhere = true
		}
	}
}

func (e *Engine) delist(h *holding) {
	e.setRest(h, 0)
	e.state.devices[h.at.Device].unlist(h)
}

// give notes that h was granted its device, or resumed, for which it waited as w.
func (e *Engine) give(h *holding, w *waiting) {
	h.running, h.last, h.given, h.got, h.kept, h.stopped, h.advised = true, e.now, e.now, e.now, 0, false, nil
	if w.host > 0 {
		h.advised = &schedulers.Advice{Since: e.now, Limit: h.bytes}
	}
	d := &e.state.devices[h.at.Device]
	d.lend(h.task.Process(), lent{}) // both are its own now
	d.permit(h.task.Process(), permit{e.now, e.now - w.since, h.task.Terms.OrNone().Ranks})
}

func byID(a, b *holding) int { return cmp.Compare(a.task.ID, b.task.ID) }

// kept is what h keeps on its device whatever it is asked for.
func (e *Engine) kept(h *holding) int64 {
	if e.preempter == nil {
		return h.bytes
	}
	return h.bytes - h.movable()
}

func (h *holding) movable() int64 {
	if !h.can.Has(schedulers.Evict) {
		return 0
	}
	return max(0, h.bytes-max(h.fixed, h.kept))
}

// view is h as policies see it on d, where it is.
func (d *device) view(h *holding) schedulers.TaskView {
	its, permit := d.permits[h.task.Process()]
	v := schedulers.TaskView{Task: h.task, Allocated: h.allocated, Resident: h.bytes, Referenced: min(h.referenced, h.allocated),
		Untouched: min(h.untouched, h.referenced, h.allocated), Advised: h.advised, Fixed: min(h.fixed, h.bytes), Movable: h.movable(), Running: h.running && permit, Busy: h.busy, Last: h.last,
		Permit: permit, PermitSince: its.since, Waited: its.waited, Stopped: h.stopped, Lost: h.lost, ResidentSince: h.got, Can: h.can, Asked: h.ticket != nil || h.rest > 0}
	if !h.can.Has(schedulers.Evict) {
		v.Fixed = h.bytes
	}
	return v
}

// at notes the time, which a Preempter and a plan need.
func (e *Engine) at(now time.Duration) {
	e.Spend(now)
	e.now = max(e.now, now)
	e.acting = e.acting || e.acts <= e.now
	if e.resting == 0 {
		return
	}
	for h := range e.listed() {
		if h.rest > 0 && h.rest <= e.now {
			e.setRest(h, 0)
			e.settled = false
		}
	}
}

// setRest says until when h is not asked; 0: it may be asked.
func (e *Engine) setRest(h *holding, until time.Duration) {
	if h.rest > 0 {
		e.resting--
	}
	if h.rest = until; until > 0 {
		e.resting++
	}
}

// listed has the tasks of all devices, by device and id.
func (e *Engine) listed() iter.Seq[*holding] {
	return func(yield func(*holding) bool) {
		for i := range e.state.devices {
			for _, h := range e.state.devices[i].held {
				if !yield(h) {
					return
				}
			}
		}
	}
}
