package engine

// index knows which waiting tasks cannot have any device now, so that the policy is not asked about
// them. A task is a candidate if it is not larger than the largest room that its kind has on a
// device that the task may have.
//
// A job that has a context on a device may have more room there than others. Its tasks are
// therefore asked about once after each change of the device that may have given them room.
type index struct {
	*measures
	queue *queue
}

// line is the waiting tasks of a kind, with their sizes in bytes, or toAsk.
type line struct {
	len    int
	any    forest          // the tasks that may have any device
	pinned map[int]*forest // the others, by their device
}

// entry is what the index knows of a waiting task.
type entry struct {
	kind   *kind
	inLine node // of a forest of kind.line
	ask    bool // the policy must be asked, whatever the task's size
}

// toAsk is the value in a line of a task that the policy must be asked about.
const toAsk = -1

// insert adds w, which waits.
func (x *index) insert(w *waiting) {
	w.kind = x.kindOf(w.task)
	w.kind.line.len++
	w.ask = len(x.state.contextsOf(w.task.Job)) > 0
	x.forestOf(w).insert(w, &w.inLine, w.value())
}

func (x *index) remove(w *waiting) {
	w.kind.line.len--
	f := x.forestOf(w)
	if f.remove(w); f.len == 0 && w.task.OnDevice != nil {
		delete(w.kind.line.pinned, *w.task.OnDevice)
	}
}

// forestOf returns the forest of w's kind that has w or gets it.
func (x *index) forestOf(w *waiting) *forest {
	l := &w.kind.line
	if w.task.OnDevice == nil {
		l.any.compare = x.queue.tasks.compare
		return &l.any
	}
	f := l.pinned[*w.task.OnDevice]
	if f == nil {
		f = &forest{compare: x.queue.tasks.compare}
		if l.pinned == nil {
			l.pinned = map[int]*forest{}
		}
		l.pinned[*w.task.OnDevice] = f
	}
	return f
}

// value is w's in its line.
func (w *waiting) value() int64 {
	if w.ask {
		return toAsk
	}
	return w.task.Bytes
}

// mark says whether the policy must be asked about w.
func (x *index) mark(w *waiting, ask bool) {
	if w.ask != ask {
		w.ask = ask
		x.forestOf(w).set(w, w.value())
	}
}

// refused notes that the policy turned w down as things stand.
func (x *index) refused(w *waiting) { x.mark(w, false) }

// refresh brings the measures up to date, and marks the tasks whose jobs may have more room.
func (x *index) refresh() {
	x.measures.refresh(func(device int) {
		for job := range x.state.devices[device].jobs {
			for _, w := range x.queue.ofJob(job) {
				if !w.parked && w.task.Bytes <= w.kind.known[device] {
					x.mark(w, true)
				}
			}
		}
	})
}

// candidate returns the first task past after in the queue's order, or of all tasks if after is nil, that may
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
		if k.line.len == 0 {
			return
		}
		consider(k.line.any.first(k.room(), after))
		for device, f := range k.line.pinned {
			consider(f.first(k.fresh.of(device), after))
		}
	}
	for _, k := range x.kinds {
		of(k)
	}
	of(x.others)
	return first
}
