package policies

import (
	"fmt"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/schedulers"
)

// A linger is how long a task whose burst has ended keeps its memory from the bursts of other processes, because its next burst
// may come soon. Otherwise both would move their memory in each short gap. It is anticipatory scheduling (Iyer and Druschel,
// SOSP 2001). Negative: as long as it would take to move what is at stake out and in again, so that a wait that was for nothing
// costs no more than the move that it could have saved, as in ski rental.
type linger time.Duration

const (
	lingerAuto = "auto"
	// moveRate is how fast memory moves each way, in bytes per second: 8 GiB leave an H200 in 0.16 s, and come back in as much
	// (docs/results/moving-memory.md).
	moveRate = 50 << 30
)

var paramLinger = Param{Name: "linger", Default: lingerAuto,
	Help: "how long a process that has just ended a burst keeps its memory from others, unless they have waited too long; auto: as long as that memory would take to go to the host and come back; 0s: not at all"}

func (s settings) linger() (linger, error) {
	text := s[paramLinger.Name]
	if text == lingerAuto {
		return -1, nil
	}
	d, err := input.Duration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s=%s: want %s, or a duration such as 100ms; 0s: a process keeps nothing", paramLinger.Name, text, lingerAuto)
	}
	return linger(d), nil
}

// until is when t, which does not run, gives memory for r, which lacks so many bytes. What did not end by itself keeps nothing, and
// growth does not wait: its burst goes on.
func (l linger) until(t schedulers.TaskView, r schedulers.Request, lacks int64) time.Duration {
	switch {
	case r.Grows || t.Stopped || t.Task.Process() == r.Task.Process():
		return 0
	case l == 0:
		return 0
	case l < 0:
		return t.Last + time.Duration(2*float64(min(t.Movable, lacks))/moveRate*float64(time.Second))
	}
	return later(t.Last, time.Duration(l))
}

// keeps says which tasks on d that do not run keep their memory from r.
func (l linger) keeps(r schedulers.Request, d schedulers.DeviceView, now time.Duration) func(schedulers.TaskView) bool {
	lacks := missing(r, d)
	return func(t schedulers.TaskView) bool { return now < l.until(t, r, lacks) }
}

// keepsUntil is when a task next keeps its memory no longer from a request that waits.
func (l linger) keepsUntil(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := schedulers.Never
	if l == 0 {
		return next
	}
	for i := range v.Len() {
		d := v.Device(i)
		for _, r := range waiting {
			lacks := missing(r, d)
			if lacks <= 0 || !d.Open(r.Task) {
				continue
			}
			for t := range d.TaskViews() {
				if at := l.until(t, r, lacks); at > now && t.Movable > 0 && !runs(t) {
					next = min(next, at)
				}
			}
		}
	}
	return next
}
