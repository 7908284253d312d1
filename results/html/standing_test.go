package html

import (
	"math"
	"testing"

	"github.com/caserun/caserun/results/regress"
)

// The arrow is the number's direction, the word says whether that is good.
func TestJudge(t *testing.T) {
	unbounded := [2]float64{math.Inf(-1), math.Inf(1)}
	for _, c := range []struct {
		ratio  float64
		bounds [2]float64
		higher bool
		want   string
	}{
		{2, [2]float64{1.9, 2.1}, true, "▲ better"}, {2, [2]float64{1.9, 2.1}, false, "▲ worse"},
		{0.5, [2]float64{0.4, 0.6}, false, "▼ better"}, {0.5, [2]float64{0.4, 0.6}, true, "▼ worse"},
		{1.2, [2]float64{0.9, 1.4}, true, "▲ inconclusive"}, {2, unbounded, true, "▲ inconclusive"},
		{1.01, [2]float64{1.005, 1.015}, true, "▲ same"}, {1.001, [2]float64{0.99, 1.01}, true, "= same"},
	} {
		arrow, word := judge(regress.Ratio{Value: c.ratio, Low: c.bounds[0], High: c.bounds[1]}, c.higher)
		if got := arrow + " " + word; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
