package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// work is an activity that a test puts into a pool.
type work struct {
	at, demand, solo float64 // seconds, of the capacity, seconds
	killed           float64 // when it is taken out, 0: never
	want             float64 // when it is done
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

func TestProcessorSharing(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity float64
		works    []work
	}{
		{"alone", 1, []work{{0, 0.5, 2, 0, 2}}},
		{"alone with all of it", 1, []work{{3, 1, 2, 0, 5}}},
		{"demands that fit do not slow each other", 1, []work{{0, 0.5, 2, 0, 2}, {0, 0.5, 3, 0, 3}}},
		{"two that want all of it take turns", 1, []work{{0, 1, 2, 0, 4}, {0, 1, 2, 0, 4}}},
		{"the longer one speeds up", 1, []work{{0, 1, 1, 0, 2}, {0, 1, 3, 0, 4}}},
		{"a late one slows the first", 1, []work{{0, 1, 4, 0, 5}, {2, 1, 1, 0, 4}}},
		{"all slow by the same factor", 1, []work{{0, 1, 4, 0, 4.25}, {0, 0.25, 1, 0, 1.25}}},
		{"three on two cores", 2, []work{{0, 1, 2, 0, 3}, {0, 1, 2, 0, 3}, {0, 1, 2, 0, 3}}},
		{"three in turn on two cores", 2, []work{{0, 1, 1, 0, 1.5}, {0, 1, 2, 0, 2.5}, {0, 1, 2, 0, 2.5}}},
		{"one that is taken out gives its share back", 1, []work{{0, 1, 9, 2, 0}, {0, 1, 2, 0, 3}}},
		{"the pool idles in between", 1, []work{{0, 1, 1, 0, 1}, {10, 1, 1, 0, 11}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &Executor{}
			p := &pool{capacity: c.capacity}
			got := make([]time.Duration, len(c.works))
			for i, w := range c.works {
				x.at(seconds(w.at), func() {
					a := x.share(p, w.demand, w.solo, func() { got[i] = x.now })
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
			if len(p.cohorts) != 0 || p.load != (load{}) {
				t.Errorf("%d cohorts are left, and the load %+v", len(p.cohorts), p.load)
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

// plainPool is the pool without cohorts: it walks all members each time.
type plainPool struct {
	capacity float64
	members  []*plainActivity
	settled  time.Duration
}

type plainActivity struct{ demand, left float64 }

func (p *plainPool) demand() (sum float64) {
	for _, a := range p.members {
		sum += a.demand
	}
	return sum
}

func (p *plainPool) rate() float64 {
	if sum := p.demand(); sum > p.capacity {
		return p.capacity / sum
	}
	return 1
}

func (p *plainPool) settle(now time.Duration) {
	done := (now - p.settled).Seconds() * p.rate()
	for _, a := range p.members {
		a.left -= done
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
	least := math.Inf(1)
	for _, a := range p.members {
		least = min(least, a.left)
	}
	return p.settled + time.Duration(math.Ceil(max(least, 0)/p.rate()*1e9)), true
}

// A pool does what the plain one does, to the last bit.
func TestPoolIsThePlainOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.SampledFrom([]float64{1, 4, 16}).Draw(t, "capacity")
		demands := rapid.SampledFrom([][]float64{{1}, {0.3, 0.1, 0.7}, {1, 0.4, 2}}).Draw(t, "demands")
		p, plain := &pool{capacity: capacity}, &plainPool{capacity: capacity}
		twins := map[*activity]*plainActivity{}
		var in []*activity // by arrival
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1: // several at once, some of them equal
				for range rapid.IntRange(1, 5).Draw(t, "many") {
					a := &activity{demand: rapid.SampledFrom(demands).Draw(t, "demand"),
						solo: rapid.SampledFrom([]float64{0.1, 0.1 + 0.2, 0.3, 1e-9, 7, 1.0 / 3}).Draw(t, "solo")}
					twins[a] = &plainActivity{a.demand, a.solo}
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
			if p.demand() != plain.demand() || p.rate() != plain.rate() {
				t.Fatalf("demand %v at rate %v, want %v at %v", p.demand(), p.rate(), plain.demand(), plain.rate())
			}
		}
	})
}
