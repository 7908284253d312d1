package plan

import (
	"cmp"
	"math"
	"slices"
)

// order has the jobs of each device that have no device yet, first goes first. Jobs are indices of
// model.jobs.
type order [][]int

func (o order) clone() order {
	out := make(order, len(o))
	for d := range o {
		out[d] = slices.Clone(o[d])
	}
	return out
}

// inOrder grants as an order says: no job passes the head of a device.
type inOrder struct {
	order order
	heads []int
}

func (c *inOrder) choose(m *model) {
	for d, jobs := range c.order {
		for c.heads[d] < len(jobs) {
			i := jobs[c.heads[d]]
			if m.stage[i] != Waiting || !m.fits(i, d) {
				break
			}
			m.grant(i, d)
			c.heads[d]++
		}
	}
}

// key says which job goes first: the one with the least.
type key func(j *modelled) float64

func down(k key) key { return func(j *modelled) float64 { return -k(j) } }

func memory(j *modelled) float64 { return float64(j.Bytes) }
func before(j *modelled) float64 { return j.before }
func held(j *modelled) float64   { return j.held }
func area(j *modelled) float64   { return j.held * float64(j.Bytes) }
func total(j *modelled) float64  { return j.before + j.held + j.after }

// ranked returns the jobs that have no device yet.
func ranked(m *model, k key) []int {
	var out []int
	for i := range m.jobs {
		if m.jobs[i].Stage < Held {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(k(&m.jobs[a]), k(&m.jobs[b])) })
	return out
}

// better chooses among devices that have room for a job: the one for which it returns the least.
type better func(m *model, d int) float64

func bestFit(m *model, d int) float64     { return float64(m.free[d]) }
func worstFit(m *model, d int) float64    { return -float64(m.free[d]) }
func leastLoaded(m *model, d int) float64 { return m.usage.load[d] }

// dispatch grants whatever fits, by rank, and notes in which order.
type dispatch struct {
	ranked []int
	better better
	order  order
}

func (c *dispatch) choose(m *model) {
	for _, i := range c.ranked {
		if m.stage[i] != Waiting {
			continue
		}
		best, least := -1, 0.0
		for d := range m.devices {
			if !m.fits(i, d) {
				continue
			}
			if k := c.better(m, d); best < 0 || k < least {
				best, least = d, k
			}
		}
		if best >= 0 {
			m.grant(i, best)
			c.order[best] = append(c.order[best], i)
		}
	}
}

func dispatched(m *model, k key, b better) order {
	c := &dispatch{ranked: ranked(m, k), better: b, order: make(order, len(m.devices))}
	m.play(c)
	return c.order
}

// span is memory in use on a device for a time.
type span struct {
	from, to float64
	bytes    int64
}

// serial places each job, by rank, at the earliest time at which its memory is free for as long as
// it holds it, beside those that are placed already. asked is when each job asks.
func serial(m *model, asked []float64, ranked []int, best bool) order {
	spans := make([][]span, len(m.devices))
	free := make([]int64, len(m.devices)) // once all that runs has ended
	for d := range m.devices {
		free[d] = m.devices[d].FreeBytes
	}
	for i := range m.jobs {
		j := &m.jobs[i]
		if j.Stage < Held || j.Device < 0 {
			continue
		}
		d := j.Device
		free[d] += m.devices[d].ContextBytes
		over := j.after
		if j.Stage == Held {
			over += j.held
			free[d] += j.Bytes
			spans[d] = append(spans[d], span{0, j.held, j.Bytes})
		}
		spans[d] = append(spans[d], span{0, over, m.devices[d].ContextBytes})
		if j.Isolate {
			spans[d] = append(spans[d], span{0, over, m.devices[d].CapacityBytes})
		}
	}
	start := make([]float64, len(m.jobs))
	out := make(order, len(m.devices))
	for _, i := range ranked {
		j := &m.jobs[i]
		at, on, room := math.Inf(1), -1, int64(0)
		for d := range m.devices {
			need, long := j.Bytes+m.devices[d].ContextBytes, j.held
			if !j.may(d, m.devices) || need > free[d] {
				continue
			}
			if j.Isolate { // it needs all of the device, until it ends
				need, long = free[d], j.held+j.after
			}
			t, left := earliest(spans[d], free[d], need, asked[i], long)
			if t < at-1e-9 || t < at+1e-9 && (left < room) == best && left != room {
				at, on, room = t, d, left
			}
		}
		if on < 0 {
			continue // no device will ever have the room
		}
		start[i] = at
		context := m.devices[on].ContextBytes
		if j.Isolate {
			context = free[on]
		}
		spans[on] = append(spans[on], span{at, at + j.held, j.Bytes}, span{at, at + j.held + j.after, context})
		out[on] = append(out[on], i)
	}
	for d := range out {
		slices.SortStableFunc(out[d], func(a, b int) int { return cmp.Compare(start[a], start[b]) })
	}
	return out
}

// earliest returns the first time from `from` on at which need bytes are free for so long, and how
// much is then left.
func earliest(spans []span, free, need int64, from, long float64) (at float64, left int64) {
	at = from
	for {
		most, next := most(spans, at, at+long), math.Inf(1)
		if most+need <= free {
			return at, free - most - need
		}
		for _, s := range spans {
			if s.to > at {
				next = min(next, s.to)
			}
		}
		at = next
	}
}

// most is the most that spans have in use at one time from `from` until before `to`.
func most(spans []span, from, to float64) int64 {
	use := func(at float64) (sum int64) {
		for _, s := range spans {
			if s.from <= at && at < s.to {
				sum += s.bytes
			}
		}
		return sum
	}
	top := use(from)
	for _, s := range spans {
		if s.from > from && s.from < to {
			top = max(top, use(s.from))
		}
	}
	return top
}
