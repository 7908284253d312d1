package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// pool is a resource that activities share. While the sum of their demands fits the capacity,
// each activity runs at its solo rate. Otherwise all of a level slow down by the same factor, which follows
// from the weights of the levels (schedulers.NiceShares).
type pool struct {
	capacity   float64
	crowd      Crowd     // the capacity's; the zero value for all but the host's cores
	levels     []level   // up to the last that has been used; only the host's cores have more than one
	wanted     []float64 // demand of each level
	rates      []float64 // parts of the solo rate, of each level, if shared
	shared     bool      // nothing has changed since the rates were worked out
	arrivals   uint64
	settled    time.Duration
	completion event // of the next activity, where an Executor expects it
	expected   bool  // nothing has changed since it was scheduled

	contending []*activity // that slow others down or are slowed down (contention.go), by arrival

	out   []*activity // the latest that have finished
	spare []*cohort   // without members, for add
}

// level is the activities of one nice level.
type level struct {
	load    load
	cohorts []*cohort // the least that is left first
}

func newPool(capacity float64) *pool {
	return &pool{capacity: capacity, levels: make([]level, 1), wanted: make([]float64, 1), rates: make([]float64, 1)}
}

// activity is work in a pool.
type activity struct {
	demand float64 // of the pool's capacity
	solo   float64 // seconds at the solo rate
	nice   int     // its level
	contention
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

// demand is the sum of the members' demands, of a pool with one level.
func (p *pool) demand() float64 { return p.wanted[0] }

// changed takes in that a level's load has changed.
func (p *pool) changed(nice int) {
	p.wanted[nice] = p.levels[nice].load.sum
	p.shared, p.expected = false, false
}

// share works the rates out.
func (p *pool) share() {
	if p.shared {
		return
	}
	p.shared = true
	schedulers.NiceShares(p.capacity, p.wanted, p.rates)
	if p.crowd == (Crowd{}) {
		return
	}
	busy := 0.0
	for _, wanted := range p.wanted {
		busy += wanted
	}
	slowdown := p.slowdown(busy)
	for nice := range p.rates {
		p.rates[nice] /= slowdown
	}
}

// slowdown is how many times as long as alone an activity takes because of the crowd that a demand makes.
func (p *pool) slowdown(demand float64) float64 {
	busy := min(demand, p.capacity)
	saturated := float64(p.crowd.SaturatedAt) * max(1, p.capacity/float64(p.crowd.Cores))
	switch {
	case busy <= 1:
		return 1
	case busy > saturated:
		return (1 + p.crowd.Cost) * busy / saturated
	default:
		return 1 + p.crowd.Cost*(busy-1)/(saturated-1)
	}
}

// settle accounts for the work done until now.
func (p *pool) settle(now time.Duration) {
	passed := (now - p.settled).Seconds()
	p.settled = now
	if passed == 0 {
		return
	}
	p.share()
	for nice, rate := range p.rates {
		for _, c := range p.levels[nice].cohorts {
			c.left -= passed * rate
		}
	}
}

// left is how many seconds at the solo rate are left of an activity.
func (p *pool) left(a *activity, now time.Duration) float64 {
	p.settle(now)
	return max(a.cohort.left, 0) / a.slowdown()
}

func (p *pool) add(a *activity, now time.Duration) {
	p.settle(now)
	for a.nice >= len(p.levels) {
		p.levels, p.wanted, p.rates = append(p.levels, level{}), append(p.wanted, 0), append(p.rates, 1)
	}
	p.arrivals++
	a.arrival = p.arrivals
	p.insert(a, a.solo)
	p.levels[a.nice].load.add(a)
	p.contend(a)
	p.changed(a.nice)
}

// insert has an activity in the cohort with so much left.
func (p *pool) insert(a *activity, left float64) {
	l := &p.levels[a.nice]
	at, found := slices.BinarySearchFunc(l.cohorts, left, func(c *cohort, left float64) int { return cmp.Compare(c.left, left) })
	if !found {
		l.cohorts = slices.Insert(l.cohorts, at, p.newCohort(left))
	}
	c := l.cohorts[at]
	c.members = append(c.members, a)
	c.count++
	a.cohort = c
}

// extract takes an activity out of its cohort.
func (p *pool) extract(a *activity) {
	c := a.cohort
	a.cohort = nil
	if c.count--; c.count == 0 {
		l := &p.levels[a.nice]
		l.cohorts = slices.DeleteFunc(l.cohorts, func(o *cohort) bool { return o == c })
		p.discard(c)
	}
}

func (p *pool) newCohort(left float64) *cohort {
	last := len(p.spare) - 1
	if last < 0 {
		return &cohort{left: left}
	}
	c := p.spare[last]
	p.spare = p.spare[:last]
	c.left = left
	return c
}

// discard keeps a cohort that is in no level any more for newCohort.
func (p *pool) discard(c *cohort) {
	clear(c.members)
	c.members, c.count = c.members[:0], 0
	p.spare = append(p.spare, c)
}

func (p *pool) remove(a *activity, now time.Duration) {
	p.settle(now)
	p.levels[a.nice].load.remove(a)
	p.extract(a)
	p.relent()
	p.changed(a.nice)
}

// finished takes out the activities whose work is done, in the order of their arrival. Event times are
// whole nanoseconds, so less than one nanosecond of work counts as none. The result is valid until the next call.
func (p *pool) finished(now time.Duration) []*activity {
	p.settle(now)
	clear(p.out)
	out := p.out[:0]
	cohorts := 0
	for nice := range p.levels {
		l, n := &p.levels[nice], 0
		for ; n < len(l.cohorts) && l.cohorts[n].left < 1e-9; n++ {
			c := l.cohorts[n]
			for _, a := range c.members {
				if a.cohort == c {
					out = append(out, a)
					l.load.remove(a)
					a.cohort = nil
				}
			}
			p.discard(c)
		}
		l.cohorts = slices.Delete(l.cohorts, 0, n)
		cohorts += n
		p.changed(nice)
	}
	if cohorts > 1 || len(p.contending) > 0 {
		slices.SortFunc(out, func(a, b *activity) int { return cmp.Compare(a.arrival, b.arrival) })
	}
	p.relent()
	p.out = out
	return out
}

// nextCompletion is when the next member will be done at the present rate.
func (p *pool) nextCompletion() (time.Duration, bool) {
	next := math.Inf(1) // seconds from now
	p.share()
	for nice, rate := range p.rates {
		if cohorts := p.levels[nice].cohorts; len(cohorts) > 0 {
			next = min(next, max(cohorts[0].left, 0)/rate)
		}
	}
	if math.IsInf(next, 1) {
		return 0, false
	}
	return p.settled + time.Duration(math.Ceil(next*1e9)), true
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
