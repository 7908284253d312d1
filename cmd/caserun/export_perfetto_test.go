package main

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/caserun/caserun/results/store"
)

// A timeline is compressed if its name says so, and is refused if nobody could look at it.
func TestExportOfATimeline(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--sim-noise", "0.01", "--reps", "17")
	_, plain, _ := caserun(t, "export", "--perfetto", "-", "latest")
	if status, _, errs := caserun(t, "export", "--perfetto", "t.gz", "latest"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	file, err := os.Open("t.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unpacked); err != nil || len(plain) == 0 || string(text) != plain {
		t.Errorf("t.gz has %d bytes (%v), and without compression there are %d", len(text), err, len(plain))
	}
	status, _, errs := caserun(t, "export", "--perfetto", "all.pftrace")
	if status != exitUsage || !strings.Contains(errs, "17 runs match, and --perfetto shows at most 16 side by side: name runs by their numbers, or as latest") {
		t.Errorf("17 runs: exit %d: %s", status, errs)
	}
	if _, err := os.Stat("all.pftrace"); err == nil {
		t.Error("a timeline that was refused was written")
	}
}

// A timeline of a measured run that was not traced says what it lacks.
func TestExportOfATimelineWithoutKernels(t *testing.T) {
	inTempDir(t)
	db, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	storeTraced(t, db, "sa", true, 0.25)
	storeTraced(t, db, "sa", false)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := caserun(t, "export", "--perfetto", "-", "1"); status != exitOK || errs != "" || !strings.Contains(out, "k(int)") {
		t.Errorf("a traced run: exit %d: %s", status, errs)
	}
	status, _, errs := caserun(t, "export", "--perfetto", "t.pftrace", "2")
	if want := "caserun: run 2 was not traced: its timeline has no kernels and copies, which caserun mix --trace records\n"; status != exitOK || errs != want {
		t.Errorf("exit %d, stderr %q, want %q", status, errs, want)
	}
}
