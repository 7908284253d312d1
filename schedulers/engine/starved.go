package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Starvation: under a Preempter, a request waits for a task whose work is on the device without a break, as that of a kernel
// without end, and that nobody ends. Or what waits is the next launch of a task, and what cannot move of others leaves
// it too little room. Such a wait may have no end, and nothing happens meanwhile. The engine decides nothing about it.

// Starved is a request that starves.
type Starved struct {
	Task  schedulers.Task
	Bytes int64 // that have to come onto a device, without a context
	Waits time.Duration
	By    []Holder // on the devices that it may have, by device and job
}

// Holder is a job that has what others do not get.
type Holder struct {
	Job    schedulers.JobID
	Device int
	Bytes  int64         // contexts, what cannot move, and what its work uses
	Works  time.Duration // how long its work has been there without a break; 0: memory is missing for other reasons
	Stops  bool          // its kernels can be stopped
}

// Starved returns the requests that starve, each once. A request starves for so long before, beside the time in which the policy
// would end bursts for it (schedulers.Patient).
func (e *Engine) Starved(after, now time.Duration) (all []Starved) {
	if e.preempter == nil {
		return nil
	}
	look := func(told *bool, s Starved, own *holding, keeps int64, fits func(*state) bool) {
		if *told || s.Waits < after || s.Task.Several() {
			return
		}
		node, by := e.unyielding(&s, own, keeps, after, now)
		works := slices.ContainsFunc(by, func(h Holder) bool { return h.Works > 0 })
		if *told = (works || own != nil && len(by) > 0) && !fits(node); *told {
			s.By = by
			all = append(all, s)
		}
	}
	for w := range e.queue.all() {
		keeps := int64(0)
		if w.resumes != nil {
			keeps = w.resumes.referenced - w.task.Needs()
		}
		look(&w.starved, Starved{Task: w.task, Bytes: w.task.Needs(), Waits: now - w.since}, w.resumes, keeps,
			func(node *state) bool { return e.fits(w.task, node, nil) })
	}
	for _, g := range e.growing {
		t := g.holding.task
		t.OnDevice = &g.holding.at.Device
		look(&g.starved, Starved{Task: t, Bytes: g.bytes, Waits: now - g.since}, g.holding, g.needed(),
			func(node *state) bool { return e.policy.CanGrow(g.bytes, &node.devices[g.holding.at.Device]) })
	}
	return all
}

// unyielding returns the node with only what s does not get, and who has that. own is the task of s, if it has its device, and keeps
// so many bytes there.
func (e *Engine) unyielding(s *Starved, own *holding, keeps int64, after, now time.Duration) (*state, []Holder) {
	node := newState(e.devices)
	var by []Holder
	for i := range node.devices {
		from, d := &e.state.devices[i], &node.devices[i]
		d.phase, d.sealed, d.barred = from.phase, from.sealed, from.barred
		holders := map[schedulers.JobID]*Holder{}
		for p := range from.contexts {
			node.enter(i, p)
			node.charge(i, from.chargedUnseen(p))
			holderOf(holders, p, i).Bytes += from.limits.ContextBytes + from.chargedUnseen(p)
		}
		for _, h := range from.held {
			kept, its := e.kept(h), holderOf(holders, h.task.Process(), i)
			if h == own {
				kept = max(kept, keeps)
			} else if works := e.worksWithoutEnd(h, from, s, after, now); works > 0 {
				kept = h.bytes
				d.list(h)
				if p, has := from.permits[h.task.Process()]; has {
					d.permit(h.task.Process(), p)
				}
				its.Works, its.Stops = max(its.Works, works), h.can.Has(schedulers.Stop)
			}
			node.put(h.task, kept, h.at)
			its.Bytes += kept
		}
		if t := s.Task; !d.barred[t.Job] && (t.OnDevice == nil || *t.OnDevice == i) {
			maps.DeleteFunc(holders, func(j schedulers.JobID, h *Holder) bool { return j == t.Job && h.Works == 0 })
			for _, j := range slices.Sorted(maps.Keys(holders)) {
				by = append(by, *holders[j])
			}
		}
	}
	return node, by
}

func holderOf(holders map[schedulers.JobID]*Holder, p schedulers.Process, device int) *Holder {
	if holders[p.Job] == nil {
		holders[p.Job] = &Holder{Job: p.Job, Device: device}
	}
	return holders[p.Job]
}

// worksWithoutEnd is how long h's work has been on d without a break, if that, and the wait of s, are so long that it may have no end;
// else 0. Work of a process that does not tell of it does not count.
func (e *Engine) worksWithoutEnd(h *holding, d *device, s *Starved, after, now time.Duration) time.Duration {
	if p, is := e.policy.(schedulers.Patient); is {
		after += p.Patience(s.Task, d.view(h))
	}
	if works := now - h.busySince; h.busy && h.task.Can.Has(schedulers.Evict) && min(works, s.Waits) >= after {
		return works
	}
	return 0
}
