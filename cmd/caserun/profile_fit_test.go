package main

import (
	"os"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
)

// lasting is a job that ended ok, or not, after so many seconds.
func lasting(command string, seconds float64, ok bool) results.Job {
	outcome := results.OK
	if !ok {
		outcome = results.OOM
	}
	return results.Job{Name: command, Command: command, Outcome: &outcome, StartS: new(100.0), EndS: new(100 + seconds)}
}

// storeAlone stores a run on the GPU of a machine.
func storeAlone(t *testing.T, gpu string, run results.Run, jobs ...results.Job) {
	t.Helper()
	db, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	run.Mix, run.Node, run.Status, run.Jobs = "m", "local", results.Complete, len(jobs)
	if run.ID, err = db.BeginRun(t.Context(), run, []results.Device{{UUID: gpu, Name: "H200"}}); err != nil {
		t.Fatal(err)
	}
	w := db.Writer(run.ID)
	for i, j := range jobs {
		j.Index = i
		w.Job(j)
	}
	if err := w.Finish(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestProfileFit(t *testing.T) {
	inTempDir(t)
	const needle, own = "needle 16384 10", "./own 1"
	alone := results.Run{Scheduler: "sa", Mode: results.Live, Tag: "night"}
	crowded, traced, simulated := alone, alone, alone
	crowded.Scheduler, traced.Traced, simulated.Mode = "case-alg3", true, results.Simulated
	storeAlone(t, "GPU-0", alone, lasting(needle, 20, true), lasting(needle, 30, true), lasting(needle, 900, false), lasting(own, 7, true))
	storeAlone(t, "GPU-0", alone, lasting(needle, 40, true))
	for _, other := range []results.Run{crowded, traced, simulated} {
		storeAlone(t, "GPU-0", other, lasting(needle, 500, true))
	}
	status, _, errs := caserun(t, "profile", "fit", "night", "--out", "here.csv")
	if status != exitOK || !strings.Contains(errs, "left out, because they have no profile to fit") || !strings.Contains(errs, own) || strings.Contains(errs, "machines") {
		t.Fatalf("exit %d: %s", status, errs)
	}
	fitted, err := profiles.Load(t.Context(), "here.csv")
	if err != nil {
		t.Fatal(err)
	}
	if all := fitted.All(); len(all) != 1 || all[0].Command != needle || all[0].GPU != "H200" || all[0].WallS() < 29.999 || all[0].WallS() > 30.001 {
		t.Errorf("fitted %+v, want one profile of 30 s", all)
	}

	mine, err := os.ReadFile("here.csv")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("mine.csv", []byte(strings.Replace(string(mine), needle, own, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	storeAlone(t, "GPU-1", alone, lasting(own, 9, true))
	status, out, errs := caserun(t, "profile", "fit", "night", "--profiles", "mine.csv")
	if status != exitOK || strings.Contains(errs, "left out") || !strings.Contains(errs, "the runs are of 2 machines") || strings.Count(out, "\n") != 3 {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}

	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"night --out here.csv", exitUsage, "here.csv: file already exists: name another file, or remove it first"},
		{"night --out nodir/here.csv", exitUsage, "the directory nodir does not exist"},
		{"night --out .", exitUsage, "write .: it is a directory: name a file"},
		{"nights", exitUsage, "no run has the tag nights"},
		{"night --db none.db", exitInfrastructure, "none.db"},
		{"night --profiles none.csv", exitUsage, "none.csv"},
		{"3", exitNothing, "run 3 has no complete live run under sa"},
		{"5", exitNothing, "run 5 has no complete live run under sa"},
		{"6", exitNothing, "no job of run 6 that ended ok has a profile to fit"},
		{"", exitUsage, "SIDE is missing"},
	} {
		status, out, errs := caserun(t, append([]string{"profile", "fit"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("profile fit %s: exit %d, want %d and %q:\n%s%s", c.args, status, c.status, c.says, out, errs)
		}
	}
	if status, out, errs = caserun(t, "profile", "fit", "4"); status != exitOK || !strings.Contains(out, needle) || !strings.Contains(errs, "all of these runs were traced") {
		t.Errorf("a traced run is better than none: exit %d: %s%s", status, out, errs)
	}

	if status, _, errs := caserun(t, "profile", "fit", "4", "--out", "/dev/null"); status != exitOK {
		t.Errorf("to a device: exit %d: %s", status, errs)
	}

	const other = "needle 32768 10"
	storeAlone(t, "GPU-0", alone, lasting(needle, 0.01, true), lasting(other, 30, false))
	status, out, errs = caserun(t, "profile", "fit", "7")
	if status != exitOK || strings.Contains(out, other) || !strings.Contains(errs, "never ended ok in these runs: "+other) || !strings.Contains(errs, "are too long, because the copies and kernels in their profiles last longer than the jobs did: "+needle) {
		t.Errorf("a job that never ended ok, and one shorter than its kernels: exit %d: %s%s", status, out, errs)
	}
}
