package runner_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// A process that reports without end writes a few rows, and a job whose processes do, a few
// more; the others are counted.
func TestReportsAreLimited(t *testing.T) {
	for _, c := range []struct{ processes, each, kept int }{
		{1, 3, 3},
		{1, 10000, 8},
		{2, 100, 16},
		{1000, 20, 64},
	} {
		jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
			f.started(0)
			for range c.each {
				for process := range c.processes {
					f.batch.ReportOOM(0, process+1, 99, "cudaMalloc", f.now)
					f.batch.ReportFault(0, process+1, 700, "cudaMemcpy", f.now)
				}
			}
			f.ended(0)
		})
		wantOutcomes(t, jobs, results.OOM)
		rows, last := map[results.EventKind]int{}, map[results.EventKind]string{}
		for _, e := range rec.events {
			rows[e.Kind]++
			last[e.Kind] = e.Detail
		}
		for _, kind := range []results.EventKind{results.EventOOM, results.EventFault} {
			more := c.processes*c.each - c.kept
			want := c.kept
			if more > 0 {
				want++
			}
			if rows[kind] != want {
				t.Errorf("%d processes, %d reports each: %d events of kind %s, want %d", c.processes, c.each, rows[kind], kind, want)
			}
			if count, _, _ := strings.Cut(last[kind], " "); more > 0 && count != strconv.Itoa(more) {
				t.Errorf("%d processes, %d reports each: the last event is %q, want %d more", c.processes, c.each, last[kind], more)
			}
		}
	}
}

// A job whose requests are refused without asking the engine is refused.
func TestLimitedJobIsRefused(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.batch.Limited(0, "its job has 256 requests open already", f.now)
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.Refused)
	if rec.events[0].Kind != results.EventRefused || rec.events[0].Detail != jobs[0].Detail {
		t.Errorf("events %+v, detail %q", rec.events, jobs[0].Detail)
	}
}
