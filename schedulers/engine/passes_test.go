package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

// The counts are those that a step for each waiting task gives, and tasks age at the grant that
// makes their count reach the limit.
func TestPassesAgainstSteps(t *testing.T) {
	const limit = 5
	for seed := range chance.Seeds(t, 100, 10_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var p passes
		var list []*waiting // by arrival
		passed := map[*waiting]int{}
		kept := 0 // tasks when places were last given anew
		stalls := seed%2 == 1
		for arrival := range uint64(500) {
			switch n := r.IntN(10); {
			case n < 4 || len(list) == 0:
				w := &waiting{arrival: arrival}
				places, room := len(p.places), cap(p.places)
				if p.enter(w); len(p.places) <= places || cap(p.places) != room {
					kept = len(list)
				}
				list = append(list, w)
			case n < 5 && stalls:
				w := list[r.IntN(len(list))]
				p.stall(w, !w.stalled)
			default:
				i := r.IntN(len(list))
				w, granted := list[i], n < 9
				p.leave(w, granted)
				list = slices.Delete(list, i, i+1)
				if !granted {
					continue
				}
				var want []*waiting
				for _, other := range list[:i] {
					if !other.stalled {
						if passed[other]++; passed[other] == limit {
							want = append(want, other)
						}
					}
				}
				got := p.age(limit)
				for _, w := range got {
					w.aged = true
				}
				slices.SortFunc(got, func(a, b *waiting) int { return int(a.arrival) - int(b.arrival) })
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: %d tasks age, want %d", seed, len(got), len(want))
				}
			}
			for _, w := range list {
				if p.of(w) != passed[w] {
					t.Fatalf("seed %d: task %d was passed %d times, want %d", seed, w.arrival, p.of(w), passed[w])
				}
			}
		}
		if len(p.places) > max(64, 4*kept) {
			t.Errorf("seed %d: %d places for the %d tasks that were there when places were given anew", seed, len(p.places), kept)
		}
	}
}
