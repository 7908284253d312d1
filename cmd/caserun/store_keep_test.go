package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// nights makes a store of three simulated nights of 4 runs each, and of a run of none.
func nights(t *testing.T) (db string) {
	t.Helper()
	db = filepath.Join(t.TempDir(), "nights.db")
	for n := 1; n <= 3; n++ {
		mustRun(t, "sweep", "--mixes", "W1", "--scheds", "sa,case-alg3", "--reps", "2", "--tag", fmt.Sprintf("nightly-2026-11-0%d", n),
			"--node", "sim:1xV100", "--sim-noise", "0.01", "--seed", fmt.Sprint(n), "--db", db)
	}
	mustRun(t, "mix", "W1", "--sched", "sa", "--node", "sim:1xV100", "--db", db)
	return db
}

// keptRows are the rows of a command of the store, in JSON.
func keptRows(t *testing.T, args ...string) (names []string) {
	t.Helper()
	stdout, _ := mustRun(t, append(args, "--format", "json")...)
	var table struct {
		Rows []struct {
			Name           string
			Runs, Excluded int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &table); err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Rows {
		names = append(names, fmt.Sprintf("%s %d/%d", r.Name, r.Excluded, r.Runs))
	}
	return names
}

// Months of nights are looked at, marked and cleared by the names that comparisons take.
func TestHousekeeping(t *testing.T) {
	db := nights(t)
	for _, step := range []struct {
		args, want string
	}{
		{"list", "sweep:1 0/4, sweep:2 0/4, sweep:3 0/4, 13 0/1"},
		{"list sweep:2/sa", "5 0/1, 8 0/1"},
		{"exclude nightly-2026-11-02/sa 1 --dry-run", "1 0/1, 5 0/1, 8 0/1"},
		{"exclude nightly-2026-11-02/sa 1", "1 1/1, 5 1/1, 8 1/1"},
		{"list latest", "9 0/1, 10 0/1, 11 0/1, 12 0/1"},
		{"list --before 2026-11-03", "sweep:1 1/4, sweep:2 2/4"},
		{"exclude --undo 1", "1 0/1"},
		{"tag v1 sweep:1", "sweep:1 0/4"},
		{"rm nightly-2026-11-02 13 --dry-run", "sweep:2 2/4, 13 0/1"},
		{"rm nightly-2026-11-02 13 --yes", "sweep:2 2/4, 13 0/1"},
		{"list", "sweep:1 0/4, sweep:3 0/4"},
		{"rm 9 --yes", "9 0/1"},
		{"list", "sweep:1 0/4, sweep:3 0/3"},
	} {
		if got := strings.Join(keptRows(t, append([]string{"store"}, append(strings.Fields(step.args), "--db", db)...)...), ", "); got != step.want {
			t.Errorf("store %s: %s, want %s", step.args, got, step.want)
		}
	}
	before, err := os.Stat(db)
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, "store", "vacuum", "--yes", "--db", db)
	if after, err := os.Stat(db); err != nil || after.Size() >= before.Size() {
		t.Errorf("a vacuum made %d bytes of %d (%v)", after.Size(), before.Size(), err)
	}
	if stdout, _ := mustRun(t, "sweep", "list", "--db", db, "--format", "csv"); !strings.Contains(stdout, "interrupted,3,4") {
		t.Errorf("a sweep without one of its runs is not interrupted: %s", stdout)
	}
}

// Comparisons say how many excluded runs they leave out, and a resumed sweep makes them again.
func TestExcludedRunsAreCounted(t *testing.T) {
	db := nights(t)
	mustRun(t, "store", "exclude", "sweep:1/sa", "--db", db)
	mustRun(t, "store", "note", "the fan was off", "sweep:1", "--db", db)
	for _, args := range []string{"compare nightly-2026-11-01 sweep:2", "report --trend throughput", "sweep show 1", "report --sweep 1", "report --tag nightly-2026-11-01 --html -", "export --sweep 1 --markdown -"} {
		stdout, stderr, says := "", "", results.SaysExcluded(2)
		if _, stdout, stderr = caserun(t, append(strings.Fields(args), "--db", db)...); !strings.Contains(oneSpace(stdout+stderr), says) {
			t.Errorf("caserun %s does not say %q: %s%s", args, says, stdout, stderr)
		}
		if (strings.HasPrefix(args, "compare") || strings.HasPrefix(args, "sweep")) && !strings.Contains(oneSpace(stdout), "the fan was off") {
			t.Errorf("caserun %s does not have the note of its sweep: %s", args, stdout)
		}
	}
	if stdout, _ := mustRun(t, "report", "--sweep", "1", "--db", db, "--format", "csv"); strings.Count(stdout, "\n") != 3 {
		t.Errorf("the list has excluded runs: %s", stdout)
	}
	if stdout, _ := mustRun(t, "report", "--sweep", "1", "--excluded", "--db", db, "--format", "csv"); strings.Count(stdout, "\n") != 5 {
		t.Errorf("--excluded does not list all runs: %s", stdout)
	}
	if _, stderr := mustRun(t, "sweep", "--resume", "1", "--db", db); !strings.Contains(stderr, "excluded runs, which are made again: 2") {
		t.Errorf("resumed, the sweep does not make its excluded runs again: %s", stderr)
	}
	if _, stderr := mustRun(t, "sweep", "--resume", "1", "--db", db); !strings.Contains(stderr, "sweep 1 is complete") {
		t.Errorf("the sweep is not complete: %s", stderr)
	}
}

func oneSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

// What cannot be undone is asked, and nobody is asked in a script.
func TestRemovalIsAsked(t *testing.T) {
	db := nights(t)
	for _, args := range []string{"store rm 1 --db " + db, "store vacuum --db " + db} {
		if status, _, stderr := caserun(t, strings.Fields(args)...); status != exitUsage || !strings.Contains(stderr, "add --yes") {
			t.Errorf("caserun %s: status %d, %s", args, status, stderr)
		}
	}
	for answer, want := range map[string]int{"n\n": exitUsage, "\n": exitUsage, "yes\n": exitOK} {
		master, terminal := openTerminal(t, 80)
		if _, err := io.WriteString(master, answer); err != nil {
			t.Fatal(err)
		}
		if status := run(context.Background(), []string{"store", "rm", "2", "--db", db}, terminal, io.Discard, io.Discard); status != want {
			t.Errorf("answered %q: status %d, want %d", answer, status, want)
		}
	}
	for args, says := range map[string]string{
		"rm":                             "which runs?",
		"tag":                            "TAG is missing",
		"tag x":                          "which runs?",
		"rm 99 --yes":                    "no run has the number or the tag 99",
		"rm nightly-2026-11-09 --yes":    "no run has the tag nightly-2026-11-09",
		"list --since yesterday":         "--since \"yesterday\": want a day such as",
		"list --since 3d --before 5d":    "nothing can be between them",
		"list sweep:7":                   "sweep 7: no such sweep",
		"exclude sweep:1/ --since 2020x": "--since",
	} {
		if status, _, stderr := caserun(t, append(append([]string{"store"}, strings.Fields(args)...), "--db", db)...); status != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("store %s: status %d, want 2 and %q: %s", args, status, says, stderr)
		}
	}
}

// The output of jobs stays, unless it is to go too.
func TestRemovalOfOutputFiles(t *testing.T) {
	dir := t.TempDir()
	db, runs := filepath.Join(dir, "runs.db"), filepath.Join(dir, "caserun-runs")
	s, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 891234567, time.UTC)
	for range 2 {
		if _, err := s.BeginRun(t.Context(), results.Run{Mix: "m", Scheduler: "s", Node: "local", Mode: results.Live, StartedAt: &at}, nil); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	first, second, other := filepath.Join(runs, "run-1-20260304T050607.891234567"), filepath.Join(runs, "run-7-20260304T050608.891234567"), filepath.Join(runs, "mine")
	for _, d := range []string{first, second, other} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if _, stderr := mustRun(t, "store", "rm", "1", "--yes", "--db", db, "--runs", runs); !there(first) || !strings.Contains(stderr, "which stay: 1") {
		t.Errorf("without --files, the output stays: %v, %s", there(first), stderr)
	}
	mustRun(t, "store", "rm", "2", "--files", "--yes", "--db", db, "--runs", runs)
	if there(second) || !there(first) || !there(other) {
		t.Errorf("with --files, the output of the run is there: %v; of others: %v, %v", there(second), there(first), there(other))
	}
}
