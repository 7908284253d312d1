package placing

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/caserun/caserun/mixes/traces"
	"github.com/caserun/caserun/schedulers/placement"
)

// Waits say how many seconds tasks waited until they had room. Tasks that never had room do not count.
type Waits struct {
	Waited         int // tasks
	Mean, P95, P99 float64
}

// replays simulates the trace in its own time under every policy.
func (c *cluster) replays(step func() error) (outcomes []Outcome, err error) {
	c.all = int64(len(c.tasks) * len(c.policies))
	for _, p := range c.policies {
		s, err := c.begin(p, c.Seed, step)
		if err != nil {
			return nil, err
		}
		r := replay{simulation: s, tasks: c.tasks, shapes: c.shapes, full: make([]bool, s.Classes())}
		if err := r.run(); err != nil {
			return nil, err
		}
		outcomes = append(outcomes, r.Outcome)
	}
	return outcomes, nil
}

// replay is a simulation in the trace's time. A task takes as long as in the trace, from its start on. Tasks without room wait. When
// others end, those that wait are tried in the order of their arrival; one that still finds no room does not hold up the next.
type replay struct {
	*simulation
	tasks   []traces.Task
	shapes  []placement.Shape
	running ends
	waiting []waiting
	full    []bool // classes that found no room since something ended
	waits   []float64

	last   Point   // up to which the means are summed
	span   float64 // seconds until the last arrival
	sample float64 // when the series has its next point
}

// waiting is a task that waits.
type waiting struct{ task, class int }

// pointsOverTime is about how many points a series has.
const pointsOverTime = 500

func (r *replay) run() error {
	begin := r.tasks[0].Created
	r.span = r.tasks[len(r.tasks)-1].Created - begin
	r.last = r.now(begin, 0)
	r.sample = begin
	for i, t := range r.tasks {
		r.until(t.Created)
		of, fits := r.Class(r.shapes[i])
		switch w := (waiting{i, of}); {
		case !fits:
			r.fail(r.shapes[i])
		case !r.start(w, t.Created, nil):
			r.waiting = append(r.waiting, w)
		}
		r.observe(t.Created)
		if err := r.step(); err != nil {
			return err
		}
	}
	if r.span > 0 {
		r.Outcome.Allocated /= r.span
		r.Fragmented /= r.span
	} else {
		r.Outcome.Allocated, r.Fragmented = r.last.Allocated, r.last.Fragmented
	}
	r.span = 0
	r.until(math.Inf(1))
	r.Waits = waitsOf(r.waits)
	return nil
}

// until lets tasks end up to a time.
func (r *replay) until(at float64) {
	for len(r.running) > 0 && r.running[0].at <= at {
		now := r.running[0].at
		var freed []int
		for len(r.running) > 0 && r.running[0].at == now {
			e := heap.Pop(&r.running).(end)
			r.Release(e.placed)
			freed = append(freed, e.placed.Node)
		}
		slices.Sort(freed)
		r.retry(now, slices.Compact(freed))
		r.observe(now)
	}
}

// retry tries those that wait on the nodes where something ended: the others had no room before.
func (r *replay) retry(now float64, freed []int) {
	clear(r.full)
	r.waiting = slices.DeleteFunc(r.waiting, func(w waiting) bool {
		started := !r.full[w.class] && r.start(w, now, freed)
		r.full[w.class] = !started
		return started
	})
}

// start starts a task if there is room.
func (r *replay) start(w waiting, now float64, among []int) bool {
	placed, ok := r.Place(w.class, among)
	if !ok {
		return false
	}
	t := r.tasks[w.task]
	heap.Push(&r.running, end{now + t.End - t.Start, w.task, placed})
	r.waits = append(r.waits, now-t.Created)
	return true
}

// observe counts what was until now, and what is.
func (r *replay) observe(now float64) {
	if r.span > 0 {
		r.Outcome.Allocated += r.last.Allocated * (now - r.last.At)
		r.Fragmented += r.last.Fragmented * (now - r.last.At)
	}
	r.last = r.now(now, len(r.waiting))
	r.Peak = max(r.Peak, r.last.Allocated)
	if now >= r.sample {
		r.Series = append(r.Series, r.last)
		r.sample = now + (r.tasks[len(r.tasks)-1].Created-r.tasks[0].Created)/pointsOverTime
	}
}

func waitsOf(waits []float64) (w Waits) {
	if len(waits) == 0 {
		return w
	}
	slices.Sort(waits)
	for _, wait := range waits {
		w.Mean += wait / float64(len(waits))
		if wait > 0 {
			w.Waited++
		}
	}
	rank := func(part float64) float64 { return waits[int(math.Ceil(part*float64(len(waits))))-1] }
	w.P95, w.P99 = rank(0.95), rank(0.99)
	return w
}

// end is when a task ends.
type end struct {
	at     float64
	task   int
	placed placement.Placement
}

// ends is a heap by time, then by arrival.
type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].task, e[j].task)) < 0
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)   { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
