package store

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

var update = flag.Bool("update", false, "write "+schemaFile)

const schemaFile = "schema.sql"

// A new store has the tables that the migrations make, and no rows.
func TestSchema(t *testing.T) {
	migrated := dumpSchema(t, migratedTo(t, filepath.Join(t.TempDir(), "migrated.db"), 0))
	if *update {
		if err := os.WriteFile(schemaFile, []byte(migrated), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(migrated, schema); diff != "" {
		t.Errorf("the migrations make other tables than %s has (-update writes it):\n%s", schemaFile, diff)
	}
	if diff := cmp.Diff(schema, dumpSchema(t, openTemp(t).write)); diff != "" {
		t.Errorf("a new store is not as %s (-want +got):\n%s", schemaFile, diff)
	}
}

// dumpSchema is the SQL that makes the tables of a store without rows.
func dumpSchema(t *testing.T, db *sql.DB) string {
	t.Helper()
	made, err := texts(t.Context(), db, "SELECT sql FROM sqlite_schema WHERE sql <> '' AND name <> 'sqlite_sequence' ORDER BY rowid")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := texts(t.Context(), db, "SELECT name FROM sqlite_sequence")
	if err != nil || !slices.Equal(filled, []string{versionTable}) {
		t.Fatalf("%v (%v) have rows", filled, err)
	}
	versions, err := texts(t.Context(), db, "SELECT group_concat(printf('(%d, %d)', version_id, is_applied), ', ') FROM (SELECT * FROM "+versionTable+" ORDER BY id)")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("-- Written by TestSchema from the migrations: go test ./results/store -run TestSchema -update\nPRAGMA application_id = %d;\n%s;\nINSERT INTO %s (version_id, is_applied) VALUES %s;\n",
		applicationID, strings.Join(made, ";\n"), versionTable, versions[0])
}

// migratedTo makes an empty store by migrations up to a version; 0: all.
func migratedTo(t *testing.T, path string, version int64) *sql.DB {
	t.Helper()
	db := connect(path, "_txlock=immediate", 1)
	t.Cleanup(func() { _ = db.Close() })
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations(),
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if version == 0 {
		_, err = provider.Up(t.Context())
	} else {
		_, err = provider.UpTo(t.Context(), version)
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// storeOf makes a store of schema version `version` that holds run 1 of the mix "old" and what
// sql inserts.
func storeOf(t *testing.T, version int64, sql string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "old.db")
	db := migratedTo(t, path, version)
	if _, err := db.Exec(`INSERT INTO run (mix, mix_source, scheduler, parameters, node, mode, suite, repetition, seed, workers,
			status, jobs, version, revision, configuration, host, kernel, cpu, cores, memory_bytes, binaries)
		VALUES ('old', '', 's', '', 'n', 'sim', '', 0, '1', 0, 'complete', 1, '', '', '', '', '', '', 1, 1, '');` + sql); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Kernels that an earlier version stored are still there.
func TestMigrationKeepsKernels(t *testing.T) {
	ctx := context.Background()
	path := storeOf(t, 2, `INSERT INTO device VALUES (1, 0, 'u', 'd', 1, 0, 1, 0, 1, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
		INSERT INTO job (run_id, job_index, name, command, class, detail, stderr_tail) VALUES (1, 0, 'j', 'j', '', '', '');
		INSERT INTO kernel VALUES (1, 0, 0, 0, 0, 'all', '', '', 1, 3, 1.5), (1, 0, 1, 0, 0, 'k', '1,1,1', '2,1,1', 4, 5, 1),
			(1, 0, 2, 0, 0, 'all', '', '', 6, 7, 1);`)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Kernels(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []results.Kernel{
		{Task: ptr(0), Name: "all", StartS: 1, EndS: 3, BusyS: 1.5},
		{Task: ptr(0), Name: "k", Grid: "1,1,1", Block: "2,1,1", StartS: 4, EndS: 5, BusyS: 1},
		{Task: ptr(0), Name: "all", StartS: 6, EndS: 7, BusyS: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if run, err := s.Run(ctx, 1); err != nil || run.Probe != results.Lazy {
		t.Errorf("an earlier run has probe %s (%v)", run.Probe, err)
	}
	if run, err := s.Run(ctx, 1); err != nil || run.Traced || run.Tracer != (results.Tracer{}) {
		t.Errorf("an earlier run is traced: %+v (%v)", run, err)
	}
}

// Utilization that an earlier version stored is still there, and is read together with new
// utilization.
func TestMigrationKeepsUtilization(t *testing.T) {
	ctx := context.Background()
	path := storeOf(t, 4, `INSERT INTO device VALUES (1, 0, 'u', 'd', 1, 0, 1, 0, 1, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
		INSERT INTO utilization VALUES (1, 0, 'gpu', 0.1234567891, 0.2, 3, 0.5), (1, 0, 'gpu', 0.3, 0.4, 2, NULL);`)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := []results.Segment{{Series: results.SeriesGPU, FirstS: 0.1234567891, LastS: 0.2, Samples: 3, Value: ptr(0.5)},
		{Series: results.SeriesGPU, FirstS: 0.3, LastS: 0.4, Samples: 2}}
	w := s.Writer(1)
	for i := range packAfter + 1 {
		x := results.Segment{Series: results.SeriesGPU, FirstS: float64(i + 1), LastS: float64(i + 1), Samples: 1, Value: ptr(1.0)}
		w.Segment(x)
		want = append(want, x)
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := s.Segments(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Segments (-want +got):\n%.2000s", diff)
	}
	if diff := cmp.Diff(want, view(t, s, 1)); diff != "" {
		t.Errorf("view (-want +got):\n%.2000s", diff)
	}
}

// Jobs of an earlier version arrived with the batch.
func TestMigrationKeepsTurnarounds(t *testing.T) {
	path := storeOf(t, 5, `INSERT INTO job (run_id, job_index, name, command, class, start_s, end_s, detail, stderr_tail)
		VALUES (1, 0, 'a', 'a', '', 2, 5, '', ''), (1, 1, 'b', 'b', '', NULL, NULL, '', '')`)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.Writer(1)
	w.Job(results.Job{Index: 2, ArrivalS: ptr(5.0), EndS: ptr(7.5)})
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(t.Context(), 1)
	if err != nil || len(jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for i, want := range []*float64{ptr(5.0), nil, ptr(2.5)} {
		var stored *float64
		if err := s.read.QueryRow(`SELECT turnaround_s FROM job WHERE job_index = ?`, i).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(stored, want) || !cmp.Equal(jobs[i].TurnaroundS(), want) {
			t.Errorf("job %d: stored %v, computed %v, want %v", i, stored, jobs[i].TurnaroundS(), want)
		}
	}
}

// A reader need not open a store of an earlier version for writing first.
func TestOpenUpdated(t *testing.T) {
	ctx := context.Background()
	path := storeOf(t, 1, "")
	if _, err := OpenReadOnly(path); !errors.Is(err, errOlder) {
		t.Errorf("OpenReadOnly: %v, want errOlder", err)
	}
	s, err := OpenUpdated(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if run, err := s.Run(ctx, 1); err != nil || run.Mix != "old" {
		t.Errorf("run %+v, %v", run, err)
	}
}

// Outcomes that an earlier version stored are still there, beside this version's.
func TestMigrationKeepsOutcomes(t *testing.T) {
	ctx := context.Background()
	path := storeOf(t, 5, `UPDATE run SET jobs_cancelled = 1, jobs = 3;
		INSERT INTO job (run_id, job_index, name, command, class, outcome, detail, stderr_tail)
			VALUES (1, 0, 'a', 'a', '', 'ok', '', ''), (1, 1, 'b', 'b', '', 'cancelled', '', ''), (1, 2, 'c', 'c', '', NULL, '', '');
		INSERT INTO task (run_id, job_index, task_seq, bytes, heap_bytes, grown_bytes, blocks, threads_per_block, submit_s, passed)
			VALUES (1, 0, 0, 5, 0, 0, 1, 1, 0, 0);`)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.Writer(1)
	w.Job(results.Job{Index: 2, Name: "c", Outcome: ptr(results.NotStarted)})
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []results.Outcome
	for _, j := range jobs {
		got = append(got, *j.Outcome)
	}
	if diff := cmp.Diff([]results.Outcome{results.OK, results.Cancelled, results.NotStarted}, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if found, err := s.Tasks(ctx, 1); err != nil || len(found) != 1 {
		t.Errorf("tasks of the earlier run: %+v (%v)", found, err)
	}
	if run, err := s.Run(ctx, 1); err != nil || run.Metrics.Cancelled != 1 || run.Metrics.NotStarted != 0 {
		t.Errorf("metrics %+v (%v)", run.Metrics, err)
	}
}

// Outcomes of the version before are still there, and each outcome can be stored.
func TestMigrationAddsOutcomes(t *testing.T) {
	ctx := context.Background()
	path := storeOf(t, 14, fmt.Sprintf(`UPDATE run SET jobs = %d;
		INSERT INTO job (run_id, job_index, name, command, class, outcome, detail, stderr_tail)
			VALUES (1, %[1]d, 'a', 'a', '', 'fault-suspect', '', '')`, len(results.Outcomes)))
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.Writer(1)
	for i, o := range results.Outcomes {
		w.Job(results.Job{Index: i, Name: "j", Outcome: &o})
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []results.Outcome
	for _, j := range jobs {
		got = append(got, *j.Outcome)
	}
	if diff := cmp.Diff(append(slices.Clone(results.Outcomes), results.FaultSuspect), got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// A run of an earlier version moved no memory. Its tasks can have swaps.
func TestMigrationAddsSwaps(t *testing.T) {
	path := storeOf(t, 10, `INSERT INTO device (run_id, device_index, uuid, name, memory_bytes, used_at_start_bytes, capacity_bytes, context_bytes, sms, warps_per_sm, blocks_per_sm)
			VALUES (1, 0, 'u', 'd', 1, 0, 1, 0, 1, 1, 1);
		INSERT INTO job (run_id, job_index, name, command, class, detail, stderr_tail) VALUES (1, 0, 'j', 'j', '', '', '');
		INSERT INTO task (run_id, job_index, task_seq, bytes, heap_bytes, grown_bytes, blocks, threads_per_block, submit_s, passed)
			VALUES (1, 0, 0, 5, 0, 0, 1, 1, 0, 0);`)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Swaps(t.Context(), 1); err != nil || len(got) != 0 {
		t.Errorf("swaps of an earlier run: %+v (%v)", got, err)
	}
	if run, err := s.Run(t.Context(), 1); err != nil || run.Metrics.Swapping != (results.Swapping{}) {
		t.Errorf("swapping of an earlier run: %+v (%v)", run.Metrics.Swapping, err)
	}
	want := results.Swap{Direction: schedulers.In, Outcome: schedulers.Done, StartS: 1, EndS: 2, Bytes: 5}
	w := s.Writer(1)
	w.Swap(want)
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Swaps(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]results.Swap{want}, got); diff != "" {
		t.Errorf("swaps (-written +read):\n%s", diff)
	}
}
