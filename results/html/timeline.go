package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers"
)

// Classes of bars. style.css gives each a pattern besides its colour.
const (
	classWait = "wait" // the job has arrived and waits for a device
	classHost = "host" // the process runs and holds no device
	classOK   = "ok"
	classBad  = "bad"
	classOpen = "open" // no outcome yet, cancelled or not started
	classOut  = "out"  // memory moves to the host
	classIn   = "in"   // memory comes back
)

// bar is an interval in a row of a timeline.
type bar struct {
	Class string
	X     string
	Width string
	Job   int
	Text  string // the bar in words
	Label string // drawn on the bar; empty if it would not fit
}

// timeline shows every job in a row of its own.
type timeline struct {
	End   float64 // of the axis, in seconds
	Ticks []tick
	Jobs  []jobRow
	Swaps bool // rows of jobs have bars of swaps
}

type jobRow struct {
	Index   int
	Name    string
	Outcome string // empty if ok
	Text    string
	Bars    []bar
}

// hold is an interval in which a job held a device.
type hold struct {
	job      int
	device   int
	from, to float64
}

// resolution is the share of the timeline below which gaps inside a job are not shown.
const resolution = 1.0 / 2000

func newTimeline(r records, end float64) timeline {
	t := timeline{End: end, Ticks: ticks(end, report.Seconds)}
	if end <= 0 {
		return t
	}
	tasks := tasksOf(r)
	swaps := map[int][]results.Swap{}
	for _, s := range r.swaps {
		swaps[s.Job] = append(swaps[s.Job], s)
		t.Swaps = t.Swaps || s.Moved()
	}
	for _, j := range r.jobs {
		t.Jobs = append(t.Jobs, newJobRow(j, tasks[j.Index], holdsOf(j, tasks[j.Index], end), swaps[j.Index], end))
	}
	return t
}

// tasksOf are the tasks of each job.
func tasksOf(r records) map[int][]results.Task {
	out := map[int][]results.Task{}
	for _, k := range r.tasks {
		out[k.Job] = append(out[k.Job], k)
	}
	return out
}

// holdsOf returns the intervals in which a job held a device: the times of its tasks, or its
// whole life if it has no tasks and was bound as a process, or has no tasks there and has several devices.
func holdsOf(j results.Job, tasks []results.Task, end float64) []hold {
	var out []hold
	for _, k := range tasks {
		if k.Device != nil && k.GrantS != nil {
			out = append(out, hold{j.Index, *k.Device, *k.GrantS, orElse(k.ReleaseS, orElse(j.EndS, end))})
		}
	}
	if j.StartS != nil {
		for _, device := range j.On() {
			if j.HeldWhole(device, len(tasks) > 0, slices.ContainsFunc(out, func(h hold) bool { return h.device == device })) {
				out = append(out, hold{j.Index, device, *j.StartS, orElse(j.EndS, end)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.from, b.from))
	})
	merged := out[:0]
	for _, h := range out {
		if n := len(merged); n > 0 && merged[n-1].device == h.device && h.from-merged[n-1].to < end*resolution {
			merged[n-1].to = max(merged[n-1].to, h.to)
			continue
		}
		merged = append(merged, h)
	}
	return merged
}

func newJobRow(j results.Job, tasks []results.Task, holds []hold, swaps []results.Swap, end float64) jobRow {
	row := jobRow{Index: j.Index, Name: line(j.Name)}
	outcome := "no outcome yet"
	if j.Outcome != nil {
		outcome = line(string(*j.Outcome))
		if !j.EndedOK() {
			row.Outcome = outcome
		}
	}
	text := []string{fmt.Sprintf("job %d %s: %s", j.Index, row.Name, outcome)}
	if j.StartS != nil {
		row.Bars = append(row.Bars, newBar(classHost, *j.StartS, orElse(j.EndS, end), end))
	}
	for _, w := range waits(j, tasks, end) {
		row.Bars = append(row.Bars, newBar(classWait, w.from, w.to, end))
	}
	for _, h := range holds {
		row.Bars = append(row.Bars, newBar(classOf(j), h.from, h.to, end))
	}
	row.Bars = append(row.Bars, swapBars(swaps, end)...)
	if j.WaitS != nil {
		text = append(text, "waited "+seconds(*j.WaitS))
	}
	if n := len(holds); n > 0 {
		text = append(text, fmt.Sprintf("on GPU %d from %s to %s", holds[0].device, seconds(holds[0].from), seconds(holds[n-1].to)))
	}
	if len(swaps) > 0 {
		text = append(text, swapText(swaps))
	}
	if j.EndS != nil {
		text = append(text, "ended at "+seconds(*j.EndS))
	}
	row.Text = strings.Join(text, ", ")
	return row
}

// swapBars returns the bars of a job's swaps. Swaps of one direction that are too near to be told
// apart are one bar.
func swapBars(swaps []results.Swap, end float64) []bar {
	var out []bar
	for _, d := range []struct {
		direction   schedulers.Direction
		class, text string
	}{{schedulers.Out, classOut, "to the host"}, {schedulers.In, classIn, "back from the host"}} {
		var merged []results.Swap
		for _, s := range slices.SortedStableFunc(slices.Values(swaps), func(a, b results.Swap) int { return cmp.Compare(a.StartS, b.StartS) }) {
			if s.Direction != d.direction || !s.Moved() {
				continue
			}
			if n := len(merged); n > 0 && s.StartS-merged[n-1].EndS < end*resolution {
				merged[n-1].EndS, merged[n-1].Bytes = max(merged[n-1].EndS, s.EndS), merged[n-1].Bytes+s.Bytes
				continue
			}
			merged = append(merged, s)
		}
		for _, s := range merged {
			b := newBar(d.class, s.StartS, s.EndS, end)
			b.Text = fmt.Sprintf("%s %s, %s to %s", report.Human(float64(s.Bytes), report.Bytes), d.text, seconds(s.StartS), seconds(s.EndS))
			out = append(out, b)
		}
	}
	return out
}

func swapText(swaps []results.Swap) string {
	w := results.NewSwapping(results.Run{}, nil, swaps)
	return fmt.Sprintf("%d swaps (%s to the host, %s back), %d unsuccessful", *w.Swaps, report.Human(float64(*w.OutBytes), report.Bytes),
		report.Human(float64(*w.InBytes), report.Bytes), *w.InVain)
}

func newBar(class string, from, to, end float64) bar {
	from, to = min(max(from, 0), end), min(to, end)
	return bar{Class: class, X: percent(from, end), Width: percent(max(to-from, end*resolution), end)}
}

func classOf(j results.Job) string {
	switch {
	case j.Outcome == nil:
		return classOpen
	case j.EndedOK():
		return classOK
	case j.Outcome.Crashed():
		return classBad
	}
	return classOpen
}

func orElse(v *float64, other float64) float64 {
	if v == nil {
		return other
	}
	return *v
}

// horizon returns the end of a run's time axis: its makespan, or the latest recorded time if the
// makespan is unknown, or does not count from 0.
func horizon(r records) float64 {
	if m := r.run.Metrics.MakespanS; m != nil && *m > 0 && r.run.Arrivals == nil {
		return *m
	}
	end := 0.0
	for _, j := range r.jobs {
		end = max(end, orElse(j.StartS, 0), orElse(j.EndS, 0))
	}
	for _, k := range r.tasks {
		end = max(end, k.SubmitS, orElse(k.GrantS, 0), orElse(k.ReleaseS, 0))
	}
	for _, s := range r.segments {
		end = max(end, s.LastS)
	}
	return end
}
