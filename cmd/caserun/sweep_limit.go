package main

import (
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// timeLimit is how long a call of caserun sweep may take.
type timeLimit struct {
	began time.Time     // when the command did
	total time.Duration // 0: no limit
}

// left is what remains of the limit; negative where it has passed.
func (l timeLimit) left(now time.Time) time.Duration { return l.total - now.Sub(l.began) }

// fits reports whether a run that begins now would end within the limit.
func (l timeLimit) fits(now time.Time, run estimate) bool {
	return l.total == 0 || run.duration() <= l.left(now)
}

// limitError ends a sweep's call: the next run of the plan does not fit into the
// time limit. Later ones that would are not preferred, because the order of the
// plan is what makes it fair.
type limitError struct {
	next  results.Cell
	takes estimate
	left  time.Duration
	limit time.Duration
	first bool // no run was begun
}

func (e limitError) Error() string {
	human := func(d time.Duration) string { return report.Human(d.Seconds(), report.Seconds) }
	text := fmt.Sprintf("%s under %s would take about %s (estimate: %s), and %s of --time-limit %v is left",
		e.next.Mix, e.next.Scheduler, human(e.takes.duration()), e.takes.ground, human(max(e.left, 0)), e.limit)
	if e.first {
		text = "no run began, because " + text + "; give more time, or leave --time-limit out"
	}
	return text
}
