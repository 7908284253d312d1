package live

import "testing"

// A client of MPS is on every GPU for a moment, which says nothing of what it uses.
func TestOneLookShowsNoUse(t *testing.T) {
	u := &users{seen: map[[2]int]int{}}
	for _, c := range []struct {
		device, pid int
		want        bool
	}{{0, 7, false}, {1, 7, false}, {0, 8, false}, {0, 7, true}, {0, 7, false}, {0, 8, true}} {
		if got := u.uses(c.device, c.pid); got != c.want {
			t.Errorf("process %d on device %d: %v, want %v", c.pid, c.device, got, c.want)
		}
	}
}
