package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// What a terminal shows of a line never reaches the next row.
func TestLinesFitTheTerminal(t *testing.T) {
	for _, c := range []struct {
		line    string
		columns int
		want    string
	}{
		{"running: GPU0×2", 80, "running: GPU0×2"},
		{"running: GPU0×2", 16, "running: GPU0×2"},
		{"running: GPU0×2", 15, "running: GPU0×"},
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
		p.job(j)
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
	p.event(results.Event{Kind: "refused", Job: new(0), Detail: "said in the job's outcome"})
	p.event(results.Event{Kind: "unscheduled", Job: new(1), Detail: "it never asked"})
	p.event(results.Event{Kind: "no-progress", Detail: "every job waits"})
	if want := "caserun: job 1 (): it never asked\ncaserun: every job waits\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}
