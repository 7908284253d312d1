package runner

import (
	"slices"
	"testing"
	"time"
)

func TestDeadlinesPassInOrder(t *testing.T) {
	var d deadlines
	for job, at := range map[int]int{0: 5, 1: 3, 2: 9, 3: 3, 4: 5} {
		d.add(time.Duration(at), job)
	}
	for _, c := range []struct {
		now  int
		want []int
	}{{2, nil}, {3, []int{1, 3}}, {3, nil}, {8, []int{0, 4}}, {9, []int{2}}, {100, nil}} {
		if got := d.due(time.Duration(c.now)); !slices.Equal(got, c.want) {
			t.Errorf("at %d jobs %v are due, want %v", c.now, got, c.want)
		}
	}
}
