package main

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
)

// Whatever reads the runs of a store says of a run that was changed, and shows no figures.
func TestChangedRunsAreRefused(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, "sweep", "--mixes", "W1", "--scheds", "sa,case-alg3", "--node", "sim:2xV100", "--reps", "2"); status != exitOK {
		t.Fatal(errs)
	}
	if status, out, errs := caserun(t, "report"); status != exitOK {
		t.Fatalf("exit %d: %s%s", status, out, errs)
	}
	change := func(statement string) {
		t.Helper()
		db, err := sql.Open("sqlite3", "caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec(statement)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(args ...string) {
		t.Helper()
		status, out, errs := caserun(t, args...)
		if status != exitInfrastructure || out != "" || !strings.Contains(errs, "caserun.db") || !strings.Contains(errs, "run 3: its rows are not those that were stored") {
			t.Errorf("%v: exit %d: %s%s", args, status, out, errs)
		}
	}
	for _, hides := range []string{"warmup", "duplicate"} {
		change("UPDATE run SET " + hides + " = 1 WHERE id = 3")
		for _, args := range [][]string{{"report"}, {"compare"}, {"regress", "--baseline", "latest/sa", "--candidate", "latest/case-alg3"}, {"sweep", "show"}} {
			refused(args...)
		}
		change("UPDATE run SET " + hides + " = 0 WHERE id = 3")
	}
	change("UPDATE job SET end_s = end_s + 1 WHERE run_id = 3 AND job_index = 2")
	for _, args := range [][]string{
		{"report"}, {"report", "3"}, {"report", "-o", "page.html"}, {"report", "--trend", "makespan"}, {"compare", "--base", "sa"},
		{"regress", "--baseline", "1", "--candidate", "3"}, {"store", "merge", "all.db", "caserun.db"}, {"history"}, {"paper", "--out", "paper"},
		{"export", "--csv", "csv"}, {"export", "--bundle", "runs.tar.gz"}, {"export", "--perfetto", "t.perfetto", "3"},
	} {
		refused(args...)
	}
	if status, _, errs := caserun(t, "report", "1"); status != exitOK {
		t.Errorf("another run: exit %d: %s", status, errs)
	}
}
