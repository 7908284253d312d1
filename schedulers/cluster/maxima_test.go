package cluster

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

// The index finds what a search of all keys finds.
func TestMaxima(t *testing.T) {
	chance.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(rt, "nodes")
		m, keys := newMaxima(n), slices.Repeat([]float64{lowest}, n)
		for range 2 * n {
			i := rapid.IntRange(0, n-1).Draw(rt, "node")
			keys[i] = float64(rapid.IntRange(-3, 3).Draw(rt, "key"))
			m.set(i, keys[i])
		}
		if first, want := m.first(), slices.Index(keys, slices.Max(keys)); first != want || m.largest() != keys[want] {
			rt.Errorf("%v: first is %d with %v, want %d", keys, first, m.largest(), want)
		}
		from, bound := rapid.IntRange(0, n+12).Draw(rt, "from"), float64(rapid.IntRange(-4, 3).Draw(rt, "bound"))
		want := -1
		for i := n - 1; i >= from; i-- {
			if keys[i] > bound {
				want = i
			}
		}
		if next := m.next(from, bound); next != want {
			rt.Errorf("%v: next from %d above %v is %d, want %d", keys, from, bound, next, want)
		}
	})
}
