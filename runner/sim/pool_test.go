package sim

import (
	"slices"
	"testing"
	"time"
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
			if len(p.members) != 0 {
				t.Errorf("%d activities are left", len(p.members))
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
