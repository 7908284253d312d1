package results

import (
	"math"
	"slices"
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

// A foreign store may have any time.
func TestNoUtilizationWindows(t *testing.T) {
	segments := []Segment{{Series: SeriesGPU, FirstS: 0, LastS: 1, Value: known(1.0)}}
	for _, end := range []float64{0, 1e12, 1e300} {
		if got := UtilizationWindows(segments, SeriesGPU, end, min(end, 1)); len(got) > 0 {
			t.Errorf("%d windows of %g s", len(got), end)
		}
	}
}

// The series of kernel residency has the fractions of time that KernelUtilizationMean has.
func TestResidentSegments(t *testing.T) {
	devices := []Device{{Index: 0}, {Index: 1}}
	r := residenceOf([]Kernel{
		{Device: 1, StartS: 6, EndS: 12, BusyS: 6}, {Device: 1, StartS: 2, EndS: 4, BusyS: 2}, {Device: 1, StartS: 3, EndS: 5, BusyS: 2},
	})
	got := r.Segments(devices, 10)
	for _, s := range got {
		if s.Series != SeriesResident {
			t.Errorf("segment of %s", s.Series)
		}
	}
	type step struct{ from, to, value float64 }
	for device, want := range map[int][]step{0: {{0, 10, 0}}, 1: {{0, 2, 0}, {2, 4, 1}, {4, 5, 1}, {5, 6, 0}, {6, 10, 1}}} {
		var steps []step
		for _, s := range Steps(got, device, SeriesResident, 10) {
			steps = append(steps, step{s.FromS, s.ToS, *s.Value})
		}
		if !slices.Equal(steps, want) {
			t.Errorf("device %d: %v, want %v", device, steps, want)
		}
	}
	if levels := UtilizationWindows(got, SeriesResident, 10, 5); !slices.Equal(levels, []float64{0.3, 0.4}) {
		t.Errorf("windows of 5 s: %v", levels)
	}
	if got := (Residence{}).Segments(devices, 10); got != nil {
		t.Errorf("a run without kernels has %v", got)
	}
	if got := residenceOf([]Kernel{{EndS: 4, BusyS: 1}}).Segments(devices, 10); got != nil {
		t.Errorf("an aggregate that does not say when it was busy gives %v", got)
	}
}

func residenceOf(kernels []Kernel) (r Residence) {
	for _, k := range kernels {
		r.Add(k)
	}
	return r
}
