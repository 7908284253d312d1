package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/sweep"
)

// completeRuns are how many runs of sweep 1 are complete.
func completeRuns(t *testing.T, s *store.Store) int {
	t.Helper()
	runs, err := s.Runs(t.Context(), store.Filter{Sweep: 1, Status: results.Complete, Warmups: true})
	if err != nil {
		t.Fatal(err)
	}
	return len(runs)
}

// doPart plans smallSweep in the working directory and does its first runs: on
// its clock each takes a second, and limit is what they may take.
func doPart(t *testing.T, limit time.Duration) error {
	t.Helper()
	if status, _, errs := caserun(t, append(smallSweep(1), "--time-limit", "1ns")...); status != exitNothing {
		t.Fatalf("exit %d: %s", status, errs)
	}
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Sweep(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p, note, err := sweep.Resume(t.Context(), w)
	if err != nil || note != "" {
		t.Fatal(note, err)
	}
	clock := func() time.Time { return time.Time{}.Add(time.Duration(completeRuns(t, s)) * time.Second) }
	call := sweep.Call{Plan: p, ID: w.ID, Store: s, Jobs: 1, Limit: sweep.TimeLimit{Total: limit}, Now: clock,
		Say: func(string, ...any) {}, Display: display.NewSweep(io.Discard, p.Mode, time.Now())}
	return call.Run(t.Context(), "")
}

// whole is what smallSweep leaves when nothing stops it.
func whole(t *testing.T) []cellResult {
	t.Helper()
	inTempDir(t)
	if status, _, errs := caserun(t, smallSweep(1)...); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	want, _ := sweepResults(t, "caserun.db")
	return want
}

// A sweep does as many runs as fit, in the order of the plan, and goes on from
// there to what it would have been.
func TestTimeLimitEndsBetweenRuns(t *testing.T) {
	want := whole(t)
	inTempDir(t)
	const limit = 7400 * time.Millisecond // the eighth run, of an arm that took 1 s, does not fit
	err := doPart(t, limit)
	if err == nil || !strings.Contains(err.Error(), "sweep 1 stopped with 7 of 20 runs done; caserun sweep --resume 1 resumes it: W") ||
		!strings.Contains(err.Error(), "would take about 1.00 s (estimate: runs of this call), and 400 ms of --time-limit 7.4s is left") {
		t.Errorf("error %v", err)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cells, err := s.Cells(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if (c.Run != nil) != (c.Position < 7) {
			t.Errorf("cell %d: %+v", c.Position, c)
		}
	}
	if w, err := s.Sweep(t.Context(), 1); err != nil || w.Status != results.Interrupted || w.PID != nil {
		t.Errorf("the sweep is %+v (%v), want it interrupted", w, err)
	}
	status, _, errs := caserun(t, "sweep", "--resume", "--time-limit", "24h")
	if status != exitOK || !strings.Contains(errs, "13 of 20 runs are left") {
		t.Errorf("exit %d: %s", status, errs)
	}
	got, runs := sweepResults(t, "caserun.db")
	if diff := cmp.Diff(want, got); diff != "" || runs[results.Interrupted] > 0 {
		t.Errorf("runs %v; results (-uninterrupted +resumed):\n%s", runs, diff)
	}
}

// A part that was stopped goes on as the part.
func TestTimeLimitOfAPart(t *testing.T) {
	inTempDir(t)
	status, out, errs := caserun(t, append(smallSweep(1), "--part", "1/2", "--time-limit", "1ns")...)
	const again = "caserun sweep --resume 1 --part 1/2 "
	if status != exitNothing || !strings.Contains(out, again+"continues it") || !strings.Contains(errs, again+"resumes it") {
		t.Errorf("exit %d: %s\n%s", status, errs, out)
	}
}

func TestTimeLimitThatNothingFits(t *testing.T) {
	want := whole(t)
	inTempDir(t)
	for _, args := range [][]string{smallSweep(1), {"sweep", "--resume"}} {
		status, out, errs := caserun(t, append(args, "--time-limit", "1ns")...)
		if status != exitNothing || !strings.Contains(out, "the sweep is interrupted: caserun sweep --resume 1 continues it") ||
			!strings.Contains(errs, "0 of 20 runs done; caserun sweep --resume 1 resumes it: no run began, because W1 under sa would take about 16.0 ms (estimate: simulated)") {
			t.Errorf("%v: exit %d: %s\n%s", args, status, errs, out)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		if all, err := s.Runs(t.Context(), store.Filter{Warmups: true}); err != nil || len(all) > 0 {
			t.Errorf("%v: %d runs (%v), want none", args, len(all), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, errs := caserun(t, "sweep", "--resume", "--time-limit", "24h"); status != exitOK {
		t.Errorf("exit %d: %s", status, errs)
	}
	got, _ := sweepResults(t, "caserun.db")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-uninterrupted +resumed):\n%s", diff)
	}
}
