package store

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

// uids are the uids of a table's rows in the order of their ids.
func uids(t testing.TB, s *Store, table string) []string {
	t.Helper()
	out, err := texts(context.Background(), s.read, "SELECT uid FROM "+table+" ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	for i, uid := range out {
		if !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(uid) || slices.Contains(out[:i], uid) {
			t.Errorf("%s: uid %q is not 128 bits, or not the only one", table, uid)
		}
	}
	return out
}

// simulatedPlan stores a simulated sweep and returns its cells.
func simulatedPlan(t testing.TB, s *Store) []results.Cell {
	t.Helper()
	sweep, plan := somePlan()
	sweep.Mode, sweep.CreatedAt = results.Simulated, nil
	id, err := s.CreateSweep(context.Background(), sweep, plan)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan {
		plan[i].Sweep = id
	}
	return plan
}

// attempt makes a run of a cell by a process, and ends it.
func attempt(t testing.TB, s *Store, c *results.Cell, restart, pid int, status results.Status) {
	t.Helper()
	run, found := fullRun()
	run.Mode, run.StartedAt, run.Provenance.PID = results.Simulated, nil, &pid
	id, err := s.BeginCell(context.Background(), *c, restart, run, found)
	if err != nil {
		t.Fatal(err)
	}
	c.Run = &id
	run.Sweep, run.Warmup, run.Repetition, run.Seed = &c.Sweep, c.Warmup, c.Repetition, c.Seed
	run.Status = status
	if err := s.Writer(id).Finish(context.Background(), run); err != nil {
		t.Fatal(err)
	}
}

// The same simulated sweep has the same uids in each store, however often its runs were tried.
// What was only begun has other uids in each.
func TestUIDsOfSimulatedSweeps(t *testing.T) {
	a, b := openTemp(t), openTemp(t)
	inA, inB := simulatedPlan(t, a), simulatedPlan(t, b)
	if diff := cmp.Diff(uids(t, a, "sweep"), uids(t, b, "sweep")); diff != "" {
		t.Errorf("sweeps:\n%s", diff)
	}
	attempt(t, a, &inA[0], 0, 1, results.Complete)
	attempt(t, b, &inB[0], 0, 1, results.Interrupted)
	attempt(t, b, &inB[0], 0, 1, results.Interrupted)
	attempt(t, b, &inB[0], 1, 1, results.Interrupted)
	attempt(t, b, &inB[0], 1, 2, results.Complete)
	ofA, ofB := uids(t, a, "run"), uids(t, b, "run")
	if ofA[0] != ofB[3] || slices.Contains(ofB[:3], ofA[0]) {
		t.Errorf("runs of one cell are %v and %v: want the complete ones to be equal, and no others", ofA, ofB)
	}
	if again := simulatedPlan(t, a); again[0].Sweep != 2 {
		t.Fatal("the same plan is not a sweep of its own")
	}
	if got := uids(t, a, "sweep"); got[0] == got[1] {
		t.Error("two sweeps of one store have one uid")
	}
}

// A restarted job that begins from an old copy of its store makes no run that another run is
// called like.
func TestUIDHasTheRestarts(t *testing.T) {
	var seen []string
	for restart := range 2 {
		s := openTemp(t)
		c := simulatedPlan(t, s)[1]
		attempt(t, s, &c, restart, 7, results.Interrupted)
		seen = append(seen, uids(t, s, "run")...)
	}
	if seen[0] == seen[1] {
		t.Error("the runs of a job and of its restart have one uid")
	}
}

// Live sweeps and runs that are asked for twice are different ones, in one store and in two.
func TestUIDsOfLiveRuns(t *testing.T) {
	var runsSeen []string
	for range 2 {
		s := openTemp(t)
		run, found := fullRun()
		record(t, s, run, rows{Devices: found})
		record(t, s, run, rows{Devices: found})
		for _, uid := range uids(t, s, "run") {
			if slices.Contains(runsSeen, uid) {
				t.Error("two live runs have one uid")
			}
			runsSeen = append(runsSeen, uid)
		}
	}
}

// Simulated runs outside of sweeps depend on what was done, and on nothing else.
func TestUIDsOfSimulatedRuns(t *testing.T) {
	var seen [][]string
	for pid := range 2 {
		s := openTemp(t)
		run, found := fullRun()
		run.Mode, run.StartedAt, run.Provenance.PID = results.Simulated, nil, ptr(pid+1)
		record(t, s, run, rows{Devices: found})
		record(t, s, run, rows{Devices: found})
		seen = append(seen, uids(t, s, "run"))
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("two stores of the same runs:\n%s", diff)
	}
}

// Runs and sweeps of earlier versions get uids: the same ones in each copy of the store, and in a
// simulated sweep the uids that this version gives. Each run finds its cell.
func TestMigrationGivesUIDs(t *testing.T) {
	const old = `INSERT INTO sweep (spec, node, mode, seed, repetitions, status) VALUES ('{}', 'sim:1xV100', 'sim', '1', 1, 'interrupted');
		INSERT INTO cell (sweep_id, position, mix, mix_source, scheduler, repetition, warmup, seed) VALUES
			(1, 0, 'W1', 'catalog', 'sa', 1, 0, '11'), (1, 1, 'W1', 'catalog', 'cg', 1, 0, '12');
		INSERT INTO run (mix, mix_source, scheduler, parameters, node, mode, suite, repetition, seed, workers, status, jobs, version, revision,
				configuration, host, pid, kernel, cpu, cores, memory_bytes, binaries, sweep_id) VALUES
			('W1', '', 'cg', '', 'n', 'sim', '', 1, '12', 0, 'interrupted', 1, '', '', '', '', 5, '', '', 1, 1, '', 1),
			('W1', '', 'cg', '', 'n', 'sim', '', 1, '12', 0, 'complete', 1, '', '', '', '', NULL, '', '', 1, 1, '', 1);
		UPDATE cell SET run_id = 3 WHERE position = 1;`
	var seen [][]string
	for range 2 {
		s, err := Open(storeOf(t, 13, old))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sweep, ofRuns := uids(t, s, "sweep"), uids(t, s, "run")
		if want, err := newUID("run", sweep[0], 1); err != nil || ofRuns[2] != want {
			t.Errorf("the complete run of a cell has uid %s, want %s (%v)", ofRuns[2], want, err)
		}
		seen = append(seen, append(sweep, ofRuns...))
		at, err := collect(t.Context(), s, "read positions", "SELECT cell_position FROM run ORDER BY id", nil,
			func(p *sql.Null[int]) []any { return []any{p} })
		if want := []sql.Null[int]{{}, {V: 1, Valid: true}, {V: 1, Valid: true}}; err != nil || !slices.Equal(at, want) {
			t.Errorf("positions %v (%v), want %v", at, err, want)
		}
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("two copies of an old store:\n%s", diff)
	}
}
