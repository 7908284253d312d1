package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
)

// work is an activity that a test puts into a pool.
type work struct {
	at, demand, solo float64 // seconds, of the capacity, seconds
	killed           float64 // when it is taken out, 0: never
	want             float64 // when it is done
	nice             int
}

func (p *pool) empty() bool {
	return !slices.ContainsFunc(p.levels, func(l level) bool { return len(l.cohorts) > 0 || l.load != load{} })
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

func TestProcessorSharing(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity float64
		works    []work
	}{
		{"alone", 1, []work{{0, 0.5, 2, 0, 2, 0}}},
		{"alone with all of it", 1, []work{{3, 1, 2, 0, 5, 0}}},
		{"demands that fit do not slow each other", 1, []work{{0, 0.5, 2, 0, 2, 0}, {0, 0.5, 3, 0, 3, 0}}},
		{"two that want all of it take turns", 1, []work{{0, 1, 2, 0, 4, 0}, {0, 1, 2, 0, 4, 0}}},
		{"the longer one speeds up", 1, []work{{0, 1, 1, 0, 2, 0}, {0, 1, 3, 0, 4, 0}}},
		{"a late one slows the first", 1, []work{{0, 1, 4, 0, 5, 0}, {2, 1, 1, 0, 4, 0}}},
		{"all slow by the same factor", 1, []work{{0, 1, 4, 0, 4.25, 0}, {0, 0.25, 1, 0, 1.25, 0}}},
		{"three on two cores", 2, []work{{0, 1, 2, 0, 3, 0}, {0, 1, 2, 0, 3, 0}, {0, 1, 2, 0, 3, 0}}},
		{"three in turn on two cores", 2, []work{{0, 1, 1, 0, 1.5, 0}, {0, 1, 2, 0, 2.5, 0}, {0, 1, 2, 0, 2.5, 0}}},
		{"one that is taken out gives its share back", 1, []work{{0, 1, 9, 2, 0, 0}, {0, 1, 2, 0, 3, 0}}},
		{"the pool idles in between", 1, []work{{0, 1, 1, 0, 1, 0}, {10, 1, 1, 0, 11, 0}}},
		{"a nicer one has 335 parts beside 1024", 1, []work{{0, 1, 1.024, 0, 1.359, 0}, {0, 1, 0.335 + 1, 0, 2.359, 5}}},
		{"nice jobs have what others leave", 2, []work{{0, 1, 3, 0, 3, 0}, {0, 1, 1, 0, 2, 19}, {0, 1, 1, 0, 2, 19}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &Executor{}
			p := newPool(c.capacity)
			got := make([]time.Duration, len(c.works))
			for i, w := range c.works {
				x.at(seconds(w.at), func() {
					a := x.share(p, &activity{demand: w.demand, solo: w.solo, nice: w.nice, done: func() { got[i] = x.now }})
					if w.killed > 0 {
						x.at(seconds(w.killed), func() { x.leave(p, a) })
					}
				})
			}
			for x.step() {
			}
			for i, w := range c.works {
				if got[i] != seconds(w.want) {
					t.Errorf("work %d was done at %v, want %v", i, got[i], seconds(w.want))
				}
			}
			if !p.empty() {
				t.Errorf("activities are left: %+v", p.levels)
			}
		})
	}
}

func TestEventsGoByTimeThenByOrderOfScheduling(t *testing.T) {
	var c calendar
	var got []int
	fire := func(n int) func() { return func() { got = append(got, n) } }
	c.at(2, fire(4))
	c.at(1, fire(1))
	c.at(1, func() {
		fire(2)()
		c.at(0, fire(3)) // the past is now, after what was due already
		c.at(2, fire(6))
	})
	c.at(1, func() {})
	c.at(2, fire(5))
	for c.step() {
	}
	if want := []int{1, 2, 3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("events fired in order %v, want %v", got, want)
	}
	if c.now != 2 {
		t.Errorf("the clock stands at %d, want 2", c.now)
	}
}

// An event that moves goes behind what is due then, and one that is cancelled does not fire until it is scheduled again.
func TestAnEventThatItsOwnerKeepsMoves(t *testing.T) {
	var c calendar
	var got []string
	fire := func(s string) func() { return func() { got = append(got, s) } }
	kept, other := &event{fire: fire("kept")}, &event{fire: fire("other")}
	c.schedule(kept, 1)
	c.schedule(other, 2)
	c.at(3, fire("once"))
	c.schedule(kept, 3)
	c.cancel(other)
	c.cancel(other)
	for c.step() {
	}
	c.schedule(other, 0)
	c.schedule(kept, 4)
	c.at(4, fire("once more"))
	for c.step() {
	}
	if want := []string{"once", "kept", "other", "kept", "once more"}; !slices.Equal(got, want) {
		t.Errorf("events fired: %v, want %v", got, want)
	}
}

// plainPool is the pool without cohorts: it walks all members each time.
type plainPool struct {
	capacity float64
	levels   int
	members  []*plainActivity
	settled  time.Duration
}

type plainActivity struct {
	demand, left float64
	nice         int
}

// rates are those of the levels. With one level all members slow down by the same factor.
func (p *plainPool) rates() []float64 {
	wanted, rates := make([]float64, p.levels), make([]float64, p.levels)
	for _, a := range p.members {
		wanted[a.nice] += a.demand
	}
	if p.levels == 1 {
		return []float64{min(1, p.capacity/wanted[0])}
	}
	schedulers.NiceShares(p.capacity, wanted, rates)
	return rates
}

func (p *plainPool) settle(now time.Duration) {
	rates := p.rates()
	for _, a := range p.members {
		a.left -= (now - p.settled).Seconds() * rates[a.nice]
	}
	p.settled = now
}

func (p *plainPool) remove(now time.Duration, drop func(*plainActivity) bool) {
	p.settle(now)
	p.members = slices.DeleteFunc(p.members, drop)
}

func (p *plainPool) nextCompletion() (time.Duration, bool) {
	if len(p.members) == 0 {
		return 0, false
	}
	least, rates := math.Inf(1), p.rates()
	for _, a := range p.members {
		least = min(least, max(a.left, 0)/rates[a.nice])
	}
	return p.settled + time.Duration(math.Ceil(least*1e9)), true
}

// A pool does what the plain one does, to the last bit.
func TestPoolIsThePlainOne(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		capacity := rapid.SampledFrom([]float64{1, 4, 16}).Draw(t, "capacity")
		demands := rapid.SampledFrom([][]float64{{1}, {0.3, 0.1, 0.7}, {1, 0.4, 2}}).Draw(t, "demands")
		levels := rapid.SampledFrom([]int{1, 2, 7}).Draw(t, "levels")
		p, plain := newPool(capacity), &plainPool{capacity: capacity, levels: levels}
		twins := map[*activity]*plainActivity{}
		var in []*activity // by arrival
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1: // several at once, some of them equal
				for range rapid.IntRange(1, 5).Draw(t, "many") {
					a := &activity{demand: rapid.SampledFrom(demands).Draw(t, "demand"),
						solo: rapid.SampledFrom([]float64{0.1, 0.1 + 0.2, 0.3, 1e-9, 7, 1.0 / 3}).Draw(t, "solo"), nice: rapid.IntRange(0, levels-1).Draw(t, "nice")}
					twins[a] = &plainActivity{a.demand, a.solo, a.nice}
					in = append(in, a)
					p.add(a, now)
					plain.settle(now)
					plain.members = append(plain.members, twins[a])
				}
			case 2:
				if len(in) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(in)-1).Draw(t, "killed")
				p.remove(in[i], now)
				plain.remove(now, func(a *plainActivity) bool { return a == twins[in[i]] })
				in = slices.Delete(in, i, i+1)
			case 3:
				at, some := p.nextCompletion()
				wantAt, want := plain.nextCompletion()
				if at != wantAt || some != want {
					t.Fatalf("the next is done at %d (%v), want %d (%v)", at, some, wantAt, want)
				}
				if !some {
					continue
				}
				now = max(now, at-time.Duration(rapid.IntRange(0, 2).Draw(t, "early")))
				got := p.finished(now)
				plain.settle(now)
				var done []*activity
				in = slices.DeleteFunc(in, func(a *activity) bool {
					if twins[a].left < 1e-9 {
						done = append(done, a)
						return true
					}
					return false
				})
				plain.remove(now, func(a *plainActivity) bool { return a.left < 1e-9 })
				if !slices.Equal(got, done) {
					t.Fatalf("%d are done, want %d in their order", len(got), len(done))
				}
			}
		}
	})
}
