package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/chance"
)

func TestRoomsAgainstAList(t *testing.T) {
	for seed := range chance.Seeds(t, 1, 100) {
		checkRooms(t, rand.New(rand.NewPCG(seed, 0)))
	}
}

func checkRooms(t *testing.T, r *rand.Rand) {
	t.Helper()
	for _, devices := range []int{1, 2, 3, 4, 5, 8, 33} {
		rs := newRooms(devices)
		list := slices.Repeat([]int64{-1}, devices)
		for range 500 {
			i := r.IntN(devices)
			list[i] = r.Int64N(20) - 1
			rs.set(i, list[i])
			if rs.of(i) != list[i] || rs.largest() != slices.Max(list) {
				t.Fatalf("%v: device %d has %d, and the largest is %d", list, i, rs.of(i), rs.largest())
			}
			from, atLeast := r.IntN(devices+1), r.Int64N(20)
			want := slices.IndexFunc(list[from:], func(room int64) bool { return room >= atLeast })
			got, ok := rs.next(from, atLeast)
			if ok != (want >= 0) || ok && got != from+want {
				t.Fatalf("%v: the first from %d with %d is %d (%v), want %d", list, from, atLeast, got, ok, from+want)
			}
		}
	}
}
