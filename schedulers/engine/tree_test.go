package engine

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

// The tree holds what a sorted list holds, and finds what a walk over the list finds.
func TestTreeAgainstAList(t *testing.T) {
	byBytes := func(a, b *waiting) int {
		return cmp.Or(-cmp.Compare(a.task.Bytes, b.task.Bytes), cmp.Compare(a.arrival, b.arrival))
	}
	for seed := range chance.Seeds(t, 50, 5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		tr := tree{compare: byBytes}
		var list []*waiting
		values := map[*waiting]int64{}
		for arrival := range uint64(400) {
			switch n := r.IntN(10); {
			case n < 5 || len(list) == 0:
				w := &waiting{arrival: arrival}
				w.task.Bytes = r.Int64N(30)
				values[w] = r.Int64N(100)
				tr.insert(w, &w.inQueue, values[w])
				at, _ := slices.BinarySearchFunc(list, w, byBytes)
				list = slices.Insert(list, at, w)
			case n < 8:
				i := r.IntN(len(list))
				tr.remove(list[i])
				list = slices.Delete(list, i, i+1)
			default:
				w := list[r.IntN(len(list))]
				values[w] = r.Int64N(100)
				tr.set(w, values[w])
			}
			if got := slices.Collect(tr.all()); !slices.Equal(got, list) || tr.len != len(list) {
				t.Fatalf("seed %d: the tree has %d of %d tasks, or in another order", seed, len(got), len(list))
			}
			least := int64(math.MaxInt64)
			for _, w := range list {
				least = min(least, values[w])
			}
			if tr.least() != least {
				t.Fatalf("seed %d: least value %d, want %d", seed, tr.least(), least)
			}
			limit, after := r.Int64N(100), (*waiting)(nil)
			if r.IntN(3) > 0 { // a task that the tree may not have
				after = &waiting{arrival: r.Uint64N(400)}
				after.task.Bytes = r.Int64N(30)
			}
			var want *waiting
			for _, w := range list {
				if values[w] <= limit && (after == nil || byBytes(w, after) > 0) {
					want = w
					break
				}
			}
			if got := tr.first(limit, after); got != want {
				t.Fatalf("seed %d: the first of at most %d behind %+v is %+v, want %+v", seed, limit, after, got, want)
			}
		}
	}
}

// The tree stays shallow when tasks come in order.
func TestTreeIsBalanced(t *testing.T) {
	const n = 1 << 14
	tr := tree{compare: func(a, b *waiting) int { return cmp.Compare(a.arrival, b.arrival) }}
	for i := range uint64(n) {
		w := &waiting{arrival: i + 1}
		tr.insert(w, &w.inQueue, 0)
	}
	var depth func(*node) int
	depth = func(n *node) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	if d := depth(tr.root); d > 4*14 {
		t.Errorf("%d tasks are %d deep", n, d)
	}
}
