package results

import (
	"slices"
	"testing"
)

func TestThrottling(t *testing.T) {
	for _, c := range []struct {
		start, end *string
		want       []string
	}{
		{nil, nil, nil},
		{known("none"), known("gpu-idle"), nil},
		{known("gpu-idle+applications-clocks"), known("sync-boost+display-clocks"), nil},
		{known("sw-power-cap"), known("gpu-idle+sw-power-cap+hw-thermal"), []string{"sw-power-cap", "hw-thermal"}},
		{known(""), known("bit-12"), []string{"bit-12"}},
	} {
		if got := (Device{ThrottleStart: c.start, ThrottleEnd: c.end}).Throttling(); !slices.Equal(got, c.want) {
			t.Errorf("%v and %v: %q, want %q", c.start, c.end, got, c.want)
		}
	}
}
