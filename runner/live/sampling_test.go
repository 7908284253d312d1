package live

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/results"
)

// Only calls that failed are errors: not samples that came too late or were lost.
func TestSamplerFigures(t *testing.T) {
	st := nvml.Stats{Ticks: 900, Missed: 3, LostSegments: 2, LostSamples: 70, Devices: []nvml.DeviceStats{
		{}, {Failures: 4, FirstError: errors.New("the first")}, {Failures: 1, FirstError: errors.New("another")},
	}}
	got := figures(st)
	if *got.Samples != 900 || *got.MissedDeadlines != 3 || *got.Errors != 5 || got.FirstError == nil || *got.FirstError != "the first" {
		t.Errorf("%d samples, %d missed, %d errors, the first %v; want 900, 3, 5 and the second device's",
			*got.Samples, *got.MissedDeadlines, *got.Errors, got.FirstError)
	}
	if got := figures(nvml.Stats{}); got.Errors == nil || *got.Errors != 0 || got.FirstError != nil {
		t.Errorf("without errors: %+v, want 0 of them", got)
	}
	var none node
	if got, err := none.unsample(); err != nil || got != (results.Sampler{}) {
		t.Errorf("what never began was sampled: %+v, %v", got, err)
	}
}

func TestDoubtsAboutSamples(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name  string
		stats nvml.Stats
		want  []string
	}{
		{"never began", nvml.Stats{}, nil},
		{"as it should be", nvml.Stats{Elapsed: 100 * s, CPU: 5 * s, Missed: 3}, nil},
		{"lost", nvml.Stats{Elapsed: 100 * s, LostSegments: 2, LostSamples: 70}, []string{"70 samples, in 2 segments"}},
		{"dear", nvml.Stats{Elapsed: 100 * s, CPU: 20 * s}, []string{"took 20 % of a core"}},
		{"short", nvml.Stats{Elapsed: s, CPU: s / 2}, nil},
		{"both", nvml.Stats{Elapsed: 4 * s, CPU: 2 * s, LostSegments: 1, LostSamples: 1}, []string{"1 samples", "50 % of a core"}},
	} {
		got := doubts(tt.stats)
		if !slices.EqualFunc(got, tt.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
