package display

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/sweep"
)

func TestLinesFitTheTerminal(t *testing.T) {
	for _, c := range []struct {
		line    string
		columns int
		want    string
	}{
		{"running: GPU0×2", 80, "running: GPU0×2"},
		{"running: GPU0×2", 18, "running: GPU0×2"}, // and ^C in the last but one column
		{"running: GPU0×2", 17, "running: GPU0×"},
		{"running: GPU0×2", 4, "r"},
		{"running: GPU0×2", 1, ""},
		{"running: GPU0×2", 0, "running: GPU0×2"}, // unknown
		{"", 80, ""},
	} {
		if got := fit(c.line, c.columns); got != c.want {
			t.Errorf("fit(%q, %d) is %q, want %q", c.line, c.columns, got, c.want)
		}
	}
}

func TestProgressTellsWhoWaitsRunsAndEnded(t *testing.T) {
	mix, err := mixes.Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p := NewRun(&out, mix, results.Live, profiles.Catalog())
	p.began = time.Now().Add(-10 * time.Second)
	state := func(index int, device *int, outcome *results.Outcome) {
		j := results.Job{Index: index, Name: mix.Jobs[index].Name, StartS: new(0.0), Device: device, Outcome: outcome}
		p.Job(j)
	}
	state(0, new(1), new(results.OK))
	state(1, new(0), new(results.OOM))
	state(2, new(3), nil)
	state(3, new(3), nil)
	state(4, nil, nil)
	line := p.line()
	if want := regexp.MustCompile(`^2/16 ended \(1 failed\), about \w+ left, 11 not started, running: 1 without GPU GPU3×2$`); !want.MatchString(line) {
		t.Errorf("line %q, want %s", line, want)
	}
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("off a terminal each job that ended has one line, got %d:\n%s", got, out.String())
	}
	if !strings.Contains(out.String(), "job 1 (bfs-32M) on GPU 0: oom") {
		t.Errorf("output %q", out.String())
	}
}

func TestProgressSaysWhatKeepsABatchFromItsEnd(t *testing.T) {
	mix, err := mixes.Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p := NewRun(&out, mix, results.Live, profiles.Catalog())
	p.Event(results.Event{Kind: results.EventRefused, Job: new(0), Detail: "said in the job's outcome"})
	p.Event(results.Event{Kind: results.EventUnscheduled, Job: new(1), Detail: "it never asked"})
	p.Event(results.Event{Kind: results.EventNoProgress, Detail: "every job waits"})
	p.Event(results.Event{Kind: results.EventUnplanned, Detail: "nothing is known"})
	p.Event(results.Event{Kind: results.EventNiceLeft, Detail: "this user may not"})
	if want := "caserun: job 1 (bfs-32M): it never asked\ncaserun: every job waits\ncaserun: nothing is known\ncaserun: this user may not\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

// Jobs that a run is given are counted with the others from then on.
func TestProgressOfGivenJobs(t *testing.T) {
	for _, mode := range []results.Mode{results.Live, results.Simulated} {
		var out strings.Builder
		p := NewRun(&out, mixes.Mix{Jobs: []mixes.Job{{Name: "first"}}}, mode, profiles.Catalog())
		p.Job(results.Job{Index: 1, Name: "given", ArrivalS: new(1.0)})
		p.Event(results.Event{Kind: results.EventUnscheduled, Job: new(1), Detail: "it never asked"})
		p.Job(results.Job{Index: 1, Name: "given", StartS: new(1.0), Outcome: new(results.OK)})
		want := "caserun: job 1 (given): it never asked\n"
		if mode == results.Live {
			want += "job 1 (given): ok; 1/2 ended, about"
		}
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: said %q, want %q", mode, out.String(), want)
		}
	}
}

func TestASweepSaysOnceWhatItsRunsHaveInCommon(t *testing.T) {
	var out strings.Builder
	p := NewSweep(&out, results.Simulated, time.Now())
	for _, e := range []struct{ mix, detail string }{{"W1", "nothing is known"}, {"W2", "nothing is known"}, {"W1", "nothing is known"}, {"W1", "every job waits"}} {
		mix, err := mixes.Lookup(e.mix)
		if err != nil {
			t.Fatal(err)
		}
		run := p.Run(mix, results.Simulated, profiles.Catalog())
		run.Event(results.Event{Kind: results.EventUnplanned, Detail: e.detail})
	}
	if want := "caserun: W1: nothing is known\ncaserun: W2: nothing is known\ncaserun: W1: every job waits\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

func TestSweepProgressTellsTheTimeLeft(t *testing.T) {
	run := results.Run{ID: 12, Mode: results.Live, Jobs: 16, Metrics: results.Metrics{OK: 15, MakespanS: new(123.44)}}
	left := func() time.Duration { return 3*time.Minute + 15300*time.Millisecond }
	for want, c := range map[string]struct {
		cell results.Cell
		done int
	}{
		"[8/10] about 3m15s left; run 12: W1 under sa, warm-up 1: 15 of 16 jobs ok, makespan 123.4 s":    {results.Cell{Mix: "W1", Scheduler: "sa", Repetition: 1, Warmup: true}, 8},
		"[9/10] about 3m15s left; run 12: W1 under sa, repetition 2: 15 of 16 jobs ok, makespan 123.4 s": {results.Cell{Mix: "W1", Scheduler: "sa", Repetition: 2}, 9},
		"[10/10] run 12: W1 under cg, repetition 2: 15 of 16 jobs ok, makespan 123.4 s":                  {results.Cell{Mix: "W1", Scheduler: "cg", Repetition: 2}, 10},
	} {
		if got := sweepLine(c.cell, c.cell.Scheduler, run, c.done, 10, left); got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	}
}

func TestSimulatedSweepsAreQuiet(t *testing.T) {
	var out strings.Builder
	now := time.Time{}
	p := NewSweep(&out, results.Simulated, now)
	for done := range 99 {
		p.Ended(results.Cell{}, results.Run{Mode: results.Simulated}, &sweep.Progress{Done: done + 1, Total: 100}, now.Add(simulatedEvery-1))
	}
	if out.Len() > 0 {
		t.Errorf("within %v it said\n%s", simulatedEvery, out.String())
	}
	p.Ended(results.Cell{}, results.Run{Mode: results.Simulated}, &sweep.Progress{Done: 100, Total: 100}, now.Add(simulatedEvery))
	if got := out.String(); !strings.HasPrefix(got, "[100/100] SIMULATED; run") {
		t.Errorf("line %q", got)
	}
}

// The second Ctrl-C ends at once, and leaves an empty line to the shell.
func TestEndClearsTheProgress(t *testing.T) {
	var out strings.Builder
	said := NewMessages(&out)
	redraw(said, "[1/2]")
	said.End()
	if want := clearLine + "[1/2]" + clearLine; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	NewMessages(&out).End()
	if out.Len() > 0 {
		t.Errorf("without progress: %q", out.String())
	}
}

// An export that takes long says how far it is: after a second, and then now and then.
func TestRecordProgress(t *testing.T) {
	var out strings.Builder
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	p := NewRecords(&out, "kernels and copies written", start)
	for _, at := range []struct {
		seconds float64
		n       int64
	}{{0.5, 10}, {1, 20}, {1.5, 30}, {10, 40}, {11, 50}} {
		p.Done(at.n, 200, start.Add(time.Duration(at.seconds*float64(time.Second))))
	}
	p.Done(60, 0, start.Add(21*time.Second))
	p.Stop()
	if got, want := out.String(), "kernels and copies written: 20 of 200 (10 %)\nkernels and copies written: 50 of 200 (25 %)\nkernels and copies written: 60\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// A job of several devices counts on each of them.
func TestProgressOfAJobOfSeveralDevices(t *testing.T) {
	mix := mixes.Mix{Jobs: slices.Repeat([]mixes.Job{{Name: "j", Program: "./j"}}, 3)}
	var out strings.Builder
	p := NewRun(&out, mix, results.Live, profiles.Catalog())
	p.Job(results.Job{Index: 0, StartS: new(0.0), Device: new(0), Devices: new("0,2")})
	p.Job(results.Job{Index: 1, StartS: new(0.0), Device: new(2)})
	if line := p.line(); !strings.HasSuffix(line, "running: GPU0×1 GPU2×2") {
		t.Errorf("line %q", line)
	}
	p.Job(results.Job{Index: 0, Name: "j", StartS: new(0.0), Device: new(0), Devices: new("0,2"), Outcome: new(results.OK)})
	if !strings.HasPrefix(out.String(), "job 0 (j) on GPUs 0,2: ok; ") {
		t.Errorf("output %q", out.String())
	}
}

// A simulated run that takes long, as searches for plans do, says how far it is.
func TestProgressOfASimulatedRun(t *testing.T) {
	var out strings.Builder
	mix := mixes.Mix{Name: "D-128", Jobs: make([]mixes.Job, 3)}
	r := NewRun(&out, mix, results.Simulated, profiles.Set{})
	ok := results.OK
	r.Job(results.Job{Index: 0, StartS: new(0.0)})
	for range 2 { // each record of a job has all of it
		r.Job(results.Job{Index: 2, Outcome: &ok})
	}
	if got, want := r.simulated(r.began.Add(12*time.Second)), "SIMULATED; D-128: 1 of 3 jobs ended after 12s"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	if out.Len() > 0 {
		t.Errorf("at once it said %q", out.String())
	}
}

// Of an open load the line says how many have arrived, and not how long the run may last.
func TestProgressOfAnOpenLoad(t *testing.T) {
	mix, err := mixes.Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	mix.Arrivals = &mixes.Arrivals{Every: time.Second}
	p := NewRun(io.Discard, mix, results.Live, profiles.Catalog())
	p.began = time.Now().Add(-10 * time.Second)
	p.Job(results.Job{Index: 0, ArrivalS: new(0.0), StartS: new(0.0), Device: new(1), Outcome: new(results.OK)})
	p.Job(results.Job{Index: 1, ArrivalS: new(1.0), StartS: new(1.0), Device: new(0)})
	p.Job(results.Job{Index: 2, ArrivalS: new(2.0)})
	if got, want := p.line(), "1/16 ended, 3 of 16 arrived, 1 not started, running: GPU0×1"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}
