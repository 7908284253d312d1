package sim

import (
	"container/heap"
	"time"
)

// event is something due at a time; equal times go by the order of scheduling.
type event struct {
	at       time.Duration
	sequence uint64
	fire     func()
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].sequence < h[j].sequence
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}

// calendar is the virtual clock and the events that are due.
type calendar struct {
	now      time.Duration
	sequence uint64
	due      eventHeap
}

// at schedules fire; a time in the past means now.
func (c *calendar) at(t time.Duration, fire func()) {
	c.sequence++
	heap.Push(&c.due, &event{at: max(t, c.now), sequence: c.sequence, fire: fire})
}

// step advances the clock to the next event and fires it; false: none is due.
func (c *calendar) step() bool {
	if len(c.due) == 0 {
		return false
	}
	e := heap.Pop(&c.due).(*event)
	c.now = e.at
	e.fire()
	return true
}
