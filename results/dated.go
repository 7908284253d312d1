package results

import (
	"regexp"
	"time"
)

var date = regexp.MustCompile(`(?:^|\D)(\d{4}-\d{2}-\d{2})(?:\D|$)`)

// Dated is when something began: its time, or the day that its tag names, as nightly-2026-11-21 does. A simulated run has
// no time of day. nil: neither is known.
func Dated(at *time.Time, tag string) *time.Time {
	if at != nil {
		return at
	}
	found := date.FindStringSubmatch(tag)
	if found == nil {
		return nil
	}
	day, err := time.Parse(time.DateOnly, found[1])
	if err != nil {
		return nil
	}
	return &day
}
