package display

import (
	"fmt"
	"io"
	"time"

	"github.com/caserun/caserun/results/report"
)

// Workloads shows on a terminal how far a test of a scheduler is. Elsewhere it says what was done, if that took long.
type Workloads struct {
	w           io.Writer
	line        Line
	what        string
	done, all   int
	since, last time.Time
}

// NewWorkloads shows tests on w.
func NewWorkloads(w io.Writer) *Workloads { return &Workloads{w: w, line: NewLine(w)} }

// Begin begins so many workloads.
func (d *Workloads) Begin(what string, workloads int) {
	d.what, d.done, d.all, d.since, d.last = what, 0, workloads, time.Now(), time.Now()
}

// Next begins a workload.
func (d *Workloads) Next() {
	d.done++
	if !d.line.Animated || time.Since(d.last) <= 200*time.Millisecond {
		return
	}
	d.last = time.Now()
	how := fmt.Sprintf("%d of %d workloads", d.done, d.all)
	if d.done > d.all {
		how = "it failed; looking for a smaller workload on which it fails"
	}
	d.line.Show(d.what + ": " + how)
}

// End ends the workloads.
func (d *Workloads) End() {
	d.line.Clear()
	if took := time.Since(d.since); !d.line.Animated && took > time.Second {
		Say(d.w)("%s: %d workloads in %s", d.what, d.done, report.Human(took.Seconds(), report.Seconds))
	}
}
