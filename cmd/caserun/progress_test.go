package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/sweep"
)

// What a terminal shows of a line never reaches the next row.
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
	p := newProgress(&out, mix, results.Live, profiles.Catalog())
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
	p := newProgress(&out, mix, results.Live, profiles.Catalog())
	p.Event(results.Event{Kind: results.EventRefused, Job: new(0), Detail: "said in the job's outcome"})
	p.Event(results.Event{Kind: results.EventUnscheduled, Job: new(1), Detail: "it never asked"})
	p.Event(results.Event{Kind: results.EventNoProgress, Detail: "every job waits"})
	p.Event(results.Event{Kind: results.EventUnplanned, Detail: "nothing is known"})
	p.Event(results.Event{Kind: results.EventNiceLeft, Detail: "this user may not"})
	if want := "caserun: job 1 (bfs-32M): it never asked\ncaserun: every job waits\ncaserun: nothing is known\ncaserun: this user may not\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

func TestASweepSaysOnceWhatItsRunsHaveInCommon(t *testing.T) {
	var out strings.Builder
	p := newSweepProgress(&out, results.Simulated, time.Now())
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

// A terminal is redrawn, and shows what names would do to it.
func TestMessagesOnATerminal(t *testing.T) {
	master, terminal := openTerminal(t, 80)
	t.Setenv("TERM", "xterm")
	said := &messages{w: terminal}
	if !isTerminal(said) {
		t.Error("messages to a terminal are not animated")
	}
	redraw(said, "job \x1b[2J\n")
	fmt.Fprint(said, "caserun: \u202egnp\tx")
	text := make([]byte, 100)
	n := 0
	for !strings.HasSuffix(string(text[:n]), "x") {
		more, err := master.Read(text[n:])
		if n += more; err != nil {
			t.Fatalf("%v after %q", err, text[:n])
		}
	}
	shown := strings.ReplaceAll(string(text[:n]), "\t", "        ") // which a terminal may make of it
	if want := clearLine + `job \x1b[2J\n` + clearLine + `caserun: \u202egnp`; !strings.HasPrefix(shown, want) {
		t.Errorf("the terminal got %q, want %q", shown, want)
	}
}

// The configuration is shown so that it can be read again.
func TestShownConfigurationHasEscapes(t *testing.T) {
	inTempDir(t)
	status, shown, errs := caserun(t, "mix", "--show-config", "--tag", "ta'g\"", "--suite", "\u202ea\x1bb")
	if status != exitOK || !strings.Contains(shown, `tag: ta'g"`) || !strings.Contains(shown, `suite: "\u202ea\x1bb"`) {
		t.Fatalf("exit %d: %s\n%q", status, errs, shown)
	}
	if err := os.WriteFile("again.yaml", []byte(strings.ReplaceAll(shown, `\x1b`, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, again, errs := caserun(t, "mix", "--show-config", "--config", "again.yaml"); status != exitOK || !strings.Contains(again, `suite: "\u202eab"`) {
		t.Errorf("read again: exit %d: %s\n%q", status, errs, again)
	}
}

// No name that a user, a file or a job has reaches a terminal as it is.
func TestMessagesShowHostileNames(t *testing.T) {
	inTempDir(t)
	name := "\x1b[2J\u202e\u009b.yaml"
	if err := os.WriteFile(name, []byte("jobs: [no-such-job]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"mix", name}, {"mix", "\x1b[2J"}, {"mix", "W1", "--config", "no\x1b[2J.yaml"}, {"mix", "W1", "--db", "no\x1b[2J/a/../../\u202e", "--node", "\x1b[2J"},
		{"\x1b[2J\u202e"}, {"mix", "W1", "--\x1b[2J"}, {"report", "--tag", "\x1b[2J"}, {"report", "--html", "\x1b[2J/\u202e"}, {"mix", "\xff.yaml"},
	} {
		status, _, errs := caserun(t, args...)
		if status == exitOK || errs == "" {
			t.Errorf("%q: exit %d: %s", args, status, errs)
		}
		if at := strings.IndexFunc(errs, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); at >= 0 || strings.ContainsRune(errs, '\ufffd') {
			t.Errorf("%q: byte %d of %q", args, at, errs)
		}
	}
}

// A line tells the run that has ended, how far the sweep is, and the time left.
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
		if got := sweepLine(c.cell, run, c.done, 10, left); got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	}
}

// Of a simulated sweep, a line now and then, and the word in each.
func TestSimulatedSweepsAreQuiet(t *testing.T) {
	var out strings.Builder
	now := time.Time{}
	p := newSweepProgress(&out, results.Simulated, now)
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
