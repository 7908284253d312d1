package input

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// MomentForms says how a moment is written.
const MomentForms = "a day such as 2026-11-21, a time such as 2026-11-21T02:00, or how long ago, such as 36h, 14d or 8w"

var (
	momentLayouts = []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateTime, time.RFC3339}
	agoForm       = regexp.MustCompile(`^([1-9][0-9]{0,4})([dw])$`)
	errMoment     = errors.New("want " + MomentForms)
)

// Moment reads a time: a day or a time of day, where now is if it names no zone, or how long it is before now.
func Moment(text string, now time.Time) (time.Time, error) {
	for _, layout := range momentLayouts {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if ago := agoForm.FindStringSubmatch(text); ago != nil {
		n, _ := strconv.Atoi(ago[1]) // it has five digits at most
		if ago[2] == "w" {
			n *= 7
		}
		return now.AddDate(0, 0, -n), nil
	}
	if d, err := Duration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, errMoment
}
