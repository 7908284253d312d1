package html

import (
	"math"
	"strings"
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

// Verdicts over mixes and those of a mix are made in two ways, which can differ near 5 %.
func TestCaptionsSayHowVerdictsAreMade(t *testing.T) {
	m := memory{}
	for i := 1; i <= 7; i++ {
		m.add(simulatedRun("case-alg3", i, 10+float64(i)/10))
		m.add(simulatedRun("sa", i, 12+float64(i)/10))
	}
	v, err := build(t.Context(), m, m.runs(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ caption, want string }{
		{v.Places[0].Over.Page.Caption, "Each verdict, here and above, is that of its interval alone."},
		{v.Groups[0].Arms.Page.Caption, "The verdicts of the mix hold together at 5 %."},
	} {
		if !strings.Contains(c.caption, c.want) {
			t.Errorf("%q lacks %q", c.caption, c.want)
		}
	}
}
