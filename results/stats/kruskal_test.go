package stats

import (
	"math"
	"testing"
)

// The p values of the chi-squared distribution itself.
func TestKruskalWallis(t *testing.T) {
	for name, c := range map[string]struct {
		samples [][]float64
		want    float64
	}{
		"apart":   {[][]float64{{1, 2, 3, 4, 5, 6, 7}, {11, 12, 13, 14, 15, 16, 17}, {21, 22, 23, 24, 25, 26, 27}}, 0.0001351},
		"alike":   {[][]float64{{1, 4, 7}, {2, 5, 8}, {3, 6, 9}}, 0.670},
		"ties":    {[][]float64{{1, 1, 2, 2}, {2, 2, 3, 3}}, 0.0614},
		"equal":   {[][]float64{{1, 1}, {1, 1}}, 1},
		"alone":   {[][]float64{{1, 2}}, 1},
		"nothing": {nil, 1},
	} {
		if got := KruskalWallis(c.samples); math.Abs(got-c.want) > 0.005*c.want {
			t.Errorf("%s: %.5g, want %.5g", name, got, c.want)
		}
	}
}
