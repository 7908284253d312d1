package policies

import (
	"cmp"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// The parts of policies that let a burst start beside others if all of them fit on the device, by what each is estimated to
// use, and that end bursts for others (PILOT, III.C). A burst runs if work of it is on the device, or will be.

// ending is how long a process may take to come to where its burst can end: as long as a kernel may last that cannot be
// stopped. While it takes, the device is kept from requests other than the one that it ends for.
const ending = time.Minute

// An estimate says how many bytes of its device a burst of a task uses.
type estimate func(schedulers.TaskView) int64

// referenced counts what cannot move beside what the launches reference, because most of it, as the device heap, no launch is given.
func referenced(t schedulers.TaskView) int64 { return min(t.Referenced+t.Fixed, t.Allocated) }
func allocated(t schedulers.TaskView) int64  { return t.Allocated }

// viewOf is t as it is on d, or would be as it comes there.
func viewOf(t schedulers.Task, d schedulers.DeviceView) schedulers.TaskView {
	for v := range d.TaskViews() {
		if v.Task.ID == t.ID {
			return v
		}
	}
	return schedulers.TaskView{Task: t, Allocated: t.Bytes, Referenced: t.Needs(), Can: t.Can}
}

// A crowd is the bursts that run on a device, as one finds them that wants to start there.
type crowd struct {
	running []schedulers.TaskView // of other processes
	own     int64                 // the estimate of the burst that wants to start
	// over is by how much the estimates of all exceed what the device has for them: its capacity without contexts, and
	// without what cannot move of tasks that do not run.
	over int64
}

// around returns the crowd on d around t.
func (e estimate) around(t schedulers.Task, d schedulers.DeviceView) crowd {
	c := crowd{own: e(viewOf(t, d))}
	c.over = c.own + d.UsedBytes() + d.ContextBytes(t) - d.Limits().CapacityBytes
	for v := range d.TaskViews() {
		c.over -= v.Resident
		switch {
		case v.Task.ID == t.ID:
			continue
		case !runs(v):
			c.over += v.Fixed
			continue
		case v.Task.Process() != t.Process():
			c.running = append(c.running, v)
		}
		c.over += e(v)
	}
	return c
}

func runs(t schedulers.TaskView) bool { return t.Running || t.Busy }

// starts reports whether the burst may start: nothing else runs, or all fit.
func (c *crowd) starts() bool { return len(c.running) == 0 || c.over <= 0 }

// Place puts a burst on the device with the least memory in use where it may start, and what it needs is free.
func (e estimate) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for _, i := range byLoad(t, v) {
		if d := v.Device(i); needFits(t, d) {
			if c := e.around(t, d); c.starts() {
				return schedulers.Placement{Device: i}, true
			}
		}
	}
	return schedulers.Placement{}, false
}

// largestFirst sorts tasks by their estimates. Of equal ones the latest to start comes first.
func (e estimate) largestFirst(tasks []schedulers.TaskView) {
	slices.SortStableFunc(tasks, func(a, b schedulers.TaskView) int {
		return cmp.Or(cmp.Compare(e(b), e(a)), cmp.Compare(b.PermitSince, a.PermitSince))
	})
}

// A haste is how the bursts on a device make way for a request.
type haste struct {
	goesOn    bool                                        // the request is of a burst that goes on: all that do not run give way
	impatient bool                                        // the request has lost its patience: it goes before those that came before it, and bursts end for its memory too
	ends      func(t schedulers.TaskView, own int64) bool // whether a burst may end for it; own: the request's estimate
	brief     time.Duration                               // how long a burst that goes on may take to give memory; 0: it is not asked
	keeps     func(t schedulers.TaskView) bool            // whether one that does not run keeps its memory, unless the request has lost its patience
}

// start asks so that the request at a place can start on d. Bursts end for it as far as they may and must, the largest first.
// Memory comes from tasks that do not run, the least recently active first, then from bursts that end, from what the request's own
// task does not use, and from what bursts that go on do not. What cannot become free while the others are there stays on the host.
func (e estimate) start(all *takers, at, device int, d schedulers.DeviceView, h haste) []schedulers.Revocation {
	r := all.waiting[at]
	c, m := e.around(r.Task, d), makingFor(r, d)
	if r.Grows { // it has started
		c.over = 0
	}
	if h.impatient || h.goesOn && !r.Grows {
		at = -1
	}
	stays := m.leave(d)
	all.idle(&m, at, device, d, func(t schedulers.TaskView) bool { return !h.impatient && h.keeps(t) })
	e.largestFirst(c.running)
	left := c // that go on
	left.running = nil
	for _, t := range c.running {
		must := left.over > 0 || h.impatient && m.lacks > r.Own
		if !must || !h.ends(t, c.own) || !t.CanAsk(endOf(t)) {
			left.running = append(left.running, t)
			continue
		}
		left.over -= e(t) - t.Fixed
		m.end(t, endOf(t))
	}
	m.own()
	for _, t := range left.running {
		if t.CanAsk(schedulers.Evict) && h.brief > 0 {
			m.takeIn(h.brief, t.Task.ID, schedulers.Evict, min(t.Movable, t.Resident-e(t)))
		}
	}
	if !left.starts() || m.lacks > 0 {
		return nil
	}
	return append(m.asked, stays...)
}

// leave leaves on the host what the request lacks and d cannot have free as long as the tasks of others are there, as far as
// the request's kernels can use it there.
func (m *making) leave(d schedulers.DeviceView) []schedulers.Revocation {
	r := m.request
	if r.Grows || !viewOf(r.Task, d).Can.Has(schedulers.Advise) {
		return nil
	}
	lacks := m.lacks - r.Own
	for t := range d.TaskViews() {
		if t.Task.ID != r.Task.ID {
			lacks -= t.Resident - t.Fixed
		}
	}
	bytes := min(lacks, r.Task.Stays)
	if bytes <= 0 {
		return nil
	}
	m.lacks -= bytes
	return []schedulers.Revocation{{Task: r.Task.ID, Action: schedulers.Advise, Bytes: bytes, For: r.Task.ID}}
}

// endOf is how a burst of a task ends: in the middle of a kernel, if its process can do that.
func endOf(t schedulers.TaskView) schedulers.Action {
	if t.Can.Has(schedulers.Stop) {
		return schedulers.Stop
	}
	return schedulers.Yield
}

// end ends the burst of a task, and takes what is lacking of its memory: also of what it did not give while it ran, and
// which is not Movable since.
func (m *making) end(t schedulers.TaskView, a schedulers.Action) {
	bytes := max(0, min(m.lacks, t.Resident-t.Fixed))
	m.lacks -= bytes
	m.asked = append(m.asked, schedulers.Revocation{Task: t.Task.ID, Action: a, Bytes: bytes, Deadline: ending, For: m.request.Task.ID})
}

// patience is how long bursts wait until others end for them, unless their job says it.
type patience time.Duration

func (p patience) limit(t schedulers.Task) time.Duration {
	if own := t.Terms.OrNone().MaxWait; own > 0 {
		return own
	}
	return time.Duration(p)
}

// Patience is how long t waits, and until when a burst is safe from its start.
func (p patience) Patience(t schedulers.Task, of schedulers.TaskView) time.Duration {
	return max(p.limit(t), safeFor(of))
}

// isOver reports whether r has waited so long.
func (p patience) isOver(r schedulers.Request, now time.Duration) bool { return now >= p.ends(r) }

func (p patience) ends(r schedulers.Request) time.Duration { return later(r.Since, p.limit(r.Task)) }

// isSafe reports whether t had waited as long as it may, and has not run an eighth longer since: then it does not end for
// others. Ours: otherwise two bursts would end each other for ever. An eighth, so that bursts which are stopped by turns run longer
// each time, and come to their end. With more, others would soon wait too long for a kernel without end.
func (p patience) isSafe(t schedulers.TaskView, now time.Duration) bool { return now < p.safeUntil(t) }

func (p patience) safeUntil(t schedulers.TaskView) time.Duration {
	if !t.Permit || t.Waited < p.limit(t.Task) {
		return 0
	}
	return later(t.PermitSince, safeFor(t))
}

func safeFor(t schedulers.TaskView) time.Duration { return t.Waited + t.Waited/8 }

// brief is how long a burst that goes on may take to give memory, so that it can be asked again when the patience of a request ends:
// one that is busy until then is not asked for as long again. 0: the time is too short.
func (p patience) brief(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	half := (p.next(waiting, v, now) - now) / 2
	if half < lookEvery {
		return 0
	}
	return min(half, closing)
}

// goesOn says which requests are of bursts that go on: of growth, and of memory that their next kernel uses. They come before requests to start,
// which have given up their permit or had none. Once a request has waited too long, only bursts that are safe from it go on so.
func (p patience) goesOn(waiting []schedulers.Request, v schedulers.View, now time.Duration) func(schedulers.Request) bool {
	over := slices.ContainsFunc(waiting, func(r schedulers.Request) bool { return p.isOver(r, now) })
	return func(r schedulers.Request) bool {
		if r.Grows || r.Task.OnDevice == nil {
			return r.Grows
		}
		t := viewOf(r.Task, v.Device(*r.Task.OnDevice))
		return t.Permit && (!over || p.isSafe(t, now))
	}
}

// nextEnd is when the patience of a request next ends.
func nextEnd(waiting []schedulers.Request, ends func(schedulers.Request) time.Duration, now time.Duration) time.Duration {
	next := schedulers.Never
	for _, r := range waiting {
		if at := ends(r); at > now {
			next = min(next, at)
		}
	}
	return next
}

// next is when a request that waits has next waited so long, or a burst is not safe any more while one waits.
func (p patience) next(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := nextEnd(waiting, p.ends, now)
	if len(waiting) == 0 {
		return next
	}
	for i := range v.Len() {
		for t := range v.Device(i).TaskViews() {
			if at := p.safeUntil(t); at > now {
				next = min(next, at)
			}
		}
	}
	return next
}
