package live

import (
	"testing"
	"time"
)

// A client of MPS is on every GPU for a moment, which says nothing of what it uses.
func TestAShortSightShowsNoUse(t *testing.T) {
	u := &users{seen: map[[2]int]*sight{}}
	for _, c := range []struct {
		device, pid int
		at          time.Duration
		want        bool
	}{{0, 7, 0, false}, {1, 7, 0, false}, {0, 7, usersPeriod / 2, false}, {0, 8, usersPeriod / 2, false}, {0, 7, usersPeriod, true},
		{0, 7, 2 * usersPeriod, false}, {0, 8, usersPeriod, false}, {0, 8, 2 * usersPeriod, true}} {
		if got := u.uses(c.device, c.pid, c.at); got != c.want {
			t.Errorf("process %d on device %d at %v: %v, want %v", c.pid, c.device, c.at, got, c.want)
		}
	}
}
