//go:build slurm

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// allocate has a run of jobs that wait begin on two nodes of a Slurm, and returns the job of Slurm, and what the run says.
func allocate(t *testing.T, dir string) (c *slurmtest.Cluster, job string, log func() string) {
	t.Helper()
	native := filepath.Dir(nativetest.Build(t, "ballast", "ballast", "swaparea"))
	nativetest.Build(t, "lazy", "libcase.so", "programs")
	if err := os.Symlink(native, filepath.Join(dir, "native")); err != nil {
		t.Fatal(err)
	}
	writeWaiting(t, dir)
	c = startCluster(t)
	script := fmt.Sprintf("#!/bin/sh\nexec native/fake-node %s mix own.yaml --node slurm --sched cluster-rr/case-alg3 --workers 4\n", os.Args[0])
	submit := exec.Command("sbatch", "--parsable", "--nodes=2", "--gres=gpu:2", "--output="+filepath.Join(dir, "log"))
	submit.Stdin, submit.Dir = strings.NewReader(script), dir
	out, err := submit.Output()
	if err != nil {
		t.Fatal(err)
	}
	log = func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "log")) // there may be none yet
		return string(text)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log())
		}
	})
	c.Await("all jobs have started", func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "started-?"))
		return len(found) == 4
	})
	return c, strings.TrimSpace(string(out)), log
}

// outcomes are those of the jobs of the only run, and whether it is complete.
func outcomes(t *testing.T) string {
	t.Helper()
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, err := s.Run(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	text := string(run.Status)
	for _, j := range jobs {
		text += " " + string(*j.Outcome)
	}
	return text
}

// Nodes of an allocation are nodes of a batch.
func TestARunOverNodesOfSlurm(t *testing.T) {
	dir := inTempDir(t)
	c, _, log := allocate(t, dir)
	writeFiles(t, map[string]string{"go": ""})
	c.Await("the run has ended", func() bool { return strings.Contains(log(), "makespan") })
	if !strings.Contains(log(), "preparing 2 GPUs (CUDA_VISIBLE_DEVICES=0,1)") {
		t.Error("the nodes do not have the GPUs of the allocation")
	}
	if was := outcomes(t); was != "complete ok ok ok ok" {
		t.Error(was)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	devices, err := s.Devices(t.Context(), 1)
	if err != nil || len(devices) != 4 || devices[3].Node != 1 {
		t.Errorf("devices %+v (%v)", devices, err)
	}
	mustLeaveNothing(t, dir)
}

// A node that Slurm loses takes its jobs along, and the others go on.
func TestARunOverNodesLosesANodeOfSlurm(t *testing.T) {
	dir := inTempDir(t)
	c, _, log := allocate(t, dir)
	c.LoseNode("n2")
	c.Await("the run says that jobs are lost", func() bool { return strings.Contains(log(), "lost") })
	writeFiles(t, map[string]string{"go": ""})
	c.Await("the run has ended", func() bool { return strings.Contains(log(), "makespan") })
	if was := outcomes(t); was != "complete ok lost ok lost" {
		t.Error(was)
	}
	mustLeaveNothing(t, dir)
}

// SIGTERM before the end of an allocation interrupts the run, and leaves nothing.
func TestAnAllocationEndsARunOverNodes(t *testing.T) {
	dir := inTempDir(t)
	c, job, log := allocate(t, dir)
	if out, err := exec.Command("scancel", "--signal=TERM", "--full", job).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Await("the run has ended", func() bool { return strings.Contains(log(), "makespan") })
	if was := outcomes(t); was != string(results.Interrupted)+" cancelled cancelled cancelled cancelled" {
		t.Error(was)
	}
	mustLeaveNothing(t, dir)
}
