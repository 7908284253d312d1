package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// swap is the process's side of a scheduler that takes memory back (docs/design/movable-memory.md). Each
// step that works on the device needs the permission of the process's context, and what the step uses
// on the device.
type swap struct {
	permit     bool
	known      bool                 // the scheduler knows no less than told
	brings     int64                // bytes that the latest growth brings to the device
	referenced int64                // bytes that the latest step on the device used
	last       time.Duration        // when the latest step on the device ended
	ended      uint64               // how many of them have
	ticket     *schedulers.Decision // a revocation without an answer
	asked      time.Duration        // when it came
	lost       time.Duration        // how long the kernel had run that was stopped for it
	moving     *activity            // memory is on its way to the host or to another device, and the gate is closed
	in         *pool                // in which moving is
	arrives    *arrival             // what it has taken where it moves to; nil: it does not move to another device
	locked     bool                 // its job is taken out, or is out (checkpoint.go), and the gate is closed
	held       func()               // goes on when the gate is open
	told       schedulers.Activity  // the latest
	advised    bool                 // kernels use on the host what is there
	limit      *int64               // bytes of managed memory that are on the device at most, unless they were there before; nil: any
	touched    int64                // bytes of managed memory that the latest kernel has reached
}

// Moving memory on an H200: page-locked copies reach 55 of the link's 63 GB/s in one direction,
// and a chunk of 32 MiB takes 15 us beside them: 4 on its way out, and 27 back. Both are of one series of measurements
// (docs/design/movable-memory.md); other models are scaled by their links.
const (
	pinnedShare  = 55.0 / 63
	chunkBytes   = 32 << 20
	chunkSeconds = 15e-6
)

// stopping is how long a kernel that is stopped goes on: until each of its blocks has come to the end of a round of its
// outermost loop, where it looks whether to stop. Sweeps of 4 GiB on an H200 took so long.
const stopping = 1500 * time.Microsecond

// move is a step in which so many bytes change their place.
type move struct {
	step
	copyS float64 // of soloS
}

// move returns the step in which so many bytes change their place. `copied` of them must be copied,
// because the other side lacks their contents.
func (m *Model) move(bytes, copied int64) move {
	return moveOf(bytes, float64(copied)/m.LinkBytesPerS, pinnedShare)
}

// moveOf is the move of so many bytes over a link. The link needs least seconds for what is copied, and copies reach this share of its rate.
func moveOf(bytes int64, least, share float64) move {
	copyS := least / share
	solo := copyS + math.Ceil(float64(bytes)/chunkBytes)*chunkSeconds
	return move{step{on: link, demand: least / solo, soloS: solo}, copyS}
}

// took says what the move of so many bytes took if it lasted so long: others on the link slow all of
// it down alike.
func (m move) took(bytes int64, lasted time.Duration) schedulers.Moved {
	copying := time.Duration(float64(lasted) * (m.copyS / m.soloS))
	return schedulers.Moved{Bytes: bytes, Copy: copying, Bookkeeping: lasted - copying}
}

// withManaged returns the most memory that a job with these steps has at one time, if some of it is managed; else 0.
func withManaged(steps []profiles.Step) (most int64) {
	if !slices.ContainsFunc(steps, func(s profiles.Step) bool { return s.Managed }) {
		return 0
	}
	has, sum := map[string]int64{}, int64(0)
	for i := range steps {
		switch s := &steps[i]; s.Kind {
		case profiles.Allocate:
			has[s.Object] = s.Bytes
			sum += s.Bytes
		case profiles.Free:
			sum -= has[s.Object]
		}
		most = max(most, sum)
	}
	return most
}

// needs returns the bytes that a step of a process without a device uses there.
func (p *process) needs(s *profiles.Step) int64 {
	need := int64(0)
	if s.Kind == profiles.Allocate && !s.Managed {
		need = s.Bytes
	}
	for _, o := range p.task.objects {
		if s.Uses(o.name) && !o.managed() {
			need += o.bytes
		}
	}
	return need
}

// placed returns the bytes that a grant brings to the device of what is allocated already.
func (p *process) placed() int64 {
	if !p.movable {
		return p.task.used
	}
	need := p.needs(p.todo[0].Step)
	if s := p.todo[0]; s.Kind == profiles.Allocate && !s.Managed {
		need -= s.Bytes
	}
	return need
}

// brought returns the part of a new object that comes to the device at once: what the scheduler has
// been asked for. The rest follows when it is used.
func (p *process) brought(bytes int64) int64 {
	if p.movable {
		return min(bytes, p.swap.brings)
	}
	return bytes
}

// resumes asks the scheduler where a step may not work on the device yet. The answer comes to
// resumed.
func (p *process) resumes(s *step) bool {
	if !p.movable || !p.task.open || !onDevice(s.Kind) {
		return false
	}
	need, referenced := p.references(s)
	if p.swap.permit && (need == 0 || p.swap.advised) {
		return false
	}
	p.recordKernels()
	p.swap.referenced = referenced // until the step has begun, too: nobody takes what it waits for
	p.post(runner.TaskResume{ID: p.id(), Need: need, Referenced: referenced, Stays: need})
	return true
}

// references returns what a step uses, as the scheduler is told: of managed memory no more than the device has room for.
func (p *process) references(s *step) (need, referenced int64) {
	managed := int64(0)
	for _, o := range p.task.objects {
		switch {
		case !s.Uses(o.name):
		case o.managed():
			managed += o.bytes
		default:
			need += o.bytes - o.resident
			referenced += o.bytes
		}
	}
	return need, referenced + min(managed, max(0, p.x.devices[p.device].room-referenced))
}

func onDevice(k profiles.StepKind) bool {
	return k == profiles.Kernel || k == profiles.CopyIn || k == profiles.CopyOut
}

// burstGap is how many seconds a process is idle when its burst ends: the library looks every millisecond, and ends a burst when nothing
// has changed from one look to the next.
const burstGap = 1.5e-3

// endsBurst reports whether a step is one during which the burst before it ends. What is shorter nobody notices.
func (s *step) endsBurst() bool {
	return s.offDevice() && (s.Kind != profiles.Host || s.soloS >= burstGap)
}

// yield gives up the permission of a process, if it has that and the scheduler wants it after each burst.
func (p *process) yield() {
	if p.x.config.Bursts && p.swap.permit && p.movable && p.task.open {
		p.swap.permit = false
		p.post(runner.TaskYielded{ID: p.id()})
	}
}

// resumed brings what the next step uses to the device, but for so many bytes that stay on the host.
func (p *process) resumed(stays int64) {
	d, bytes, copied, back := p.x.devices[p.device], int64(0), int64(0), int64(0)
	p.swap.permit, p.swap.advised, p.swap.limit = true, stays > 0, nil
	for _, o := range p.task.using(p.todo[0].Step) {
		missing := o.bytes - o.resident
		left := min(missing, stays)
		missing, stays = missing-left, stays-left
		bytes += missing
		out := min(o.out, missing)
		if o.filled {
			copied += missing
		} else if o.copied {
			copied += out
		}
		back += out
		o.resident, o.out = o.resident+missing, o.out-out
	}
	p.owes = max(p.owes, d.pushSeconds(d.makeRoom(bytes)))
	d.free -= bytes // the scheduler has it for this task
	if bytes == 0 {
		p.proceed()
		return
	}
	moves, begun, id := d.model.move(bytes, copied), p.x.now, p.id()
	p.do(&moves.step, func() {
		if back > 0 { // else it is new memory
			p.post(runner.TaskMoved{ID: id, Direction: schedulers.In, Moved: moves.took(back, p.x.now-begun)})
		}
		p.proceed()
	})
}

// using has the objects that a step uses and that the process moves itself, by name.
func (t *task) using(s *profiles.Step) (used []*object) {
	for _, o := range t.objects {
		if s.Uses(o.name) && !o.managed() {
			used = append(used, o)
		}
	}
	slices.SortFunc(used, func(a, b *object) int { return cmp.Compare(a.name, b.name) })
	return used
}

// onHost is how long a kernel takes for what it uses on the host.
func (p *process) onHost(s *step) (seconds float64) {
	for _, o := range p.task.objects {
		if !o.managed() && s.Uses(o.name) {
			seconds += p.x.devices[p.device].remoteSeconds(o.bytes-o.resident) * cmp.Or(s.Access[o.name].Sweeps, 1)
		}
	}
	return seconds
}

// used notes that the process goes on to do a step.
func (w *swap) used(p *process, s *step) {
	if !p.movable || !p.task.open || !onDevice(s.Kind) {
		return
	}
	_, w.referenced = p.references(s)
	for _, o := range p.task.objects {
		if !s.Uses(o.name) {
			continue
		}
		o.lastUsed = p.x.now
		if s.MayWrite(o.name) {
			o.newer, o.filled = true, true
		}
	}
}

// tellActivity posts what the process does, for a scheduler that takes back, unless the scheduler knows it: nothing was
// asked or answered since it was told the same.
func (p *process) tellActivity() {
	works := p.worksOnDevice()
	now := schedulers.Activity{Running: works, Busy: works, Last: p.swap.last, Ended: p.swap.ended, Referenced: min(p.swap.referenced, p.task.used)}
	if p.managed > 0 {
		now.Untouched = max(0, now.Referenced-p.touched())
	}
	if p.swap.known && p.swap.told == now {
		return
	}
	p.x.post(runner.TaskActive{ID: p.id(), Activity: now})
	p.swap.known, p.swap.told = true, now
}

// post posts an event of the process's task. What the scheduler knows of the task may change with it.
func (p *process) post(e runner.Event) {
	p.swap.known = false
	p.x.post(e)
}

func (p *process) worksOnDevice() bool {
	return p.work != nil && p.pool != p.x.cores && p.pool != p.x.nicOut
}

// revoke begins a revocation. What works on the device goes on to its end, or the answer is busy. A kernel that can be
// stopped, and shall be, ends earlier.
func (p *process) revoke(d schedulers.Decision) {
	if p.gone || !p.task.open || d.Task.ID != p.id() {
		return
	}
	p.swap.ticket, p.swap.asked = &d, p.x.now
	if p.advise(d.Revocation) {
		return
	}
	if !p.worksOnDevice() {
		p.moveOut()
		return
	}
	if d.Revocation.Action == schedulers.Stop {
		p.x.at(p.x.now+stopping, func() { p.stop(&d) })
	}
	p.x.at(p.x.now+d.Revocation.Deadline, func() {
		if w := &p.swap; w.ticket == &d && w.moving == nil && !p.gone {
			p.answer(schedulers.Busy, schedulers.Moved{Drain: p.x.now - w.asked})
		}
	})
}

// advise does at once what is advised of managed memory, and takes advice back.
func (p *process) advise(r *schedulers.Revocation) bool {
	w := &p.swap
	switch {
	case r.Action != schedulers.Advise || r.Bytes > 0 && p.managed == 0:
		return false
	case r.Bytes == 0:
		w.advised, w.limit = false, nil
	default:
		has := p.touched()
		if w.limit != nil {
			has = min(has, *w.limit)
		}
		w.limit = new(max(0, has-r.Bytes))
	}
	p.answer(schedulers.Done, schedulers.Moved{})
	return true
}

// stop ends the kernel that runs, if it can be stopped and the ticket is still without an answer. The kernel starts again
// from its beginning once the process has its permission.
func (p *process) stop(ticket *schedulers.Decision) {
	if p.swap.ticket != ticket || p.gone || p.work == nil || p.doing.on != sms || !p.doing.Stoppable {
		return
	}
	p.recordKernels()
	p.swap.lost = p.x.now - p.kernelSince
	p.halt()
	p.todo = p.again
	p.did()
}

// moveOut moves to the host what the revocation wants, if there is one: first what the next step does
// not use, and of that what was used least recently. What the next step uses goes only for others: the scheduler
// knows that a process which makes room for itself keeps what it waits for.
func (p *process) moveOut() {
	w := &p.swap
	if w.ticket == nil || w.moving != nil || p.gone {
		return
	}
	if w.ticket.Revocation.Action == schedulers.Move {
		p.leave()
		return
	}
	var objects []*object
	for _, o := range p.task.objects {
		if !o.managed() {
			objects = append(objects, o)
		}
	}
	wanted := func(o *object) int {
		if len(p.todo) > 0 && onDevice(p.todo[0].Kind) && p.todo[0].Uses(o.name) {
			return 1
		}
		return 0
	}
	slices.SortFunc(objects, func(a, b *object) int {
		return cmp.Or(cmp.Compare(wanted(a), wanted(b)), cmp.Compare(a.lastUsed, b.lastUsed), cmp.Compare(a.name, b.name))
	})
	type part struct {
		of    *object
		bytes int64
	}
	var moved []part
	bytes, copied, own := int64(0), int64(0), w.ticket.Revocation.For == p.id()
	for _, o := range objects {
		if own && wanted(o) > 0 {
			break
		}
		if n := min(o.resident, w.ticket.Revocation.Bytes-bytes); n > 0 {
			moved, bytes = append(moved, part{o, n}), bytes+n
			if o.newer || o.copied {
				copied += n
			}
		}
	}
	over := func(took schedulers.Moved) {
		for _, m := range moved {
			m.of.resident -= m.bytes
			m.of.out += m.bytes
			p.x.devices[p.device].free += m.bytes
			m.of.newer = m.of.newer && m.of.resident > 0
		}
		switch w.ticket.Revocation.Action {
		case schedulers.Yield, schedulers.Stop:
			w.permit = false
		case schedulers.Advise:
			w.advised = true
		}
		p.gaveWay(took)
	}
	var out []leg
	if d := p.x.devices[p.device]; bytes > 0 {
		out = []leg{{d.link, d.model.move(bytes, copied)}}
	}
	p.travel(out, schedulers.Moved{Bytes: bytes, Drain: p.x.now - w.asked}, over)
}

func (p *process) answer(o schedulers.Outcome, took schedulers.Moved) {
	ticket, lost := p.swap.ticket.Ticket, p.swap.lost
	p.swap.ticket, p.swap.lost = nil, 0
	resident := int64(0)
	for _, o := range p.task.objects {
		if !o.managed() {
			resident += o.resident
		}
	}
	p.post(runner.TaskRevoked{ID: p.id(), Answer: schedulers.Revoked{Ticket: ticket, Outcome: o, Resident: resident, Moved: took, Lost: lost}})
}
