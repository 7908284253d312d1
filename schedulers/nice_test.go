package schedulers

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

func TestNiceShares(t *testing.T) {
	for _, c := range []struct {
		name         string
		cores        float64
		wanted, want []float64
	}{
		{"enough for all", 4, []float64{2, 2}, []float64{1, 1}},
		{"one level", 4, []float64{16}, []float64{0.25}},
		{"by weight", 1, []float64{1, 1}, []float64{1024. / 1844, 820. / 1844}},
		{"nobody at the first", 1, []float64{0, 1, 1}, []float64{0, 820. / 1475, 655. / 1475}},
		{"the first has all that it wants", 4, []float64{0: 2, 10: 8}, []float64{0: 1, 10: 0.25}},
		{"an unknown number of cores", math.Inf(1), []float64{100, 100}, []float64{1, 1}},
	} {
		got := make([]float64, len(c.wanted))
		NiceShares(c.cores, c.wanted, got)
		for level := range got {
			if c.wanted[level] > 0 && math.Abs(got[level]-c.want[level]) > 1e-12 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// All cores are used, or all have what they want. Who does not have it has as much by weight as any other, and
// nobody has more by weight.
func TestNiceSharesAreFair(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		cores := rapid.Float64Range(0.5, 64).Draw(t, "cores")
		wanted := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.3, 1, 5, 40}), 1, NiceLevels).Draw(t, "wanted")
		rates := make([]float64, len(wanted))
		NiceShares(cores, wanted, rates)
		all, used, least := 0.0, 0.0, math.Inf(1)
		for level, rate := range rates {
			if wanted[level] == 0 {
				continue
			}
			all += wanted[level]
			used += wanted[level] * rate
			if rate < 1 {
				least = min(least, rate/niceWeights[level])
			}
		}
		if math.Abs(used-min(cores, all)) > 1e-9 {
			t.Fatalf("%v cores are used of %v, and %v are wanted: %v", used, cores, all, rates)
		}
		for level, rate := range rates {
			short := wanted[level] > 0 && rate < 1
			if short && rate/niceWeights[level] > least+1e-9 || rate > 1 {
				t.Fatalf("level %d goes at %v: %v", level, rate, rates)
			}
			if wanted[level] > 0 && rate == 1 && 1/niceWeights[level] > least+1e-9 {
				t.Fatalf("level %d has more than its share: %v", level, rates)
			}
		}
	})
}

func TestNiceByLength(t *testing.T) {
	known := func(s time.Duration) *Prediction { return &Prediction{Before: s * time.Second} }
	for _, c := range []struct {
		expected []*Prediction
		want     []int
	}{
		{nil, []int{}},
		{[]*Prediction{nil, nil}, []int{10, 10}},
		{[]*Prediction{known(9), nil, known(1)}, []int{10, 10, 1}},
		{[]*Prediction{known(3), known(1), known(2)}, []int{13, 1, 7}},
	} {
		if got := NiceByLength(c.expected, UntilRequest); !slices.Equal(got, c.want) {
			t.Errorf("levels %v, want %v", got, c.want)
		}
	}
	many := make([]*Prediction, 500)
	for i := range many {
		many[i] = known(time.Duration(i))
	}
	got := NiceByLength(many, UntilRequest)
	if !slices.IsSorted(got) || got[0] != 1 || got[499] != NiceLevels-1 {
		t.Errorf("500 jobs have levels from %d to %d, want 1 to %d", got[0], got[499], NiceLevels-1)
	}
}
