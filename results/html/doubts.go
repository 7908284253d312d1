package html

import (
	"fmt"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// missedShare is the share of missed sampling deadlines above which the page warns. Missed
// deadlines are rare on an idle machine.
const missedShare = 0.01

// warnings returns the reasons to read a run's figures with care.
func warnings(r records) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	run := r.run
	switch run.Status {
	case results.Interrupted:
		say("Interrupted: these figures are not a measurement.")
	case results.Running:
		say("Not finished: the run is under way, or its harness died.")
	}
	if run.Doubts != "" {
		for doubt := range strings.SplitSeq(run.Doubts, "\n") {
			say("Doubtful, and left out of comparisons: %s.", line(doubt))
		}
	}
	if run.Warmup {
		say("Warm-up run: it is left out of every comparison.")
	}
	for _, note := range report.OpenLoadNotes(run) {
		say("%s%s", strings.ToUpper(note[:1]), note[1:])
	}
	if run.Traced {
		say("Traced: its times include the kernel tracer's cost and compare only with traced runs.")
	}
	if results.Guarded(run) {
		say("Guarded: nothing was mapped beside allocations. A job that read or wrote outside its allocations faulted; it may run without --guard.")
	}
	out = append(out, tracerWarnings(run.Tracer)...)
	out = append(out, samplerWarnings(run)...)
	for _, d := range r.devices {
		out = append(out, deviceWarnings(d)...)
	}
	if strings.HasSuffix(run.Provenance.Revision, "+dirty") {
		say("Built from a working tree with changes that no revision holds (%s).", line(run.Provenance.Revision))
	}
	return out
}

// doubtful reports whether a run's row needs a warning sign. Simulated, traced and guarded do
// not count, because the row's mode says them, nor does an open load.
func doubtful(run results.Run) bool {
	run.Mode, run.Traced, run.Provenance.Configuration, run.Arrivals = results.Live, false, "", nil
	if run.Sampler.Samples == nil {
		run.Sampler.Samples = new(int64(1)) // a simulated run is never sampled
	}
	return len(warnings(records{run: run})) > 0
}

func tracerWarnings(t results.Tracer) []string {
	var out []string
	for _, c := range []struct {
		count *int64
		text  string
	}{
		{t.Lost, "%d kernels and copies ran but have no record."},
		{t.Cut, "%d traced processes did not exit in order: their last records may be missing."},
		{t.Untraced, "%d jobs ran and left no trace."},
	} {
		if c.count != nil && *c.count > 0 {
			out = append(out, fmt.Sprintf(c.text, *c.count))
		}
	}
	return out
}

func samplerWarnings(run results.Run) []string {
	var out []string
	s := run.Sampler
	if s.MissedDeadlines != nil && s.Samples != nil {
		if due := *s.Samples + *s.MissedDeadlines; due > 0 && float64(*s.MissedDeadlines)/float64(due) > missedShare {
			share := float64(*s.MissedDeadlines) / float64(due)
			text := fmt.Sprintf("The sampler missed %d of %d deadlines (%s)", *s.MissedDeadlines, due, report.Human(share, report.Ratio))
			if s.LongestGapS != nil {
				text += ", its longest gap being " + seconds(*s.LongestGapS)
			}
			out = append(out, text+".")
		}
	}
	if s.Errors != nil && *s.Errors > 0 {
		text := fmt.Sprintf("%d NVML calls failed", *s.Errors)
		if s.FirstError != nil {
			text += ", the first with: " + line(*s.FirstError)
		}
		out = append(out, text+".")
	}
	if run.Mode == results.Live && run.Status == results.Complete && s.Samples == nil {
		out = append(out, "Nothing was sampled: utilization is unknown.")
	}
	return out
}

func deviceWarnings(d results.Device) []string {
	var out []string
	if d.UsedAtStartBytes > 0 {
		out = append(out, fmt.Sprintf("GPU %d: others used %s at the start.", d.Index, report.Human(float64(d.UsedAtStartBytes), report.Bytes)))
	}
	if reasons := d.Throttling(); len(reasons) > 0 {
		out = append(out, fmt.Sprintf("GPU %d: its clocks were held down (%s).", d.Index, line(strings.Join(reasons, ", "))))
	}
	return out
}
