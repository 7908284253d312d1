package engine

import (
	"math"
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// index knows which waiting tasks cannot have any device now, so that the policy is not asked about
// them. It asks a schedulers.Measurer how large a task of each kind may be on each device, again for
// each device that has changed. A task is a candidate if it is not larger than the largest of
// these numbers.
//
// A job that has a context on a device may have more room there than others. Its tasks are
// therefore asked about once after each change of the device that may have given them room.
type index struct {
	measurer schedulers.Measurer
	state    *state
	queue    *queue
	kinds    []*kind
	byLike   map[schedulers.Task]*kind
	others   *kind // tasks for which there was no kind left: each is always a candidate
}

// mostKinds limits what the index keeps for each device, and what a change of a device costs.
const mostKinds = 128

// kind is the tasks that a policy measures alike.
type kind struct {
	like    schedulers.Task
	fresh   rooms   // bytes that a task may have on each device if its job has nothing there
	known   []int64 // bytes, by device, that it may have if its job has a context there
	waiting int
	any     tree          // the waiting tasks that may have any device, with their bytes or toAsk
	pinned  map[int]*tree // the others, by their device
}

// entry is what the index knows of a waiting task.
type entry struct {
	kind  *kind
	toAsk bool // the policy must be asked, whatever the task's size
}

// toAsk is the value in a kind's trees of a task that must be asked about.
const toAsk = -1

func newIndex(m schedulers.Measurer, s *state, q *queue) *index {
	x := &index{measurer: m, state: s, queue: q, byLike: map[schedulers.Task]*kind{}}
	x.others = x.newKind(schedulers.Task{})
	for i := range s.devices {
		x.others.fresh.set(i, math.MaxInt64)
	}
	return x
}

func (x *index) newKind(like schedulers.Task) *kind {
	return &kind{like: like, fresh: newRooms(x.state.Len()), known: make([]int64, x.state.Len()),
		any: tree{compare: x.queue.compare}, pinned: map[int]*tree{}}
}

// kindOf returns the kind of t, which has been measured on each device.
func (x *index) kindOf(t schedulers.Task) *kind {
	like := x.measurer.Like(t)
	like.Isolate = t.Isolate
	if k := x.byLike[like]; k != nil {
		return k
	}
	if len(x.kinds) == mostKinds {
		x.kinds = slices.DeleteFunc(x.kinds, func(k *kind) bool {
			if k.waiting == 0 {
				delete(x.byLike, k.like)
			}
			return k.waiting == 0
		})
	}
	if len(x.kinds) == mostKinds {
		return x.others
	}
	k := x.newKind(like)
	x.kinds, x.byLike[like] = append(x.kinds, k), k
	for i := range x.state.devices {
		x.measure(k, i)
	}
	return k
}

// insert adds w, which waits.
func (x *index) insert(w *waiting) {
	w.kind = x.kindOf(w.task)
	w.kind.waiting++
	w.toAsk = len(x.state.contextsOf(w.task.Job)) > 0
	w.kind.treeOf(w.task, x.queue).insert(w, w.value())
}

func (x *index) remove(w *waiting) {
	w.kind.waiting--
	t := w.kind.treeOf(w.task, x.queue)
	if t.remove(w); t.len == 0 && w.task.OnDevice != nil {
		delete(w.kind.pinned, *w.task.OnDevice)
	}
}

// treeOf returns the tree that has t or gets it.
func (k *kind) treeOf(t schedulers.Task, q *queue) *tree {
	if t.OnDevice == nil {
		return &k.any
	}
	if k.pinned[*t.OnDevice] == nil {
		k.pinned[*t.OnDevice] = &tree{compare: q.compare}
	}
	return k.pinned[*t.OnDevice]
}

// value is w's in its kind's tree.
func (w *waiting) value() int64 {
	if w.toAsk {
		return toAsk
	}
	return w.task.Bytes
}

// mark says whether the policy must be asked about w.
func (x *index) mark(w *waiting, ask bool) {
	if w.toAsk != ask {
		w.toAsk = ask
		w.kind.treeOf(w.task, x.queue).set(w, w.value())
	}
}

// refused notes that the policy turned w down as things stand.
func (x *index) refused(w *waiting) { x.mark(w, false) }

// refresh measures the devices that have changed.
func (x *index) refresh() {
	for _, i := range x.state.changed {
		d := &x.state.devices[i]
		d.isChanged = false
		more := false // room for the jobs that are there
		for _, k := range x.kinds {
			x.measure(k, i)
			more = more || k.known[i] > k.fresh.of(i)
		}
		if !more {
			continue
		}
		for job := range d.jobs {
			for _, w := range x.queue.ofJob(job) {
				if w.task.Bytes <= w.kind.known[i] {
					x.mark(w, true)
				}
			}
		}
	}
	x.state.changed = x.state.changed[:0]
}

func (x *index) measure(k *kind, i int) {
	d, fresh, known := &x.state.devices[i], int64(-1), int64(-1)
	if d.claimed == 0 && d.closers == 0 {
		fresh, known = x.measurer.Measure(k.like, x.state, i)
		if len(d.jobs) > 0 && (d.isolated || k.like.Isolate) {
			fresh = -1
		}
	}
	k.known[i] = known
	k.fresh.set(i, max(-1, fresh))
}

// candidate returns the first task in the queue's order, behind after unless it is nil, that may
// have a device now; nil if there is none.
func (x *index) candidate(after *waiting) *waiting {
	x.refresh()
	var first *waiting
	consider := func(w *waiting) {
		if w != nil && (first == nil || x.queue.compare(w, first) < 0) {
			first = w
		}
	}
	of := func(k *kind) {
		consider(k.any.first(k.fresh.largest(), after))
		for i, t := range k.pinned {
			consider(t.first(k.fresh.of(i), after))
		}
	}
	for _, k := range x.kinds {
		of(k)
	}
	of(x.others)
	return first
}

// where reports whether t may have some device now, and which one if it is the only one.
func (x *index) where(t schedulers.Task) (only *int, some bool) {
	x.refresh()
	k := x.kindOf(t)
	several := false
	may := func(i int) {
		if t.OnDevice == nil || *t.OnDevice == i {
			several = several || some && only != &x.state.devices[i].index
			only, some = &x.state.devices[i].index, true
		}
	}
	if t.OnDevice == nil {
		for i, ok := k.fresh.next(0, t.Bytes); ok && !several; i, ok = k.fresh.next(i+1, t.Bytes) {
			may(i)
		}
	} else if i := *t.OnDevice; i >= 0 && i < x.state.Len() && t.Bytes <= k.fresh.of(i) {
		may(i)
	}
	for _, c := range x.state.contextsOf(t.Job) {
		if t.Bytes <= k.known[c.device] {
			may(c.device)
		}
	}
	if several {
		only = nil
	}
	return only, some
}
