package plain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// order is the rule by which waiting tasks are considered.
type order engine.Order

const (
	fifo             = order(engine.FIFO)
	largestFirst     = order(engine.LargestFirst)
	priorityFIFO     = order(engine.PriorityFIFO)
	priorityFirstFit = order(engine.PriorityFirstFit)
)

// blocks reports whether a task that does not fit holds back the next one.
func (o order) blocks(misfit, next *waiting) bool {
	switch o {
	case fifo:
		return true
	case priorityFIFO, priorityFirstFit:
		return next.task.Priority < misfit.task.Priority
	}
	return false
}

// byPriority compares the priorities of two tasks. It returns 0 under orders without priority.
func (o order) byPriority(a, b schedulers.Task) int {
	if o == priorityFIFO || o == priorityFirstFit {
		return -cmp.Compare(a.Priority, b.Priority)
	}
	return 0
}

// before orders two waiting tasks; ties break by arrival.
func (o order) before(a, b *waiting) int {
	by := o.byPriority(a.task, b.task)
	if o == largestFirst {
		by = -cmp.Compare(a.task.Bytes, b.task.Bytes)
	}
	return cmp.Or(by, cmp.Compare(a.arrival, b.arrival))
}

// waiting is a task in the queue.
type waiting struct {
	task    schedulers.Task
	arrival uint64
	limit   limit
	passed  int
	stalled bool
	resumes *holding // the task that has its device already; nil: it has none yet
	spent   bool     // its own memory cannot give more room
}

// limit is how long a request may wait, and when the wait ends. Never in both: for ever.
type limit struct{ longest, expires time.Duration }

func (l limit) why() string {
	if l.longest == 0 {
		return "no room at once, and the request does not wait"
	}
	return fmt.Sprintf("no device within the wait limit of %v", l.longest)
}

// queue holds waiting tasks in the order in which they are considered: first, by arrival, the
// tasks that have been passed as often as ageLimit allows; then all other tasks by order.
type queue struct {
	order    order
	ageLimit int // 0: a task never ages
	arrivals uint64
	tasks    []*waiting
}

func (q *queue) push(t schedulers.Task, l limit) *waiting {
	q.arrivals++
	w := &waiting{task: t, arrival: q.arrivals, limit: l}
	at, _ := slices.BinarySearchFunc(q.tasks, w, q.compare)
	q.tasks = slices.Insert(q.tasks, at, w)
	return w
}

func (q *queue) aged(w *waiting) bool { return q.ageLimit > 0 && w.passed >= q.ageLimit }

func (q *queue) compare(a, b *waiting) int {
	switch agedA, agedB := q.aged(a), q.aged(b); {
	case agedA && agedB:
		return cmp.Compare(a.arrival, b.arrival)
	case agedA:
		return -1
	case agedB:
		return 1
	}
	return q.order.before(a, b)
}

// grant removes the task at position i, which goes ahead of every earlier waiting task. Each
// earlier task counts as passed once more, unless it is stalled.
func (q *queue) grant(i int) *waiting {
	w := q.tasks[i]
	q.tasks = slices.Delete(q.tasks, i, i+1)
	resort := false
	for _, other := range q.tasks {
		if other.arrival < w.arrival && !other.stalled {
			other.passed++
			resort = resort || other.passed == q.ageLimit
		}
	}
	if resort {
		slices.SortFunc(q.tasks, q.compare)
	}
	return w
}

// take removes w; earlier tasks do not count as passed.
func (q *queue) take(w *waiting) *waiting {
	q.tasks = slices.DeleteFunc(q.tasks, func(o *waiting) bool { return o == w })
	return w
}

// remove takes out the tasks that drop selects and returns them by arrival.
func (q *queue) remove(drop func(*waiting) bool) []*waiting {
	var out []*waiting
	q.tasks = slices.DeleteFunc(q.tasks, func(w *waiting) bool {
		if drop(w) {
			out = append(out, w)
			return true
		}
		return false
	})
	slices.SortFunc(out, func(a, b *waiting) int { return cmp.Compare(a.arrival, b.arrival) })
	return out
}
