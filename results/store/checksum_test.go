package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

// change changes the values of a column of a run's rows, whatever their type, and nothing but them.
func change(t *testing.T, s *Store, table, column string) (undo func()) {
	t.Helper()
	conn, err := s.write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do := func(statement string) {
		t.Helper()
		if err := execute(t.Context(), conn, "PRAGMA ignore_check_constraints = ON", "PRAGMA foreign_keys = OFF", statement,
			"PRAGMA foreign_keys = ON", "PRAGMA ignore_check_constraints = OFF"); err != nil {
			t.Fatalf("%s.%s: %v", table, column, err)
		}
	}
	do(fmt.Sprintf("CREATE TEMP TABLE was AS SELECT * FROM %s", table))
	do(fmt.Sprintf("UPDATE %s SET %[2]s = CASE typeof(%[2]s) WHEN 'text' THEN %[2]s || '1' WHEN 'null' THEN 1 ELSE %[2]s + 1 END", table, column))
	return func() {
		conn, err := s.write.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		key := "was.id = run.id"
		if table == jobs.table {
			key = "was.run_id = job.run_id AND was.job_index = job.job_index"
		}
		if err := execute(t.Context(), conn, "PRAGMA foreign_keys = OFF", fmt.Sprintf("UPDATE %s SET %[2]s = was.%[2]s FROM was WHERE %s", table, column, key),
			"DROP TABLE was", "PRAGMA foreign_keys = ON"); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever changes in the row of a complete run or in its jobs' is noticed, except what may change.
func TestChangedRunsAreNoticed(t *testing.T) {
	ctx := t.Context()
	s := openTemp(t)
	run, found := fullRun()
	record(t, s, run, fullRows(found))
	check := func() error { return s.Verify(ctx, Filter{Warmups: true}) }
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for table, columns := range map[string][]string{runs.table: runs.columns, jobs.table: jobs.columns} {
		for _, column := range columns {
			undo := change(t, s, table, column)
			free := table == runs.table && slices.Contains(unchecked, column)
			if err := check(); free && err != nil || !free && !errors.Is(err, errDamaged) {
				t.Errorf("changed %s.%s: %v", table, column, err)
			}
			undo()
			if err := check(); err != nil {
				t.Fatalf("unchanged %s.%s: %v", table, column, err)
			}
		}
	}
	for _, statement := range []string{
		"DELETE FROM copy", "DELETE FROM _segment", "DELETE FROM _launch", "DELETE FROM event", // as benchmarks/trim.py and users do
		"ALTER TABLE run ADD COLUMN later TEXT NOT NULL DEFAULT 'x'", // as a later migration does
	} {
		if _, err := s.write.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(); err != nil {
		t.Errorf("what a copy may lack: %v", err)
	}
	if _, err := s.write.Exec("DELETE FROM job WHERE job_index = 2"); err != nil {
		t.Fatal(err)
	}
	want := "store " + s.Path() + ": check: run 1: its rows are not those that were stored"
	if _, err := s.Runs(ctx, Filter{}); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "DELETE FROM run WHERE id = 1") {
		t.Errorf("%v, want %s and a remedy", err, want)
	}
	if _, err := s.Runs(ctx, Filter{IDs: []int64{2}}); err != nil {
		t.Errorf("another run: %v", err)
	}
	if err := s.CopyRuns(ctx, filepath.Join(t.TempDir(), "copy.db"), Filter{}); !errors.Is(err, errDamaged) {
		t.Errorf("a copy: %v", err)
	}
}

// What takes a run out of a selection takes it not out of the check.
func TestHiddenRunsAreNoticed(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "a.db")
	p := newPart(t, path, true, 2)
	for position := range 2 {
		p.run(position, results.Complete, 0, position, 0)
	}
	p.run(1, results.Complete, 0, 2, 0) // again: the one before is a duplicate
	p.close()
	whole := bytesOf(t, path)
	filters := map[string]Filter{"all": {}, "sweep": {Sweep: 1}, "last": {Last: 1}, "others": {Mix: "none", Scheduler: "none", Node: "none", Suite: "none", GPUs: []string{"none"},
		Status: results.Interrupted, Undoubted: true, Traced: true, NotMixes: []string{"W1"}, Mode: results.Simulated}}
	for name, f := range filters {
		s, err := OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Runs(ctx, f); err != nil {
			t.Errorf("unchanged, %s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, change := range []string{"warmup = 1", "duplicate = 1", "doubts = 'x'", "status = 'interrupted'", "status = 'running'", "traced = 1 - traced", "mix = 'other'",
		"scheduler = 'sa', parameters = 'x=1'", "node = 'other'", "suite = 'other'", "started_at = '2000-01-01T00:00:00Z'"} {
		file := filepath.Join(t.TempDir(), "b.db")
		if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.write.Exec("UPDATE run SET " + change + " WHERE id = 3"); err != nil {
			t.Fatal(err)
		}
		for name, f := range filters {
			if _, err := s.Runs(ctx, f); !errors.Is(err, errDamaged) {
				t.Errorf("%s, %s: %v", change, name, err)
			}
		}
		if _, err := s.Runs(ctx, Filter{IDs: []int64{1}}); err != nil {
			t.Errorf("%s, another run: %v", change, err)
		}
		if open, err := s.Runs(ctx, Filter{Status: results.Running, Unchecked: true}); err != nil || len(open) != 0 {
			t.Errorf("%s: %d runs seem to be under way, %v", change, len(open), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(change, "1") {
			continue
		}
		if _, err := Merge(ctx, filepath.Join(t.TempDir(), "all.db"), []string{file}, Merging{}); !errors.Is(err, errDamaged) {
			t.Errorf("%s: merged: %v", change, err)
		}
	}
	// Which run of a cell counts is in the cell too.
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, change := range []string{"duplicate = 0", "duplicate = 1 - duplicate"} {
		if _, err := s.write.Exec("UPDATE run SET " + change + " WHERE cell_position = 1"); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(ctx, Filter{}); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// The columns that went into checksums stay the first ones of their lists, in this order.
func TestColumnsOfChecksums(t *testing.T) {
	for list, first := range map[*[]string]string{
		&runs.columns: "mix mix_source scheduler parameters node mode suite repetition seed workers started_at status jobs jobs_ok jobs_oom jobs_crashed " +
			"jobs_cancelled makespan_s throughput_jobs_per_s attempted_throughput_jobs_per_s turnaround_mean_s turnaround_p95_s wait_mean_s utilization_mean " +
			"utilization_peak kernel_utilization_mean sampler_period_s sampler_samples sampler_missed_deadlines sampler_longest_gap_s sampler_cpu_s sampler_errors " +
			"sampler_first_error version revision configuration host pid kernel cpu cores memory_bytes driver cuda binaries traced tracer_processes tracer_kernels " +
			"tracer_copies tracer_lost_records tracer_cut_processes tracer_untraced_jobs sweep_id warmup tag jobs_not_started probe energy_j energy_idle_j " +
			"energy_per_ok_job_j energy_source swaps swaps_in_vain swapped_out_bytes swapped_in_bytes swap_drain_s swap_copy_s swap_bookkeeping_s " +
			"swap_host_peak_bytes host_mapped_slowdown_s",
		&jobs.columns: "name command class footprint_bytes device_index start_s end_s wait_s user_s sys_s max_rss_bytes outcome exit_status signal detail " +
			"stderr_tail arrival_s used_bytes energy_estimate_j",
	} {
		if got := strings.Join(*list, " "); !strings.HasPrefix(got, first) {
			t.Errorf("the columns are\n%s\nwant further ones only after\n%s", got, first)
		}
	}
}

// A checksum of fewer columns, which an earlier version made, is of these columns.
func TestChecksumOfAnEarlierVersion(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	record(t, s, run, fullRows(found))
	set := func(sum string) {
		t.Helper()
		if _, err := s.write.Exec("UPDATE run SET checksum = ?", sum); err != nil {
			t.Fatal(err)
		}
	}
	set("60-17-")
	var sum string
	if err := eachChecksum(t.Context(), s.read, "main", "true", nil, func(_ int64, _ any, want string, _ any) error { sum = want; return nil }); err != nil {
		t.Fatal(err)
	}
	set(sum)
	for column, damages := range map[string]bool{runs.columns[59]: true, runs.columns[60]: false} {
		undo := change(t, s, runs.table, column)
		if err := s.Verify(t.Context(), Filter{}); errors.Is(err, errDamaged) != damages {
			t.Errorf("changed %s: %v", column, err)
		}
		undo()
	}
	for _, damaged := range []string{"", "60", "60-17-0", "-1-1-" + sum[6:], "99999-9-" + sum[6:], "x"} {
		set(damaged)
		if err := s.Verify(t.Context(), Filter{}); !errors.Is(err, errDamaged) {
			t.Errorf("checksum %q: %v", damaged, err)
		}
	}
}

// A correction of a complete run's jobs makes its checksum anew, with the correction or not at all.
func TestCorrectedRunsHaveChecksums(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	rows := fullRows(found)
	id := record(t, s, run, rows)
	before := dump(t, s)
	w, err := s.Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	rows.Jobs[1].Outcome, rows.Jobs[1].Detail = ptr(results.Fault), "it faults alone"
	w.Job(rows.Jobs[1])
	w.Event(results.Event{Kind: results.EventFailed, Detail: "corrected"})
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dump(t, s) == before {
		t.Error("nothing was corrected")
	}
	if err := s.Verify(t.Context(), Filter{}); err != nil {
		t.Error(err)
	}
}

// A correction of a run that somebody has changed does not make its checksum anew.
func TestDamagedRunsAreNotCorrected(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	rows := fullRows(found)
	id := record(t, s, run, rows)
	if _, err := s.write.Exec("UPDATE run SET makespan_s = 1"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	w.Job(rows.Jobs[1])
	if err := w.Flush(t.Context()); !errors.Is(err, errDamaged) {
		t.Error(err)
	}
	if err := s.Verify(t.Context(), Filter{}); !errors.Is(err, errDamaged) {
		t.Error(err)
	}
}

// Runs of earlier versions have no checksum, and neither have runs that are not complete.
func TestRunsWithoutChecksum(t *testing.T) {
	path := storeOf(t, 16, "UPDATE run SET makespan_s = 2, uid = 'old'")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, found := fullRun()
	run.Status = results.Interrupted
	record(t, s, run, fullRows(found))
	if _, err := s.write.Exec("UPDATE run SET makespan_s = 3"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Runs(t.Context(), Filter{}); err != nil || len(got) != 2 {
		t.Errorf("%d runs, %v", len(got), err)
	}
}

// A merge and a copy keep checksums, and a merge refuses a part with a run that was changed.
func TestMergeChecksRuns(t *testing.T) {
	dir := t.TempDir()
	a, b := newPart(t, filepath.Join(dir, "a.db"), true, 2), newPart(t, filepath.Join(dir, "b.db"), true, 2)
	a.run(0, results.Complete, 0, 1, 0)
	b.run(1, results.Complete, 0, 2, 0)
	out := filepath.Join(dir, "out.db")
	merged(t, out, a.close(), b.close())
	s, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sealed int
	if err := s.read.QueryRow("SELECT count(checksum) FROM run").Scan(&sealed); err != nil || sealed != 2 {
		t.Errorf("%d runs of the merged store have a checksum (%v), want 2", sealed, err)
	}
	if err := s.Verify(t.Context(), Filter{}); err != nil {
		t.Error(err)
	}
	if _, err := s.write.Exec("UPDATE run SET makespan_s = 2 * makespan_s WHERE id = 2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ out, part string }{{filepath.Join(dir, "new.db"), out}, {out, a.path}} {
		if _, err := Merge(t.Context(), c.out, []string{c.part}, Merging{}); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "run 2") || !strings.Contains(err.Error(), out) {
			t.Errorf("into %s: %v", c.out, err)
		}
	}
}

// A page of a store that was lost gives an error, or what was there.
func TestLostPagesGiveNoOtherFigures(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whole.db")
	thousands(t, path, 3)
	whole := []byte(bytesOf(t, path))
	figures := func(path string) (string, error) {
		s, err := OpenReadOnly(path)
		if err != nil {
			return "", err
		}
		defer s.Close()
		found, err := s.Runs(t.Context(), Filter{})
		all := []any{found}
		for _, r := range found {
			jobs, failed := s.Jobs(t.Context(), r.ID)
			all, err = append(all, jobs), errors.Join(err, failed)
		}
		text, failed := json.Marshal(all)
		return string(text), errors.Join(err, failed)
	}
	want, err := figures(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	noticed := 0
	for at := page; at < len(whole); at += page {
		damaged := slices.Clone(whole)
		clear(damaged[at : at+page])
		file := filepath.Join(dir, fmt.Sprintf("%d.db", at/page))
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := figures(file)
		if err != nil {
			noticed++
		}
		if err == nil && got != want {
			t.Errorf("without page %d of %d:\n%s", at/page, len(whole)/page, cmp.Diff(want, got))
		}
	}
	if noticed == 0 {
		t.Error("no page was noticed")
	}
}
