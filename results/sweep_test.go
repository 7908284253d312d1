package results

import "testing"

func TestRepeats(t *testing.T) {
	for want, c := range map[string]struct {
		repetitions int
		noise       *float64
	}{
		"7 repetitions, noise 1 %":      {7, new(0.01)},
		"3 repetitions, noise 1.3 %":    {3, new(0.013)},
		"1 repetition, noise 100 %":     {1, new(1.0)},
		"2 repetitions, noise 7 %":      {2, new(0.07)},
		"2 repetitions, noise 1.2345 %": {2, new(0.012345)},
		"2 repetitions, noise 0.05 %":   {2, new(0.0005)},
		"1 repetition, no noise":        {1, new(0.0)},
		"5 repetitions":                 {5, nil},
	} {
		if got := Repeats(c.repetitions, c.noise); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The noise of a sweep is in what it was planned from. Live sweeps have none.
func TestNoiseOfASweep(t *testing.T) {
	const spec = `{"mixes":[],"reps":7,"settings":{"node":"sim:4xV100","sim-noise":0.013}}`
	if got := (Sweep{Mode: Simulated, Spec: spec}).Noise(); got == nil || *got != 0.013 {
		t.Errorf("noise %v, want 0.013", got)
	}
	for name, w := range map[string]Sweep{"live": {Mode: Live, Spec: spec}, "unreadable": {Mode: Simulated, Spec: "{"}, "not recorded": {Mode: Simulated, Spec: `{"settings":{}}`}} {
		if got := w.Noise(); got != nil {
			t.Errorf("%s: noise %v, want unknown", name, *got)
		}
	}
}
