package live

import (
	"maps"
	"testing"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/results"
)

func TestParseSlow(t *testing.T) {
	for text, want := range map[string]map[int]float64{"": {}, "1=0.25": {1: 0.25}, "0=0.5, 1=0.1": {0: 0.5, 1: 0.1}} {
		if got, err := parseSlow(text, 2); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v (%v)", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"1":           `"1": want DEVICE=SHARE with a share above 0 and below 1, such as 1=0.25`,
		"one=0.5":     `"one=0.5": want DEVICE=SHARE with a share above 0 and below 1, such as 1=0.25`,
		"1=1":         `"1=1": want DEVICE=SHARE with a share above 0 and below 1, such as 1=0.25`,
		"0=0.5,1=NaN": `"1=NaN": want DEVICE=SHARE with a share above 0 and below 1, such as 1=0.25`,
		"2=0.5":       "device 2: the run has devices 0 to 1",
		"-1=0.5":      "device -1: the run has devices 0 to 1",
		"1=0.5,1=0.5": "device 1 has two shares: give it one",
		"1=0.5,":      "an item is empty: write a comma only between two items",
	} {
		if _, err := parseSlow(text, 2); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Devices have speeds, if the clocks of all are known.
func TestSpeeds(t *testing.T) {
	clock := uint64(2e9)
	n := node{found: []nvml.Device{{MaxSMClockHz: &clock}, {MaxSMClockHz: &clock}}, devices: []results.Device{{SMs: 132}, {SMs: 33}}}
	if d := n.schedulable(); d[0].Speed != 264e9 || d[1].Speed != 66e9 {
		t.Errorf("speeds %g and %g", d[0].Speed, d[1].Speed)
	}
	n.found[1].MaxSMClockHz = nil
	if d := n.schedulable(); d[0].Speed != 0 || d[1].Speed != 0 {
		t.Errorf("speeds %g and %g, and a clock is unknown", d[0].Speed, d[1].Speed)
	}
}
