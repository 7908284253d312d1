package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

func somePlan() (results.Sweep, []results.Cell) {
	sweep := results.Sweep{Name: "main", Tag: "nightly", Spec: `{"reps":2}`, Node: "local", Mode: results.Live, Seed: 1<<64 - 1,
		Repetitions: 2, CreatedAt: ptr(time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC))}
	var plan []results.Cell
	for i := range 3 {
		plan = append(plan, results.Cell{Position: i, Mix: "W7", MixSource: "catalog", Scheduler: "cg:workers=8", Probe: results.Probe(i),
			Repetition: max(i, 1), Warmup: i == 0, Seed: 1<<64 - 1 - uint64(i)})
	}
	return sweep, plan
}

// planned stores a sweep and its plan, and returns them as a reader must see them.
func planned(t testing.TB, s *Store) (results.Sweep, []results.Cell) {
	t.Helper()
	sweep, plan := somePlan()
	id, err := s.CreateSweep(context.Background(), sweep, plan)
	if err != nil {
		t.Fatal(err)
	}
	sweep.ID, sweep.Status = id, results.Planned
	for i := range plan {
		plan[i].Sweep = id
	}
	return sweep, plan
}

// beginCell begins a run for a cell and returns the run as a reader must see it.
func beginCell(t testing.TB, s *Store, cell results.Cell) results.Run {
	t.Helper()
	run, found := fullRun()
	run.Tag = "nightly"
	id, err := s.BeginCell(context.Background(), cell, 0, run, found)
	if err != nil {
		t.Fatal(err)
	}
	run.ID, run.Sweep, run.Warmup, run.Repetition, run.Seed = id, &cell.Sweep, cell.Warmup, cell.Repetition, cell.Seed
	return run
}

func TestPlanSurvivesTheStore(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	planned(t, s)
	sweep, plan := planned(t, s)
	got, err := s.Sweep(ctx, sweep.ID)
	if diff := cmp.Diff(sweep, got); err != nil || diff != "" {
		t.Errorf("sweep (-written +read): %v\n%s", err, diff)
	}
	cells, err := s.Cells(ctx, sweep.ID)
	if diff := cmp.Diff(plan, cells); err != nil || diff != "" {
		t.Errorf("cells (-written +read): %v\n%s", err, diff)
	}
	if latest, err := s.LatestSweep(ctx); err != nil || latest.ID != 2 {
		t.Errorf("the latest sweep is %d (%v), want 2", latest.ID, err)
	}
	if all, err := s.Sweeps(ctx); err != nil || len(all) != 2 || all[0].ID != 1 {
		t.Errorf("%d sweeps (%v), want 2, the oldest first", len(all), err)
	}
	if _, err := s.Sweep(ctx, 9); !errors.Is(err, ErrNoSweep) {
		t.Errorf("sweep 9: got error %v, want ErrNoSweep", err)
	}
}

// A plan that cannot be stored as a whole is not stored at all.
func TestNoHalfPlan(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	sweep, plan := somePlan()
	plan[2].Position = 1
	if _, err := s.CreateSweep(ctx, sweep, plan); err == nil {
		t.Error("two cells took one place")
	}
	if all, err := s.Sweeps(ctx); err != nil || len(all) != 0 {
		t.Errorf("%d sweeps (%v), want none", len(all), err)
	}
}

func TestRunsOfCells(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	other, found := fullRun()
	record(t, s, other, rows{Devices: found})
	sweep, plan := planned(t, s)
	var want []results.Run
	for _, c := range plan {
		run := beginCell(t, s, c)
		if err := s.Writer(run.ID).Finish(ctx, run); err != nil {
			t.Fatal(err)
		}
		want = append(want, run)
	}
	got, err := s.Runs(ctx, Filter{Sweep: sweep.ID, Warmups: true})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("runs (-written +read): %v\n%s", err, diff)
	}
	for _, c := range []struct {
		filter Filter
		want   []int64
	}{
		{Filter{}, []int64{1, 3, 4}},
		{Filter{Sweep: sweep.ID}, []int64{3, 4}},
		{Filter{Sweep: sweep.ID + 1}, nil},
		{Filter{Tag: "nightly", Last: 1}, []int64{4}},
		{Filter{Tag: "nightly", Warmups: true}, []int64{2, 3, 4}},
	} {
		found, err := s.Runs(ctx, c.filter)
		var got []int64
		for _, r := range found {
			got = append(got, r.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v selects %v (%v), want %v", c.filter, got, err, c.want)
		}
	}
	if run, err := s.Run(ctx, 2); err != nil || !run.Warmup {
		t.Errorf("run 2 by its number: %v, want the warm-up", err)
	}
	cells, err := s.Cells(ctx, sweep.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cells {
		if c.Run == nil || *c.Run != want[i].ID {
			t.Errorf("cell %d has another run than %d", i, want[i].ID)
		}
	}
}

// A cell takes a new run only from a process that has read the cell's current run.
func TestACellIsRunByOneProcess(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	sweep, plan := planned(t, s)
	first := beginCell(t, s, plan[0])
	if got, err := s.Run(ctx, first.ID); err != nil || got.Sweep == nil || *got.Sweep != sweep.ID || !got.Warmup ||
		got.Repetition != plan[0].Repetition || got.Seed != plan[0].Seed {
		t.Errorf("a run that began for a cell is %+v (%v), want it to be the cell's", got, err)
	}
	run, found := fullRun()
	if _, err := s.BeginCell(ctx, plan[0], 0, run, found); !errors.Is(err, ErrBusy) {
		t.Errorf("the cell was given away twice: %v", err)
	}
	if all, err := s.Runs(ctx, Filter{Warmups: true}); err != nil || len(all) != 1 {
		t.Errorf("%d runs (%v): the refused one must leave nothing", len(all), err)
	}
	again := plan[0]
	again.Run = &first.ID
	second := beginCell(t, s, again)
	if cells, err := s.Cells(ctx, sweep.ID); err != nil || *cells[0].Run != second.ID {
		t.Errorf("the cell has not the run that began last: %v", err)
	}
}

func TestASweepIsRunByOneProcess(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	sweep, _ := planned(t, s)
	check := func(status results.Status, host string, pid *int, note string) {
		t.Helper()
		sweep.Status, sweep.Host, sweep.PID, sweep.Note = status, host, pid, note
		got, err := s.Sweep(ctx, sweep.ID)
		if diff := cmp.Diff(sweep, got); err != nil || diff != "" {
			t.Errorf("sweep (-want +got): %v\n%s", err, diff)
		}
	}
	for i, step := range []struct {
		do   func() error
		fail error
		then func()
	}{
		{func() error { return s.ClaimSweep(ctx, sweep.ID, "node1", 7, "") }, nil,
			func() { check(results.Running, "node1", ptr(7), "") }},
		{func() error { return s.ClaimSweep(ctx, sweep.ID, "node2", 8, "x") }, ErrBusy,
			func() { check(results.Running, "node1", ptr(7), "") }},
		{func() error { return s.EndSweep(ctx, sweep.ID, "node1", 7, results.Interrupted) }, nil,
			func() { check(results.Interrupted, "", nil, "") }},
		{func() error { return s.ClaimSweep(ctx, sweep.ID, "node2", 8, "a") }, nil,
			func() { check(results.Running, "node2", ptr(8), "a") }},
		{func() error { return s.EndSweep(ctx, sweep.ID, "node2", 8, results.Interrupted) }, nil, func() {}},
		{func() error { return s.ClaimSweep(ctx, sweep.ID, "node2", 8, "b") }, nil,
			func() { check(results.Running, "node2", ptr(8), "a; b") }},
		{func() error { return s.EndSweep(ctx, sweep.ID, "node2", 7, results.Complete) }, ErrBusy,
			func() { check(results.Running, "node2", ptr(8), "a; b") }},
		{func() error { return s.EndSweep(ctx, sweep.ID, "node1", 8, results.Complete) }, ErrBusy,
			func() { check(results.Running, "node2", ptr(8), "a; b") }},
		{func() error { return s.EndSweep(ctx, sweep.ID, "node2", 8, results.Complete) }, nil,
			func() { check(results.Complete, "", nil, "a; b") }},
		{func() error { return s.EndSweep(ctx, sweep.ID, "node2", 8, results.Interrupted) }, ErrBusy,
			func() { check(results.Complete, "", nil, "a; b") }},
		{func() error { return s.EndSweep(ctx, 9, "node2", 8, results.Complete) }, ErrNoSweep, func() {}},
		{func() error { return s.ClaimSweep(ctx, 9, "node2", 8, "") }, ErrNoSweep, func() {}},
	} {
		if err := step.do(); !errors.Is(err, step.fail) {
			t.Errorf("step %d: got error %v, want %v", i, err, step.fail)
		}
		step.then()
	}
}

// After another process took a sweep over, only its runs count: one complete run for each
// cell, whatever the first process had under way.
func TestASweepThatIsTakenOver(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	sweep, plan := planned(t, s)
	about, found := fullRun()
	about.Sweep = &sweep.ID
	begin := func(pid int, cell results.Cell) (int64, error) {
		run := about
		run.Provenance.PID = &pid
		return s.BeginCell(ctx, cell, 0, run, found)
	}
	must := func(id int64, err error) int64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	finish := func(id int64) error { return s.Writer(id).Finish(ctx, about) }
	status := func(id int64, want results.Status) {
		t.Helper()
		if run, err := s.Run(ctx, id); err != nil || run.Status != want {
			t.Errorf("run %d is %s (%v), want %s", id, run.Status, err, want)
		}
	}
	must(0, s.ClaimSweep(ctx, sweep.ID, "node1", 7, ""))
	closed, open := must(begin(7, plan[0])), must(begin(7, plan[1]))
	run := about // as --force closes it
	run.Status = results.Interrupted
	must(0, s.Writer(closed).Finish(ctx, run))
	if err := finish(closed); !errors.Is(err, ErrBusy) {
		t.Errorf("a run that another process had closed was finished: %v", err)
	}
	status(closed, results.Interrupted)
	must(0, s.EndSweep(ctx, sweep.ID, "node1", 7, results.Interrupted))
	if err := finish(closed); !errors.Is(err, ErrBusy) {
		t.Errorf("a run of a sweep that another process had ended was finished: %v", err)
	}
	status(closed, results.Interrupted)
	must(0, s.ClaimSweep(ctx, sweep.ID, "node1", 8, ""))
	again := plan[0]
	again.Run = &closed
	second := must(begin(8, again))

	by := HeldError{Sweep: sweep.ID, Host: "node1", PID: 8}
	if err := finish(open); !errors.Is(err, by) {
		t.Errorf("the first process finished a run: %v, want %v", err, by)
	}
	status(open, results.Interrupted)
	if id, err := begin(7, plan[2]); !errors.Is(err, by) {
		t.Errorf("the first process began run %d (%v), want %v", id, err, by)
	}
	if all, err := s.Runs(ctx, Filter{Warmups: true}); err != nil || len(all) != 3 {
		t.Errorf("%d runs (%v), want 3", len(all), err)
	}
	must(0, finish(second))
	status(second, results.Complete)
	must(0, s.Writer(second).Finish(ctx, run)) // as a run whose process ended meanwhile
	status(second, results.Complete)
}

// A cell that got another run counts the new run.
func TestARunThatLostItsCell(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	_, plan := planned(t, s)
	first := beginCell(t, s, plan[0])
	again := plan[0]
	again.Run = &first.ID
	second := beginCell(t, s, again)
	if err := s.Writer(first.ID).Finish(ctx, first); !errors.Is(err, ErrBusy) {
		t.Errorf("finished with %v, want ErrBusy", err)
	}
	if err := s.Writer(second.ID).Finish(ctx, second); err != nil {
		t.Error(err)
	}
	if complete, err := s.Runs(ctx, Filter{Warmups: true, Status: results.Complete}); err != nil || len(complete) != 1 || complete[0].ID != second.ID {
		t.Errorf("%d complete runs (%v), want run %d alone", len(complete), err, second.ID)
	}
}

func TestDeletingASweepKeepsItsRuns(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	sweep, plan := planned(t, s)
	run := beginCell(t, s, plan[1])
	gone := beginCell(t, s, plan[2])
	if _, err := s.write.Exec("DELETE FROM run WHERE id = ?", gone.ID); err != nil {
		t.Fatal(err)
	}
	if cells, err := s.Cells(ctx, sweep.ID); err != nil || cells[2].Run != nil {
		t.Errorf("a cell still names a run that is gone: %v", err)
	}
	if _, err := s.write.Exec("DELETE FROM sweep"); err != nil {
		t.Fatal(err)
	}
	if cells, err := s.Cells(ctx, sweep.ID); err != nil || len(cells) != 0 {
		t.Errorf("%d cells outlive their sweep (%v)", len(cells), err)
	}
	if got, err := s.Run(ctx, run.ID); err != nil || got.Sweep != nil {
		t.Errorf("the run of a deleted sweep: %+v (%v)", got.Sweep, err)
	}
}

// The selected runs decide which rows of the tables sweep and cell are read.
func TestRowsOfSweeps(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	planned(t, s)
	sweep, plan := planned(t, s)
	beginCell(t, s, plan[1])
	tables, err := s.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		filter        Filter
		sweeps, cells int
	}{{Filter{}, 2, 6}, {Filter{Sweep: sweep.ID}, 1, 3}, {Filter{Tag: "none"}, 0, 0}} {
		got := map[string]int{}
		for _, table := range tables {
			if err := s.Rows(ctx, table, c.filter, func([]any) error { got[table.Name]++; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if got["sweep"] != c.sweeps || got["cell"] != c.cells {
			t.Errorf("%+v: rows %v, want %d sweeps and %d cells", c.filter, got, c.sweeps, c.cells)
		}
	}
}

// A copy that lacks runs of a sweep says so, and marks the sweep as not complete.
func TestCopyOfAPartOfASweep(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	for i := range int64(2) {
		sweep, plan := planned(t, s)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(s.ClaimSweep(ctx, sweep.ID, "node1", 7, []string{"", "resumed"}[i]))
		for _, c := range plan {
			run, found := fullRun()
			run.Provenance.PID = ptr(7)
			id, err := s.BeginCell(ctx, c, 0, run, found)
			must(err)
			run.Sweep, run.Warmup = &sweep.ID, c.Warmup
			must(s.Writer(id).Finish(ctx, run))
		}
		must(s.EndSweep(ctx, sweep.ID, "node1", 7, results.Complete))
	}
	const note = "%d of its 3 runs were left out of this copy"
	for name, c := range map[string]struct {
		filter Filter
		status []results.Status
		notes  []string
	}{
		"all":               {Filter{Warmups: true}, []results.Status{results.Complete, results.Complete}, []string{"", "resumed"}},
		"without a warm-up": {Filter{Sweep: 1}, []results.Status{results.Interrupted}, []string{fmt.Sprintf(note, 1)}},
		"a sweep":           {Filter{Sweep: 2, Warmups: true}, []results.Status{results.Complete}, []string{"resumed"}},
		"a run of each": {Filter{IDs: []int64{2, 6}}, []results.Status{results.Interrupted, results.Interrupted},
			[]string{fmt.Sprintf(note, 2), "resumed; " + fmt.Sprintf(note, 2)}},
	} {
		path := filepath.Join(t.TempDir(), "copy.db")
		if err := s.CopyRuns(ctx, path, c.filter); err != nil {
			t.Fatal(err)
		}
		copied, err := OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
		found, err := copied.Sweeps(ctx)
		var status []results.Status
		var notes []string
		for _, w := range found {
			status, notes = append(status, w.Status), append(notes, w.Note)
		}
		if err != nil || !slices.Equal(status, c.status) || !slices.Equal(notes, c.notes) {
			t.Errorf("%s: sweeps are %v with notes %q (%v), want %v with %q", name, status, notes, err, c.status, c.notes)
		}
	}
	if w, err := s.Sweep(ctx, 1); err != nil || w.Status != results.Complete || w.Note != "" {
		t.Errorf("the sweep that was copied is %+v (%v)", w, err)
	}
}
