package keeping

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// stored makes a store of a simulated sweep of a run, and of a live run outside of sweeps.
func stored(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	cell := results.Cell{Mix: "W1", Scheduler: "sa", Repetition: 1}
	w := results.Sweep{Repetitions: 1, Spec: "{}", Node: "sim:1xV100", Mode: results.Simulated, Status: results.Interrupted}
	if cell.Sweep, err = db.CreateSweep(t.Context(), w, []results.Cell{cell}); err != nil {
		t.Fatal(err)
	}
	run := results.Run{Mix: "W1", Scheduler: "sa", Node: w.Node, Mode: w.Mode, Repetition: 1, Status: results.Complete, Jobs: 1, Sweep: &cell.Sweep}
	if _, err := db.BeginCell(t.Context(), cell, 0, run, nil); err != nil {
		t.Fatal(err)
	}
	run.Node, run.Mode, run.Sweep, run.StartedAt = "local", results.Live, nil, new(time.Date(2026, 11, 2, 3, 0, 0, 0, time.UTC))
	if _, err := db.BeginRun(t.Context(), run, nil); err != nil {
		t.Fatal(err)
	}
	return db
}

// asked is a request that tells what it says and what it asks.
func asked(yes, terminal bool, names ...string) (r *Request, told *[]string) {
	told = &[]string{}
	return &Request{Names: names, Command: "caserun store x",
		Ask:      func(question string) (bool, bool) { *told = append(*told, question); return yes, terminal },
		Say:      func(format string, args ...any) { *told = append(*told, fmt.Sprintf(format, args...)) },
		Progress: func(string) (func(int64, int64), func()) { return func(int64, int64) {}, func() {} },
	}, told
}

// saysOf is the text of an error.
func saysOf(err error) string { return fmt.Sprint(err) }

func TestTimesOfARequest(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		since, before string
		named         bool
		says          string
	}{
		{"14d", "7d", true, "<nil>"}, {"", "2026-11-01", true, "<nil>"}, {"", "", false, "<nil>"},
		{"7d", "14d", false, "--since 7d is not before --before 14d"}, {"soon", "", false, `--since "soon": `}, {"", "", true, "which runs? name runs, sweeps or tags"},
	} {
		r := Request{Since: c.since, Before: c.before}
		if err := r.Validate(now, c.named); !strings.HasPrefix(saysOf(err), c.says) {
			t.Errorf("since %q before %q: %v, want %q", c.since, c.before, err, c.says)
		}
	}
}

// A change is shown as it is then, a dry run changes nothing, and what has no date is counted.
func TestMarksAndDryRuns(t *testing.T) {
	ctx, db := t.Context(), stored(t)
	r, told := asked(false, false)
	r.Since = "2026-11-01"
	if err := r.Validate(time.Now(), true); err != nil {
		t.Fatal(err)
	}
	found, err := r.Exclude(ctx, db, true)
	if err != nil || found.Title != "excluded" || len(*told) != 1 || !strings.Contains((*told)[0], "leave out: 2") {
		t.Errorf("exclude: %v, %+v, said %q", err, found, *told)
	}
	runs, err := db.Runs(ctx, store.Filter{Excluded: true})
	if err != nil || len(runs) != 2 || runs[0].Excluded || !runs[1].Excluded {
		t.Fatalf("excluded: %v, %+v", err, runs)
	}
	r, _ = asked(false, false, "2")
	r.DryRun = true
	if found, err := r.Note(ctx, db, "loud"); err != nil || found.Title != "would be given the note loud" {
		t.Errorf("a dry run: %v, %+v", err, found)
	}
	if run, err := db.Run(ctx, 2); err != nil || run.Remark != "" {
		t.Errorf("a dry run noted %q (%v)", run.Remark, err)
	}
	r.DryRun = false
	for text, title := range map[string]string{"loud": "given the note loud", "": "left without a note"} {
		if found, err := r.Note(ctx, db, text); err != nil || found.Title != title {
			t.Errorf("%v, %+v, want %q", err, found, title)
		}
	}
}

// Live and simulated runs get one tag only if the user says so.
func TestTagsOfBothModes(t *testing.T) {
	ctx, db := t.Context(), stored(t)
	r, _ := asked(false, false, "1", "2")
	if _, err := r.Tag(ctx, db, "t", false); !strings.Contains(saysOf(err), "live and SIMULATED runs are named") {
		t.Errorf("both modes: %v", err)
	}
	if _, err := r.Tag(ctx, db, "t", true); err != nil {
		t.Error(err)
	}
	if n, err := db.Modes(ctx, store.Filter{Tag: "t"}); err != nil || len(n) != 2 {
		t.Errorf("tagged: %v, %v", n, err)
	}
}

// What cannot be undone waits for a yes.
func TestRemovalWaitsForAYes(t *testing.T) {
	ctx, db := t.Context(), stored(t)
	for _, c := range []struct {
		yes, terminal bool
		says          string
	}{{false, false, "add --yes"}, {false, true, "the answer was not yes, and nothing was done"}, {true, true, "<nil>"}} {
		r, told := asked(c.yes, c.terminal, "2")
		_, err := r.Remove(ctx, db, t.TempDir(), true)
		if !strings.Contains(saysOf(err), c.says) || !slices.Equal(*told, []string{"remove from " + db.Path() + ": runs 1, sweeps 0, directories of jobs' output 0?"}) {
			t.Errorf("%+v: %v, asked %q", c, err, *told)
		}
		if runs, err := db.Runs(ctx, store.Filter{}); err != nil || (len(runs) == 1) != c.yes {
			t.Errorf("%+v: %v, %d runs are left", c, err, len(runs))
		}
	}
}
