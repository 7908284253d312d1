package results

import (
	"math"
	"testing"
)

func TestUtilizationWindows(t *testing.T) {
	segments := []Segment{
		{Device: 0, Series: SeriesGPU, FirstS: -0.5, LastS: 0.9, Value: known(1.0)},
		{Device: 0, Series: SeriesGPU, FirstS: 1.5, LastS: 3, Value: known(0.0)}, // what came before holds until 1.5 s
		{Device: 1, Series: SeriesGPU, FirstS: 0, LastS: 2, Value: known(0.5)},
		{Device: 0, Series: SeriesMemory, FirstS: 0, LastS: 3, Value: known(9.0)},
	}
	segments = append(segments, Segment{Device: 2, Series: SeriesGPU, FirstS: 0, LastS: 3}) // not measured
	got := UtilizationWindows(segments, SeriesGPU, 2.5, 1)
	want := []float64{(1 + 0.5) / 2, (0.5 + 0.5) / 2, math.NaN()} // device 1 is unknown after 2 s
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 || math.IsNaN(got[i]) != math.IsNaN(want[i]) {
			t.Errorf("window %d: %v, want %v", i, got[i], want[i])
		}
	}
}
