package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// A sweep that is extended has the runs, in their order and with their seeds, that it would have
// had with as many repetitions from the start.
func TestSweepIsExtended(t *testing.T) {
	inTempDir(t)
	args := []string{"sweep", "--mixes", "W1,W2", "--scheds", "sa,case-alg3", "--node", "sim:2xP100", "--sim-noise", "0.01"}
	for db, reps := range map[string]string{"caserun.db": "3", "whole.db": "5"} {
		if status, _, errs := caserun(t, append(args, "--db", db, "--reps", reps)...); status != exitOK {
			t.Fatal(errs)
		}
	}
	plan := func(path string) (out []string, w results.Sweep) {
		db, err := store.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		cells, err := db.Cells(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			run, err := db.Run(t.Context(), *c.Run)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprint(c.Position, c.Mix, c.Scheduler, c.Repetition, c.Seed, *c.Run, run.Status, *run.Metrics.MakespanS))
		}
		if w, err = db.Sweep(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		return out, w
	}
	for _, c := range []struct {
		line   string
		status int
		says   string
	}{
		{"sweep --resume 1 --reps 2", exitUsage, "planned with --reps 3, not --reps 2"},
		{"sweep --resume 1 --reps 9999999", exitUsage, "want 100000 at most"},
		{"sweep --resume 1 --reps 5 --dry-run", exitOK, "8 runs, about"},
		{"sweep show 1", exitOK, "  3   3  "},
		{"sweep --resume 1 --reps 5", exitOK, "  5   5  "},
	} {
		if status, out, errs := caserun(t, strings.Fields(c.line)...); status != c.status || !strings.Contains(out+errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d and %q:\n%s%s", c.line, status, c.status, c.says, out, errs)
		}
	}
	extended, w := plan("caserun.db")
	whole, _ := plan("whole.db")
	if diff := cmp.Diff(whole, extended); diff != "" {
		t.Error(diff)
	}
	if w.Status != results.Complete || w.Repetitions != 5 {
		t.Errorf("the sweep is %s with %d repetitions", w.Status, w.Repetitions)
	}
}

// What is inconclusive comes with the command that settles it, and the command does.
func TestInconclusiveResultsSayWhatSettlesThem(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "2")
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "2", "--seed", "2")
	for i, tag := range []string{"one", "other"} {
		for j, mix := range []string{"W1", "W2"} {
			mustRun(t, strings.Fields(fmt.Sprintf("sweep --mixes %s --scheds sa --node sim:2xP100 --sim-noise 0.05 --reps 2 --seed %d --tag %s", mix, 10*i+j, tag))...)
		}
	}
	const settles = "caserun sweep --resume "
	for _, c := range []struct {
		line           string
		before, behind int
	}{
		{"compare sweep:1/sa sweep:1/case-alg3 --metrics throughput -v", exitOK, exitOK},
		{"regress --baseline sweep:1 --candidate sweep:2 -v", exitNothing, exitOK},
		{"compare one other --metrics throughput -v", exitOK, exitOK}, // each tag has a sweep for each mix
	} {
		status, out, errs := caserun(t, strings.Fields(c.line)...)
		_, command, found := strings.Cut(out, "would settle ")
		_, command, _ = strings.Cut(command, ": ")
		command, _, _ = strings.Cut(command, "\n")
		if status != c.before || !found || !strings.HasPrefix(command, settles) {
			t.Fatalf("caserun %s: exit %d, %q:\n%s%s", c.line, status, command, out, errs)
		}
		for one := range strings.SplitSeq(command, " && ") {
			if status, _, errs := caserun(t, strings.Fields(one)[1:]...); status != exitOK {
				t.Fatalf("%s: exit %d: %s", one, status, errs)
			}
		}
		if status, out, errs := caserun(t, strings.Fields(c.line)...); status != c.behind || strings.Contains(out, "inconclusive") || strings.Contains(out, " noise ") {
			t.Errorf("behind %s, caserun %s: exit %d:\n%s%s", command, c.line, status, out, errs)
		}
	}
}

// What is measured too little is extended only if more runs would repeat its runs. A baseline of other profiles
// cannot be: a new one is made, by the command in the note.
func TestHintOfABaselineThatCannotBeExtended(t *testing.T) {
	known, err := os.ReadFile("../../runner/profiles/rodinia31_h200.csv")
	if err != nil {
		t.Fatal(err)
	}
	inTempDir(t)
	profile := func(held string) {
		t.Helper()
		if err := os.WriteFile("app.csv", bytes.ReplaceAll(known, []byte(",5,1."), []byte(","+held+",1.")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	night := func(tag, seed string) {
		t.Helper()
		simulate(t, "--scheds", "sa,case-alg3:queue=fifo", "--reps", "4", "--tag", tag, "--seed", seed, "--profiles", "app.csv", "--jobs", "2")
	}
	profile("5")
	night("old", "1")
	night("same", "2")
	gate := func(candidate string) string {
		t.Helper()
		_, out, _ := caserun(t, "regress", "--baseline", "old", "--candidate", candidate)
		return strings.Join(strings.Fields(out), " ")
	}
	if out := gate("same"); !strings.Contains(out, "caserun sweep --resume 1 --reps ") || strings.Contains(out, "cannot be extended") {
		t.Errorf("what is as it was can be extended:\n%s", out)
	}
	profile("5.5")
	night("new", "3")
	out := gate("new")
	_, command, found := strings.Cut(out, "Make a new baseline, of the tag old-5: caserun ")
	if strings.Contains(out, "--resume 1") || !strings.Contains(out, "caserun sweep --resume 3 --reps ") || !found ||
		!strings.Contains(out, "sweep 1 (old) cannot be extended: mix W1, or a profile of its jobs, is not what it was") {
		t.Fatalf("the hint must keep to what was measured:\n%s", out)
	}
	words := strings.Fields(command)
	words = words[:slices.Index(words, "--tag")+2]
	if status, _, errs := caserun(t, words...); status != exitOK {
		t.Errorf("%q: exit %d: %s", words, status, errs)
	}
	if status, _, errs := caserun(t, "regress", "--baseline", words[len(words)-1], "--candidate", "new", "--max-regression", "throughput=50%"); status == exitUsage {
		t.Errorf("the new baseline is not there: %s", errs)
	}
}
