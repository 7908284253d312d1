package engine

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Order is the rule by which waiting tasks are considered.
type Order string

const (
	// FIFO: by arrival; the head blocks later tasks.
	FIFO Order = "fifo"
	// FirstFit: by arrival; later tasks may pass a task that does not fit. It is
	// schedGPU's "maximum memory utilisation" (mmu).
	FirstFit Order = "mmu"
	// LargestFirst: by memory; later tasks may pass a task that does not fit.
	LargestFirst Order = "largest-first"
	// PriorityFIFO: by priority, then arrival; a task that does not fit lets tasks of its
	// own priority pass, and tasks of lower priority wait (schedGPU, policy 3: "if there is insufficient
	// memory to serve this request [...] then a following client with the same priority is
	// served").
	PriorityFIFO Order = "priority-fifo"
	// PriorityFirstFit: like FirstFit among the waiting tasks of the highest priority; tasks
	// of lower priority wait (schedGPU, policy 4). By the letter of the paper it grants what PriorityFIFO
	// grants: a task that was passed fits no better after a grant.
	PriorityFirstFit Order = "priority-mmu"
	// ShortestFirst: by Terms.Expected, then those of which nothing is known; later tasks may pass a task that does not fit.
	ShortestFirst Order = "sjf"
	// EarliestDeadline: by Terms.Due, then those without a deadline; later tasks may pass a task that does not fit.
	EarliestDeadline Order = "deadline"
	// Credits: by what the task's user has spent (credits.go), then arrival; later tasks may pass a task that does not fit.
	Credits Order = "credits"
)

// Orders are all orders, as users see them.
func Orders() []Order {
	return []Order{FIFO, FirstFit, LargestFirst, PriorityFIFO, PriorityFirstFit, ShortestFirst, EarliestDeadline, Credits}
}

// blocks reports whether a task that does not fit holds back the next one.
func (o Order) blocks(misfit, next *waiting) bool {
	switch o {
	case FIFO:
		return true
	case PriorityFIFO, PriorityFirstFit:
		return next.task.Priority < misfit.task.Priority
	}
	return false
}

// Admits reports whether jobs that wait for their start go by the order, too. Under all others they go by arrival.
func (o Order) Admits() bool { return o == ShortestFirst || o == EarliestDeadline || o == Credits }

// byPriority compares the priorities of two tasks. It returns 0 under orders without priority.
func (o Order) byPriority(a, b schedulers.Task) int {
	if o == PriorityFIFO || o == PriorityFirstFit {
		return -cmp.Compare(a.Priority, b.Priority)
	}
	return 0
}

// before orders two waiting tasks; ties break by arrival.
func (o Order) before(a, b *waiting) int {
	by := o.byPriority(a.task, b.task)
	switch o {
	case LargestFirst:
		by = -cmp.Compare(a.task.Bytes, b.task.Bytes)
	case ShortestFirst:
		by = cmp.Compare(lastIfUnknown(a.task.Terms.OrNone().Expected), lastIfUnknown(b.task.Terms.OrNone().Expected))
	case EarliestDeadline:
		by = cmp.Compare(lastIfZero(a.task.Terms.OrNone().Due), lastIfZero(b.task.Terms.OrNone().Due))
	}
	return cmp.Or(by, cmp.Compare(a.arrival, b.arrival))
}

// lastIfUnknown is *d, or Never if d is nil.
func lastIfUnknown(d *time.Duration) time.Duration {
	if d == nil {
		return schedulers.Never
	}
	return *d
}

// lastIfZero is d, or Never if d is 0.
func lastIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return schedulers.Never
	}
	return d
}

// ParseOrder reads the name of an order.
func ParseOrder(s string) (Order, error) {
	if slices.Contains(Orders(), Order(s)) {
		return Order(s), nil
	}
	return "", fmt.Errorf("unknown queue order %q: use one of %s", s, OrderNames(Orders()))
}

// OrderNames lists orders, for messages.
func OrderNames(orders []Order) string {
	var names []string
	for _, o := range orders {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// waiting is a task in the queue.
type waiting struct {
	task    schedulers.Task
	arrival uint64
	since   time.Duration // when it came
	limit   limit
	passed  int // how often, once it has left the queue; before, see passes
	stalled bool
	parked  bool  // it is not in the queue (limit.go)
	starved bool  // Engine.Starved has had it
	spent   bool  // its own memory cannot give more room
	host    int64 // bytes of what it needs that stay on the host
	turn
	entry
	account *account               // of its user; nil: the order has no credits
	inQueue node                   // of queue.tasks
	resumes *holding               // the task that has its device already; nil: it has none yet
	at      []schedulers.Placement // of a task for several devices, where the policy has just placed it
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
	order    Order
	ageLimit int // 0: a task never ages
	arrivals uint64
	tasks    forest  // with the ends of their waits
	ledger   *ledger // nil: the order has no credits
	byID     map[schedulers.TaskID]*waiting
	byJob    map[schedulers.JobID][]*waiting // by arrival
	passes   passes
	stalled  int // how many of the waiting tasks are
	several  int // how many of them ask for several devices
	parked   []*waiting
	index    *index // of the waiting tasks; nil: there is none
}

func newQueue(c Config) *queue {
	q := &queue{order: c.Queue, ageLimit: c.AgeLimit, byID: map[schedulers.TaskID]*waiting{}, byJob: map[schedulers.JobID][]*waiting{}}
	q.tasks.compare = q.compare
	if c.Queue == Credits {
		q.ledger = &ledger{accounts: map[string]*account{}}
	}
	return q
}

func (q *queue) push(t schedulers.Task, l limit, now time.Duration) *waiting {
	q.arrivals++
	w := &waiting{task: t, arrival: q.arrivals, since: now, limit: l}
	if q.ledger != nil {
		w.account = q.ledger.of(t.Terms)
	}
	q.byID[t.ID] = w
	q.byJob[t.Job] = append(q.byJob[t.Job], w)
	if t.Several() {
		q.several++
	}
	q.passes.enter(w)
	q.link(w)
	return w
}

// compare orders the waiting tasks. It returns 0 only for the same task.
func (q *queue) compare(a, b *waiting) int {
	switch {
	case a.aged && b.aged:
		return cmp.Compare(a.arrival, b.arrival)
	case a.aged:
		return -1
	case b.aged:
		return 1
	}
	if a.account != nil {
		return cmp.Or(q.ledger.compare(a.account, b.account), cmp.Compare(a.arrival, b.arrival))
	}
	return q.order.before(a, b)
}

// branch is the tree of w in a forest: one for all, or under credits one for those that have aged, and one for each user.
func (w *waiting) branch() int {
	if w.account == nil || w.aged {
		return 0
	}
	return w.account.branch
}

func (q *queue) len() int { return q.tasks.len }

// all has the waiting tasks in the queue's order. The queue must not change meanwhile.
func (q *queue) all() iter.Seq[*waiting] { return q.tasks.all() }

// aged has the tasks that were passed as often as the age limit allows, in the queue's order. The
// queue must not change meanwhile.
func (q *queue) aged() iter.Seq[*waiting] {
	return func(yield func(*waiting) bool) {
		for w := range q.all() {
			if !w.aged || !yield(w) {
				return
			}
		}
	}
}

// get returns the waiting task with the id, or nil.
func (q *queue) get(id schedulers.TaskID) *waiting { return q.byID[id] }

// ofJob returns the waiting tasks of the job, by arrival. They are the queue's own: a caller that
// takes some out clones them before.
func (q *queue) ofJob(job schedulers.JobID) []*waiting { return q.byJob[job] }

// head returns the first task that is not stalled, or nil.
func (q *queue) head() *waiting {
	for w := range q.all() {
		if !w.stalled {
			return w
		}
	}
	return nil
}

// stops reports whether head, which does not fit and is not stalled, holds back w. head is the first
// such task, so no other task holds back w if head does not.
func (q *queue) stops(head, w *waiting) bool {
	return head != nil && q.compare(head, w) < 0 && (head.aged || q.order.blocks(head, w))
}

// candidate returns the first task past after that may have a device now, as far as the index
// knows, or nil. If after is nil, it may be any task.
func (q *queue) candidate(after *waiting) *waiting {
	if q.index != nil {
		return q.index.candidate(after)
	}
	return q.tasks.first(everything, after)
}

// nextExpiry is when the first wait ends; schedulers.Never if none does.
func (q *queue) nextExpiry() time.Duration {
	next := time.Duration(q.tasks.least())
	for _, w := range q.parked {
		next = min(next, w.limit.expires)
	}
	return next
}

// expire removes the tasks whose wait is over, and returns them by arrival.
func (q *queue) expire(now time.Duration) []*waiting {
	var out []*waiting
	for w := q.tasks.first(int64(now), nil); w != nil; w = q.tasks.first(int64(now), nil) {
		out = append(out, q.take(w))
	}
	for _, w := range slices.Clone(q.parked) {
		if w.limit.expires <= now {
			out = append(out, q.take(w))
		}
	}
	slices.SortFunc(out, func(a, b *waiting) int { return cmp.Compare(a.arrival, b.arrival) })
	return out
}

// stall says whether w is stalled from now on.
func (q *queue) stall(w *waiting, stalled bool) {
	switch {
	case stalled && !w.stalled:
		q.stalled++
	case !stalled && w.stalled:
		q.stalled--
	}
	q.passes.stall(w, stalled)
}

// grant removes w, which goes ahead of every earlier waiting task. Each earlier task counts as
// passed once more, unless it is stalled.
func (q *queue) grant(w *waiting) *waiting {
	q.leave(w, true)
	if q.ageLimit > 0 {
		for _, old := range q.passes.age(q.ageLimit) {
			q.unlink(old)
			old.aged = true
			q.link(old)
		}
	}
	return w
}

// take removes w; earlier tasks do not count as passed.
func (q *queue) take(w *waiting) *waiting {
	q.leave(w, false)
	return w
}

func (q *queue) leave(w *waiting, granted bool) {
	w.passed = q.passes.of(w)
	if w.stalled {
		q.stalled--
	}
	if w.task.Several() {
		q.several--
	}
	q.passes.leave(w, granted)
	if w.parked {
		q.parked = slices.DeleteFunc(q.parked, func(o *waiting) bool { return o == w })
	} else {
		q.unlink(w)
	}
	delete(q.byID, w.task.ID)
	job := w.task.Job
	if q.byJob[job] = slices.DeleteFunc(q.byJob[job], func(o *waiting) bool { return o == w }); len(q.byJob[job]) == 0 {
		delete(q.byJob, job)
	}
}

// park takes w out of the queue for a while, or puts it back. It counts as stalled meanwhile.
func (q *queue) park(w *waiting, parked bool) {
	w.parked = parked
	if parked {
		q.unlink(w)
		q.parked = append(q.parked, w)
	} else {
		q.parked = slices.DeleteFunc(q.parked, func(o *waiting) bool { return o == w })
		q.link(w)
	}
	q.stall(w, parked)
}

// link puts w where the order has it.
func (q *queue) link(w *waiting) {
	q.tasks.insert(w, &w.inQueue, int64(w.limit.expires))
	if q.index != nil {
		q.index.insert(w)
	}
}

func (q *queue) unlink(w *waiting) {
	q.tasks.remove(w)
	if q.index != nil {
		q.index.remove(w)
	}
}
