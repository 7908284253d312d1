package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// pool is a resource that activities share. While the sum of their demands fits the capacity,
// each activity runs at its solo rate. Otherwise all slow down by the same factor.
type pool struct {
	capacity   float64
	crowd      float64 // by how much longer an activity takes with the whole capacity in use than alone; 0: no longer
	load       load
	cohorts    []*cohort // the least that is left first
	arrivals   uint64
	settled    time.Duration
	generation int // counts changes, so that outdated completion events are known
}

// activity is work in a pool.
type activity struct {
	demand  float64 // of the pool's capacity
	solo    float64 // seconds at the solo rate
	done    func()
	arrival uint64
	cohort  *cohort
	before  *activity // by arrival (load)
	after   *activity
}

// cohort is activities with equally much left. They all do equally much in any time, so it stays equal,
// and cohorts keep their order. Most jobs of a large batch come with their equals.
type cohort struct {
	left    float64     // seconds at the solo rate
	members []*activity // by arrival, with those that were taken out
	count   int         // of those that were not
}

// demand is the sum of the members' demands.
func (p *pool) demand() float64 { return p.load.sum }

func (p *pool) rate() float64 {
	rate := 1.0
	if p.load.sum > p.capacity {
		rate = p.capacity / p.load.sum
	}
	return rate / p.slowdown(p.load.sum)
}

// slowdown is how many times as long as alone an activity takes because of the crowd that a demand makes.
func (p *pool) slowdown(demand float64) float64 {
	busy := min(demand, p.capacity)
	if busy <= 1 {
		return 1
	}
	return 1 + p.crowd*(busy-1)/(p.capacity-1)
}

// settle accounts for the work done until now.
func (p *pool) settle(now time.Duration) {
	done := (now - p.settled).Seconds() * p.rate()
	p.settled = now
	if done == 0 {
		return
	}
	for _, c := range p.cohorts {
		c.left -= done
	}
}

func (p *pool) add(a *activity, now time.Duration) {
	p.settle(now)
	at, found := slices.BinarySearchFunc(p.cohorts, a.solo, func(c *cohort, left float64) int { return cmp.Compare(c.left, left) })
	if !found {
		p.cohorts = slices.Insert(p.cohorts, at, &cohort{left: a.solo})
	}
	c := p.cohorts[at]
	c.members = append(c.members, a)
	c.count++
	p.arrivals++
	a.arrival, a.cohort = p.arrivals, c
	p.load.add(a)
	p.generation++
}

func (p *pool) remove(a *activity, now time.Duration) {
	p.settle(now)
	p.load.remove(a)
	if c := a.cohort; c.count > 1 {
		c.count--
		a.cohort = nil
	} else {
		p.cohorts = slices.DeleteFunc(p.cohorts, func(o *cohort) bool { return o == c })
	}
	p.generation++
}

// finished takes out the activities whose work is done, in the order of their arrival. Event times are
// whole nanoseconds, so less than one nanosecond of work counts as none.
func (p *pool) finished(now time.Duration) []*activity {
	p.settle(now)
	var out []*activity
	n := 0
	for ; n < len(p.cohorts) && p.cohorts[n].left < 1e-9; n++ {
		for _, a := range p.cohorts[n].members {
			if a.cohort != nil {
				out = append(out, a)
				p.load.remove(a)
			}
		}
	}
	p.cohorts = slices.Delete(p.cohorts, 0, n)
	if n > 1 {
		slices.SortFunc(out, func(a, b *activity) int { return cmp.Compare(a.arrival, b.arrival) })
	}
	p.generation++
	return out
}

// nextCompletion is when the next member will be done at the present rate.
func (p *pool) nextCompletion() (time.Duration, bool) {
	if len(p.cohorts) == 0 {
		return 0, false
	}
	wait := math.Ceil(max(p.cohorts[0].left, 0) / p.rate() * 1e9)
	return p.settled + time.Duration(wait), true
}

// load is the sum of the demands of activities, added up in the order of their arrival. Whole demands,
// as those of cores, have the same sum in any order.
type load struct {
	sum         float64
	first, last *activity
	fractions   int // demands that are not whole
}

func isWhole(demand float64) bool { return demand == math.Trunc(demand) }

func (l *load) add(a *activity) {
	if a.before = l.last; a.before == nil {
		l.first = a
	} else {
		a.before.after = a
	}
	l.last = a
	l.sum += a.demand
	if !isWhole(a.demand) {
		l.fractions++
	}
}

func (l *load) remove(a *activity) {
	if a.before == nil {
		l.first = a.after
	} else {
		a.before.after = a.after
	}
	if a.after == nil {
		l.last = a.before
	} else {
		a.after.before = a.before
	}
	a.before, a.after = nil, nil
	if l.fractions == 0 {
		l.sum -= a.demand
		return
	}
	if !isWhole(a.demand) {
		l.fractions--
	}
	l.sum = 0
	for o := l.first; o != nil; o = o.after {
		l.sum += o.demand
	}
}
