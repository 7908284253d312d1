package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// virtualGPUs divides each device into slots (dissertation, sections 3.3.2 and 3.5.5). A context
// takes a slot with its first task and keeps it to its end, unless it is swapped out. A slot is a
// permit: a context that waits to resume has none.
//
// What a request lacks on its device is made free in this order (section 3.5.6, Table 3-1):
//
//   - within the application: what the request's own process has there and its next kernel does
//     not reference;
//   - between applications: one other context in a host phase, whose memory there suffices. It
//     loses its slot. It may decline, because it has launched meanwhile.
//
// If no context accepts, the request waits without a slot, and others may pass it. Once it has aged, it waits
// for a free slot, and then until one neighbour that is large enough is idle, or neighbours end or wait.
//
// Ours: jobs of several ranks do not take each other's slots for ever (together), and a device where the memory is free goes before a device of the same
// kind where it must be made free. The context that has been idle longest is asked. A context that waits behind the
// request counts as in a host phase, and several of these may be asked: otherwise contexts that have
// part of what they need would wait for each other. Tasks of a process go where it has its context,
// if they can.
type virtualGPUs struct {
	MemoryHard // for growth, which needs no slot
	IgnoresSMs
	Looks
	slots    int  // of each device
	victims  int  // contexts that are asked for one request; 0: as many as it takes
	preempts bool // contexts without a slot may be several victims, too, because others have theirs
	balances bool
	weights  []float64 // of the devices, for balancing; nil: their speeds
}

var vgpu = entry{
	Info: Info{Name: "vgpu", Binds: BindsTask, Shares: true, Revokes: true, KeepsIdle: true,
		Brief:  "n slots on each device; memory of an idle neighbour moves to the host",
		Rule:   "n slots on each device, round robin over devices without contexts first; memory goes to the host: first what the process's own next kernel does not use, then all of one idle neighbour's, which loses its slot",
		Source: "dissertation on runtime support for CPU-GPU clusters, sections 3.3.2, 3.5.5 and 3.5.6, Table 3-1",
		Params: []Param{
			paramSlots, paramVictims, paramBalance, paramWeights, withDefault(paramQueue, string(engine.FirstFit)), paramAge, paramWait, paramBursts, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) { return s.virtualGPUs() },
}

var (
	paramSlots   = Param{Name: "n", Default: "4", Help: "slots (virtual GPUs) on each device; 1: one process at a time"}
	paramVictims = Param{Name: "victims", Default: "1", Help: "neighbours that are swapped out for one request; 0: as many as it takes"}
)

func (s settings) virtualGPUs() (p virtualGPUs, err error) {
	if p.slots, err = s.number("n", 1); err != nil {
		return p, err
	}
	if p.victims, err = s.number("victims", 0); err == nil && p.victims > 1 {
		err = fmt.Errorf("victims=%d: use 1, or 0 for as many as it takes", p.victims)
	}
	if err != nil {
		return p, err
	}
	p.balances = s["balance"] == balanceOn
	p.weights, err = s.weights()
	return p, err
}

var _ schedulers.Preempter = virtualGPUs{}

func (p virtualGPUs) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for _, i := range p.seats(t, v) {
		if needFits(t, v.Device(i)) {
			return schedulers.Placement{Device: i}, true
		}
	}
	return schedulers.Placement{}, false
}

// seats returns the devices where t's process has a slot or can take one, in the order in which it takes one: its own
// device, or all in turn.
func (p virtualGPUs) seats(t schedulers.Task, v schedulers.View) []int {
	own, bound := home(t, v)
	if !p.preempts && !p.together(t, v) {
		return nil
	}
	return inTurn(v, func(i int) bool {
		if bound && i != own {
			return false
		}
		d := v.Device(i)
		others := d.Permits()
		if _, seated := d.Context(t.Process()); seated {
			others--
		}
		return others < p.slots && d.Open(t)
	})
}

// gang is a job of so many ranks, and how many contexts of it have a slot on devices that are open.
type gang struct{ ranks, has int }

// lacks is how many of its ranks have no slot, those included that have ended.
func (g gang) lacks() int { return max(0, g.ranks-g.has) }

// together reports whether a rank may have a slot. A job of several ranks begins only if there are slots for all of its ranks beside those of
// such jobs that have begun: else each could hold some of the slots, and wait for the rest for ever. A job of one process waits for nobody, so its
// slot counts as free. A job with more ranks than the node has slots takes what it gets, and stands still if its ranks meet.
func (p virtualGPUs) together(t schedulers.Task, v schedulers.View) bool {
	ranks := t.Terms.OrNone().Ranks
	if ranks <= 1 {
		return true
	}
	slots, gangs := 0, map[schedulers.JobID]gang{}
	for i := range v.Len() {
		d, has := v.Device(i), 0
		if _, seated := d.Context(t.Process()); seated {
			return true
		}
		if !d.Closed() {
			slots, has = slots+p.slots, 1
		}
		for job, ranks := range d.Ranks() {
			gangs[job] = gang{ranks, gangs[job].has + has}
		}
	}
	if ranks > slots {
		return true
	}
	own, begun := gangs[t.Job]
	gangs[t.Job] = gang{ranks, own.has + 1}
	all := slices.DeleteFunc(slices.Collect(maps.Values(gangs)), func(g gang) bool { return g.ranks > slots })
	if begun {
		return canEnd(slots, all)
	}
	for _, g := range all {
		slots -= g.ranks
	}
	return slots >= 0
}

// canEnd reports whether the jobs can end one after the other, each with what those before it had (Dijkstra's banker's algorithm). They
// can, unless devices have been closed since they began.
func canEnd(slots int, gangs []gang) bool {
	for _, g := range gangs {
		slots -= g.has
	}
	slices.SortFunc(gangs, func(a, b gang) int { return cmp.Compare(a.lacks(), b.lacks()) })
	for _, g := range gangs {
		if g.lacks() > slots {
			return false
		}
		slots += g.has
	}
	return true
}

func (p virtualGPUs) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	out := p.balancing(waiting, v, now)
	all := &queue{waiting: waiting}
	for at, r := range waiting {
		if r.Asked {
			continue
		}
		if r.Grows {
			out = append(out, p.room(all, at, v.Device(*r.Task.OnDevice))...)
			continue
		}
		out = append(out, makeRoom(r, p.seats(r.Task, v), v, func(_ int, d schedulers.DeviceView) []schedulers.Revocation { return p.room(all, at, d) })...)
	}
	return out
}

// room says whom to ask so that the request at a place fits on d.
func (p virtualGPUs) room(all *queue, at int, d schedulers.DeviceView) []schedulers.Revocation {
	r := all.waiting[at]
	lacks := missing(r, d)
	if lacks <= 0 { // it waits for something else
		return nil
	}
	if own := p.within(all, at, d, lacks); len(own) > 0 {
		return own
	}
	return p.between(all, at, d, lacks)
}

// within asks the request's own process, the task itself first.
func (p virtualGPUs) within(all *queue, at int, d schedulers.DeviceView, lacks int64) []schedulers.Revocation {
	r := all.waiting[at]
	var out []schedulers.Revocation
	ask := func(task schedulers.TaskID, bytes int64) {
		if bytes = min(bytes, lacks); bytes > 0 {
			lacks -= bytes
			out = append(out, schedulers.Revocation{Task: task, Action: schedulers.Evict, Bytes: bytes, Deadline: closing, For: r.Task.ID})
		}
	}
	ask(r.Task.ID, r.Own)
	for t := range d.TaskViews() {
		if t.Task.Process() == r.Task.Process() && t.Task.ID != r.Task.ID && t.CanAsk(schedulers.Evict) && all.idle(t, at) {
			ask(t.Task.ID, t.Movable)
		}
	}
	return out
}

// tenant is another context on the request's device.
type tenant struct {
	process schedulers.Process
	bytes   int64         // that it can give
	last    time.Duration // of its activity
	waits   bool          // behind the request, or for its next launch without a slot
	refuses bool
}

// between asks other contexts, the longest idle first. Each gives all that it has there. If one is
// the limit and none suffices, those that wait behind the request are asked.
func (p virtualGPUs) between(all *queue, at int, d schedulers.DeviceView, lacks int64) []schedulers.Revocation {
	r := all.waiting[at]
	var others []tenant
	for t := range d.TaskViews() {
		if t.Task.Process() == r.Task.Process() {
			continue
		}
		i := slices.IndexFunc(others, func(o tenant) bool { return o.process == t.Task.Process() })
		if i < 0 {
			i = len(others)
			others = append(others, tenant{process: t.Task.Process()})
		}
		o := &others[i]
		o.last = max(o.last, t.Last)
		if t.Permit || t.Movable > 0 {
			o.bytes += t.Movable
			o.waits = o.waits || all.position(t) > at || p.preempts && !t.Permit
			o.refuses = o.refuses || !t.CanAsk(schedulers.Yield) || !all.idle(t, at)
		}
	}
	others = slices.DeleteFunc(others, func(o tenant) bool { return o.refuses || o.bytes == 0 })
	slices.SortStableFunc(others, func(a, b tenant) int { return cmp.Compare(a.last, b.last) })
	if p.victims == 1 {
		one := slices.IndexFunc(others, func(o tenant) bool { return o.bytes >= lacks })
		if one >= 0 {
			others = others[one : one+1]
		} else {
			others = slices.DeleteFunc(others, func(o tenant) bool { return !o.waits })
		}
	}
	var out []schedulers.Revocation
	for _, o := range others {
		for t := range d.TaskViews() {
			if t.Task.Process() == o.process && (t.Permit || t.Movable > 0) {
				out = append(out, schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Yield, Bytes: t.Movable, Deadline: closing, For: r.Task.ID})
			}
		}
		if lacks -= o.bytes; lacks <= 0 {
			return out
		}
	}
	return nil
}
