package nvml

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

func TestScheduleCountsEveryDeadlineOnce(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.IntRange(1, 1000).Draw(t, "period"))
		s := schedule{period: period, next: 0}
		var now, last, longest time.Duration
		for i := range rapid.IntRange(1, 50).Draw(t, "wakeups") {
			late := time.Duration(rapid.IntRange(0, 5000).Draw(t, "late"))
			now = s.next + late
			s.wake(now)
			if i > 0 {
				longest = max(longest, now-last)
			}
			last = now
			if s.next <= now || s.next > now+period {
				t.Fatalf("woke at %d, next deadline %d, want it within a period of %d", now, s.next, period)
			}
			if s.next%period != 0 {
				t.Fatalf("deadline %d is off the grid of %d", s.next, period)
			}
		}
		if due := int64(now/period) + 1; s.ticks+s.missed != due {
			t.Errorf("%d ticks + %d missed, want %d deadlines", s.ticks, s.missed, due)
		}
		if s.longest != longest {
			t.Errorf("longest gap %d, want %d", s.longest, longest)
		}
	})
}

func TestScheduleLateness(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		woke   time.Duration
		missed int64
		next   time.Duration
	}{
		{"on time", 5 * ms, 0, 6 * ms},
		{"late within the period", 5*ms + 999*time.Microsecond, 0, 6 * ms},
		{"one period late", 6 * ms, 1, 7 * ms},
		{"three and a half late", 8*ms + 500*time.Microsecond, 3, 9 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := schedule{period: ms, next: 5 * ms}
			s.wake(tt.woke)
			if s.missed != tt.missed || s.next != tt.next {
				t.Errorf("missed %d, next %v; want %d, %v", s.missed, s.next, tt.missed, tt.next)
			}
		})
	}
}

func TestRefreshIsTheMedianBetweenChanges(t *testing.T) {
	const ms = time.Millisecond
	s := newSeries(0, GPUUtilization, ms, 50*ms, time.Second)
	drop := func(Segment) {}
	value := 0.0
	// The first span, before the first change, is of unknown length and must
	// not count.
	for i, span := range []int{7, 200, 200, 400, 200, 199} {
		for range span {
			s.add(time.Duration(s.stats.Samples)*ms, value, drop)
		}
		value = float64(i + 1)
		if i == 1 {
			if got := s.summary().Refresh; got != nil {
				t.Errorf("refresh after one change is %v, want none", *got)
			}
		}
	}
	s.add(time.Duration(s.stats.Samples)*ms, value, drop)
	got := s.summary()
	if got.Refresh == nil || *got.Refresh != 200*ms {
		t.Errorf("refresh %v, want 200ms", got.Refresh)
	}
	if got.Changes != 6 {
		t.Errorf("%d changes, want 6", got.Changes)
	}
}

func TestRefreshOfSlowSourceIsBounded(t *testing.T) {
	s := newSeries(0, GPUUtilization, time.Millisecond, time.Second, time.Second)
	for i := range 5 {
		s.add(time.Duration(i)*time.Hour, float64(i), func(Segment) {})
	}
	want := (refreshBins - 1) * time.Millisecond
	if got := s.summary().Refresh; got == nil || *got != want {
		t.Errorf("refresh %v, want the last bin, %v", got, want)
	}
}
