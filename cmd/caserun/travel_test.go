package main

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A sweep that was stopped goes on from a bundle, on another host as well, to
// what it would have been. These are the commands of docs/reference/sweeps.md.
func TestSweepGoesOnFromABundle(t *testing.T) {
	want := whole(t)
	first := inTempDir(t)
	if err := doPart(t, 7*time.Second); err == nil {
		t.Fatal("the sweep is complete")
	}
	if status, _, errs := caserun(t, "export", "--sweep", "latest", "--bundle", "sweep.tar.gz"); status != exitOK {
		t.Fatalf("export: exit %d: %s", status, errs)
	}
	inTempDir(t)
	bundle := filepath.Join(first, "sweep.tar.gz")
	for _, args := range [][]string{{"sweep", "--resume", "latest"}, {"mix", "W1", "--node", "sim:2xV100"}, smallSweep(1)} {
		if status, _, errs := caserun(t, append(args, "--db", bundle)...); status != exitUsage || !strings.Contains(errs, "tar xzkf "+bundle+" caserun.db") {
			t.Errorf("%v in the bundle itself: exit %d: %s", args, status, errs)
		}
	}
	if out, err := exec.Command("tar", "xzkf", bundle, "caserun.db").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	db, err := sql.Open("sqlite3", "caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE run SET host = 'elsewhere'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	status, _, errs := caserun(t, "sweep", "--resume", "latest")
	if status != exitOK || !strings.Contains(errs, "13 of 20 runs are left") {
		t.Errorf("resume: exit %d: %s", status, errs)
	}
	got, _ := sweepResults(t, "caserun.db")
	here := thisHost(t)
	for i := range got {
		host := &got[i].Run.Provenance.Host
		if (*host == here) != (i >= 7) {
			t.Errorf("cell %d was run on host %s", i, *host)
		}
		*host = here
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-uninterrupted +resumed):\n%s", diff)
	}
}

// A bundle of a part of a sweep is not taken for the whole.
func TestBundleOfAPartOfASweep(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, smallSweep(1)...); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "export", "--sweep", "1", "--mix", "W1", "--bundle", "part.tar.gz"); status != exitOK {
		t.Fatalf("export: exit %d: %s", status, errs)
	}
	status, list, errs := caserun(t, "sweep", "list", "--db", "part.tar.gz", "--format", "csv")
	if status != exitOK || !strings.Contains(list, ",interrupted,10,20,") || !strings.Contains(list, "10 of its 20 runs were left out of this copy") {
		t.Errorf("list: exit %d: %s\n%s", status, errs, list)
	}
	if _, offered, _ := caserun(t, "__complete", "sweep", "show", "--db", "part.tar.gz", ""); !strings.Contains(offered, "\n1\t") {
		t.Errorf("of a bundle, completion offers %q", offered)
	}
	if _, list, _ := caserun(t, "sweep", "list", "--format", "csv"); !strings.Contains(list, ",complete,20,20,") {
		t.Errorf("the sweep that was exported is listed as\n%s", list)
	}
	if _, shown, _ := caserun(t, "sweep", "show", "1", "--db", "part.tar.gz"); !strings.Contains(strings.Join(strings.Fields(shown), " "),
		"caserun sweep --resume 1 continues it, in the store of the bundle, which tar xzkf part.tar.gz caserun.db takes out") {
		t.Errorf("of a bundle, sweep show says\n%s", shown)
	}
	if out, err := exec.Command("tar", "xzf", "part.tar.gz", "--transform", "s/caserun.db/part.db/", "caserun.db").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if status, _, errs := caserun(t, "sweep", "--resume", "1", "--db", "part.db"); status != exitOK || !strings.Contains(errs, "10 of 20 runs are left") || !strings.Contains(errs, "so they are repeated here: ") {
		t.Errorf("resume: exit %d: %s", status, errs)
	}
	if _, list, _ := caserun(t, "sweep", "list", "--db", "part.db", "--format", "csv"); !strings.Contains(list, ",complete,20,20,") || !strings.Contains(list, "left out of this copy, and are to be made again in it") {
		t.Errorf("the sweep that was resumed is listed as\n%s", list)
	}
}
