//go:build full

package pages

import "testing"

// All loads, as docs/reference/statistics.md shows them.
func TestQueue(t *testing.T) {
	checkQueue(t, queueFull)
	shows(t, queuePage)
}

func TestFour(t *testing.T) { shows(t, fourPage) }

// What plan.md shows takes some 40 s of processor time, so the gate has one node, without noise.
func TestPlan(t *testing.T) {
	shows(t, planPage)
	planKeeps(t, "4xV100", 1.12, 1)
	planKeeps(t, "4xH200 of 16 GiB", 1.12, 1)
	planKeeps(t, "4xH100 of 16 GiB", 1.12, 1)
}
