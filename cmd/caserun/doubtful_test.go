package main

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
)

// Verdicts are without doubtful runs, unless --doubted takes them in.
func TestDoubtfulRunsAreLeftOut(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,cg", "--reps", "2")
	db, err := sql.Open("sqlite3", "caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("UPDATE run SET doubts = 'the harness stood still for 3.0 s', checksum = NULL WHERE scheduler = 'cg' AND repetition = 2")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"compare"}, {"compare", "latest/sa", "latest/cg"}, {"regress", "--baseline", "latest/sa", "--candidate", "latest/cg"},
	} {
		for flag, want := range map[string]string{"--doubted=false": "that are doubtful, and are left out: 1;", "--doubted": "that are doubtful, and are taken in: 1;"} {
			if _, out, errs := caserun(t, append(args, flag)...); !strings.Contains(out, want) {
				t.Errorf("%v %s does not say %q:\n%s%s", args, flag, want, out, errs)
			}
		}
	}
	if _, out, _ := caserun(t, "report"); !strings.Contains(out, "doubtful runs, which comparisons leave out: 1;") {
		t.Errorf("the list of runs says:\n%s", out)
	}
}
