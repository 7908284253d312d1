package results

import (
	"testing"
	"time"
)

func TestDated(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if got := Dated(&at, "nightly-2026-11-21"); got != &at {
		t.Errorf("a run with a time of day is of %v", got)
	}
	for tag, want := range map[string]string{
		"nightly-2026-11-21": "2026-11-21", "2026-11-21T0200": "2026-11-21", "x2026-11-21.b": "2026-11-21",
		"": "", "v1.4": "", "nightly-11-21": "", "nightly-2026-13-01": "", "12026-11-21": "", "2026-11-211": "",
	} {
		got := ""
		if day := Dated(nil, tag); day != nil {
			got = day.Format(time.DateOnly)
		}
		if got != want {
			t.Errorf("tag %q is of %q, want %q", tag, got, want)
		}
	}
}
