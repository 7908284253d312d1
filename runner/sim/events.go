package sim

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// event is something due at a time; equal times go by the order of scheduling.
type event struct {
	at       time.Duration
	sequence uint64
	fire     func()
	once     bool // it is the calendar's own, which uses it again
	place    int  // in the heap, from 1; 0: it is not due
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].sequence < h[j].sequence
}
func (h eventHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}
func (h *eventHeap) Push(x any) {
	e := x.(*event)
	*h = append(*h, e)
	e.place = len(*h)
}
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = 0
	return e
}

// calendar is the virtual clock and the events that are due.
type calendar struct {
	now      time.Duration
	sequence uint64
	due      eventHeap
	spare    []*event // that have fired, for at
}

// at schedules fire; a time in the past means now.
func (c *calendar) at(t time.Duration, fire func()) {
	var e *event
	if last := len(c.spare) - 1; last >= 0 {
		e, c.spare = c.spare[last], c.spare[:last]
	} else {
		e = &event{once: true}
	}
	e.fire = fire
	c.schedule(e, t)
}

// schedule schedules an event that its owner keeps, or moves it to another time, behind what is due then.
func (c *calendar) schedule(e *event, t time.Duration) {
	c.sequence++
	e.at, e.sequence = max(t, c.now), c.sequence
	if e.place > 0 {
		heap.Fix(&c.due, e.place-1)
		return
	}
	heap.Push(&c.due, e)
}

// cancel takes an event out if it is due.
func (c *calendar) cancel(e *event) {
	if e.place > 0 {
		heap.Remove(&c.due, e.place-1)
	}
}

// repeatAtRandom does something again and again, until goesOn says no. It is done to one of so many devices or nodes each time, and
// to each of them once in `every`, in the mean.
func (c *calendar) repeatAtRandom(r *rand.Rand, every time.Duration, count int, goesOn func() bool, do func()) {
	after := time.Duration(r.ExpFloat64() * float64(every) / float64(count))
	c.at(c.now+max(1, after), func() {
		if goesOn() {
			do()
			c.repeatAtRandom(r, every, count, goesOn, do)
		}
	})
}

// next is the time of the next event; false: none is due.
func (c *calendar) next() (time.Duration, bool) {
	if len(c.due) == 0 {
		return 0, false
	}
	return c.due[0].at, true
}

// step advances the clock to the next event and fires it; false: none is due.
func (c *calendar) step() bool {
	if len(c.due) == 0 {
		return false
	}
	e := heap.Pop(&c.due).(*event)
	c.now = e.at
	fire := e.fire
	if e.once {
		e.fire = nil
		c.spare = append(c.spare, e)
	}
	fire()
	return true
}
