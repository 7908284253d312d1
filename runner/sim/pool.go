package sim

import (
	"math"
	"slices"
	"time"
)

// pool is a resource that activities share. While the sum of their demands fits the capacity,
// each activity runs at its solo rate. Otherwise all slow down by the same factor.
type pool struct {
	capacity   float64
	members    []*activity // by arrival
	settled    time.Duration
	generation int // counts changes, so that outdated completion events are known
}

// activity is work in a pool.
type activity struct {
	demand float64 // of the pool's capacity
	left   float64 // seconds at the solo rate
	done   func()
}

// demand is the sum of the members' demands.
func (p *pool) demand() float64 {
	sum := 0.0
	for _, a := range p.members {
		sum += a.demand
	}
	return sum
}

func (p *pool) rate() float64 {
	if sum := p.demand(); sum > p.capacity {
		return p.capacity / sum
	}
	return 1
}

// settle accounts for the work done until now.
func (p *pool) settle(now time.Duration) {
	done := (now - p.settled).Seconds() * p.rate()
	for _, a := range p.members {
		a.left -= done
	}
	p.settled = now
}

func (p *pool) add(a *activity, now time.Duration) {
	p.settle(now)
	p.members = append(p.members, a)
	p.generation++
}

func (p *pool) remove(a *activity, now time.Duration) {
	p.settle(now)
	p.members = slices.DeleteFunc(p.members, func(o *activity) bool { return o == a })
	p.generation++
}

// finished takes out the activities whose work is done. Event times are whole
// nanoseconds, so less than one nanosecond of work counts as none.
func (p *pool) finished(now time.Duration) []*activity {
	p.settle(now)
	var out []*activity
	p.members = slices.DeleteFunc(p.members, func(a *activity) bool {
		if a.left < 1e-9 {
			out = append(out, a)
			return true
		}
		return false
	})
	p.generation++
	return out
}

// nextCompletion is when the next member will be done at the present rate.
func (p *pool) nextCompletion() (time.Duration, bool) {
	if len(p.members) == 0 {
		return 0, false
	}
	least := math.Inf(1)
	for _, a := range p.members {
		least = min(least, a.left)
	}
	wait := math.Ceil(max(least, 0) / p.rate() * 1e9)
	return p.settled + time.Duration(wait), true
}
