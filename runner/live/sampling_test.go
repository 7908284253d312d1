package live

import (
	"errors"
	"strings"
	"testing"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/results"
)

// Calls that failed and samples that were lost are told apart.
func TestSamplerFigures(t *testing.T) {
	st := nvml.Stats{Ticks: 900, Missed: 3, LostSegments: 2, LostSamples: 70, Devices: []nvml.DeviceStats{
		{}, {Failures: 4, FirstError: errors.New("the first")}, {Failures: 1, FirstError: errors.New("another")},
	}}
	got := figures(st)
	if *got.Samples != 900 || *got.MissedDeadlines != 3 || *got.Errors != 5 || got.FirstError == nil || *got.FirstError != "the first" {
		t.Errorf("%d samples, %d missed, %d errors, the first %v; want 900, 3, 5 and the second device's",
			*got.Samples, *got.MissedDeadlines, *got.Errors, got.FirstError)
	}
	e := lost(st)
	if e == nil || e.Kind != results.EventSampler || !strings.Contains(e.Detail, "70 samples, in 2 segments") {
		t.Errorf("the event of lost samples is %+v", e)
	}
	st.LostSegments, st.LostSamples = 0, 0
	if e := lost(st); e != nil {
		t.Errorf("an event of samples that are not lost: %+v", e)
	}
	if got := figures(nvml.Stats{}); got.Errors == nil || *got.Errors != 0 || got.FirstError != nil {
		t.Errorf("without errors: %+v, want 0 of them", got)
	}
	var none Session
	if got, err := none.Unsample(); err != nil || got != (results.Sampler{}) {
		t.Errorf("what never began was sampled: %+v, %v", got, err)
	}
}
