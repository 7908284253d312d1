package main

import (
	"context"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// storeTraced stores a traced run of one job with two kernels of the given
// lengths.
func storeTraced(t *testing.T, db *store.Store, sched string, traced bool, lengths ...float64) {
	t.Helper()
	ctx := context.Background()
	run := results.Run{Mix: "m", Scheduler: sched, Node: "local", Mode: results.Live, Status: results.Complete, Jobs: 1, Traced: traced}
	id, err := db.BeginRun(ctx, run, []results.Device{{Index: 0, UUID: "GPU-0", Name: "H200"}})
	if err != nil {
		t.Fatal(err)
	}
	w := db.Writer(id)
	w.Job(results.Job{Name: "j", Command: "j 1", Outcome: new(results.OK), StartS: new(0.0), EndS: new(10.0)})
	for i, length := range lengths {
		start := float64(i)
		w.Kernel(results.Kernel{Name: "k(int)", Grid: "1,1,1", Block: "32,1,1", StartS: start, EndS: start + length, BusyS: length})
	}
	if err := w.Finish(ctx, run); err != nil {
		t.Fatal(err)
	}
}

func TestReportOfASlowdown(t *testing.T) {
	inTempDir(t)
	db, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	storeTraced(t, db, "sa", true, 0.25, 0.25)
	storeTraced(t, db, "case-alg3", true, 0.25, 0.5)
	storeTraced(t, db, "case-alg3", false)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	status, out, errs := caserun(t, "report", "2", "--slowdown", "1")
	if status != exitOK || !strings.Contains(out, "kernel slowdown          50.0 %") || !strings.Contains(out, "against run 1 under sa") {
		t.Errorf("exit %d %s\n%s", status, errs, out)
	}
	if status, out, errs = caserun(t, "report", "2", "-v"); status != exitOK || !strings.Contains(out, "\n  0  k              2  ") {
		t.Errorf("report -v: exit %d %s, lacks the kernel:\n%s", status, errs, out)
	}
	if status, out, errs = caserun(t, "report"); status != exitOK || !strings.Contains(out, "live, traced") {
		t.Errorf("report: exit %d %s, does not say which runs were traced:\n%s", status, errs, out)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"report", "3", "--slowdown", "1"}, exitUsage, "run 3 was not traced"},
		{[]string{"report", "2", "--slowdown", "3"}, exitUsage, "run 3 was not traced"},
		{[]string{"report", "2", "--slowdown", "9"}, exitUsage, "run 9"},
		{[]string{"report", "--slowdown", "1"}, exitUsage, "which run"},
		{[]string{"mix", "W1", "--node", "sim:4xV100", "--trace"}, exitUsage, "not available on sim:4xV100"},
		{[]string{"mix", "W1", "--node", "sim:4xV100", "--sched", "schedgpu:arch=shared"}, exitUsage, "--sched schedgpu:arch=shared: not available on sim:4xV100"},
	} {
		status, _, errs := caserun(t, c.args...)
		if status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d; stderr must contain %q:\n%s", strings.Join(c.args, " "), status, c.status, c.says, errs)
		}
	}
}
