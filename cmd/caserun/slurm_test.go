//go:build slurm

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// A live sweep in a job of Slurm uses the job's GPU and cores, ends before the job, and goes on where it
// was when the job is requeued.
func TestSweepInAJobOfSlurm(t *testing.T) {
	library, dir := fakeNVML(t), inTempDir(t)
	writeFiles(t, map[string]string{
		"own.yaml":   "name: own\njobs:\n  - {program: /bin/sh, args: [-c, ': >" + dir + "/started; [ -e " + dir + "/go ] || sleep 1000'], memory: 1GiB}\n",
		"data/empty": "", // where jobs start
	})
	plan := []string{"sweep", "--mixes", "own.yaml", "--scheds", "sa", "--reps", "3", "--warmups", "0", "--node", "local", "--time-limit", "1ns"}
	if status, text := finish(t, onFakes(dir, library, []string{live.VisibleDevices + "=0"}, plan...)); status != exitNothing {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	c := slurmtest.Start(t)
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(library)+":"+os.Getenv("LD_LIBRARY_PATH"))
	t.Setenv(live.LibraryVariable, library)
	t.Setenv(mainEnv, "1")
	a := slurm.Array{Name: "sweep", Tasks: 1, Logs: dir, Gres: "gpu:1", Time: time.Hour, Command: []string{os.Args[0], "sweep", "--resume", "latest"}}
	if _, err := a.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "sweep+1-0.log"))
		return string(text)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log())
		}
	})
	c.Await("a job of the sweep has started", func() bool { _, err := os.Stat("started"); return err == nil })
	tasks, err := slurm.List(t.Context(), a.Name)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("tasks %+v, %v", tasks, err)
	}
	if err := slurm.Requeue(t.Context(), tasks[0].Job); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, map[string]string{"go": ""})
	c.Await("the task has ended", func() bool {
		tasks, err = slurm.List(t.Context(), a.Name)
		return err == nil && tasks[0].Ended()
	})
	if tasks[0].State != "COMPLETED" || tasks[0].Restarts != 1 {
		t.Errorf("%+v", tasks[0])
	}
	for _, says := range []string{"job " + tasks[0].Job + " of Slurm ends at ", "preparing 1 GPU (CUDA_VISIBLE_DEVICES=0)", "terminated"} {
		if !strings.Contains(log(), says) {
			t.Errorf("the log does not say %q", says)
		}
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runs, err := s.Runs(t.Context(), store.Filter{Sweep: 1})
	if err != nil {
		t.Fatal(err)
	}
	statuses := ""
	for _, r := range runs {
		statuses += string(r.Status) + " "
		if devices, err := s.Devices(t.Context(), r.ID); err != nil || len(devices) != 1 || r.Provenance.Cores != 1 {
			t.Errorf("run %d: %d devices, %d cores, %v; want those of the job, one each", r.ID, len(devices), r.Provenance.Cores, err)
		}
	}
	if want := strings.Join([]string{string(results.Interrupted), string(results.Complete), string(results.Complete), string(results.Complete), ""}, " "); statuses != want {
		t.Errorf("runs %s, want %s", statuses, want)
	}
}
