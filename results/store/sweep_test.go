package store

import (
	"context"
	"errors"
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
		plan = append(plan, results.Cell{Position: i, Mix: "W7", MixSource: "catalog", Scheduler: "cg:workers=8",
			Repetition: max(i, 1), Warmup: i == 0, Seed: 1<<64 - 1 - uint64(i)})
	}
	return sweep, plan
}

// planned stores a sweep and its plan, and returns them as they are to be read.
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

// beginCell begins a run for a cell and returns the run as it is to be read.
func beginCell(t testing.TB, s *Store, cell results.Cell) results.Run {
	t.Helper()
	run, found := fullRun()
	run.Tag = "nightly"
	id, err := s.BeginCell(context.Background(), cell, run, found)
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

// A plan that cannot be stored whole is not stored.
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

// A cell takes a new run only from who has seen the one that it has.
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
	if _, err := s.BeginCell(ctx, plan[0], run, found); !errors.Is(err, ErrBusy) {
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
		{func() error { return s.ReleaseSweep(ctx, sweep.ID, results.Interrupted) }, nil,
			func() { check(results.Interrupted, "", nil, "") }},
		{func() error { return s.ClaimSweep(ctx, sweep.ID, "node2", 8, "a") }, nil,
			func() { check(results.Running, "node2", ptr(8), "a") }},
		{func() error { return s.ReleaseSweep(ctx, sweep.ID, results.Interrupted) }, nil, func() {}},
		{func() error { return s.ClaimSweep(ctx, sweep.ID, "node2", 8, "b") }, nil,
			func() { check(results.Running, "node2", ptr(8), "a; b") }},
		{func() error { return s.ReleaseSweep(ctx, 9, results.Complete) }, ErrNoSweep, func() {}},
	} {
		if err := step.do(); !errors.Is(err, step.fail) {
			t.Errorf("step %d: got error %v, want %v", i, err, step.fail)
		}
		step.then()
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

// Rows of the tables sweep and cell follow the runs that are selected.
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
