//go:build slurm

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/remote"
	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// allocate has a run of jobs that wait begin on two nodes of a Slurm, and returns the job of Slurm, and what the run says.
func allocate(t *testing.T, dir string) (c *slurmtest.Cluster, job string, log func() string) {
	t.Helper()
	writeWaiting(t, dir)
	c, job, log = onTwoNodes(t, dir)
	c.Await("all jobs have started", func() bool {
		found, _ := filepath.Glob("started-?")
		return len(found) == 4
	})
	return c, job, log
}

// onTwoNodes has a run of own.yaml begin.
func onTwoNodes(t *testing.T, dir string) (c *slurmtest.Cluster, job string, log func() string) {
	t.Helper()
	native := filepath.Dir(nativetest.Build(t, "ballast", "ballast", "swaparea"))
	nativetest.Build(t, "lazy", "libcase.so", "programs")
	if err := os.Symlink(native, filepath.Join(dir, "native")); err != nil {
		t.Fatal(err)
	}
	c = startCluster(t)
	script := fmt.Sprintf("#!/bin/sh\nexport SLURM_MPI_TYPE=pmi2\nexec native/fake-node %s mix own.yaml --node slurm --sched cluster-rr/case-alg3 --workers 4\n", os.Args[0])
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

// writeRanks writes a mix of two jobs whose ranks are on both nodes, and of one on each node. A rank speaks to its PMI. All wait until there is a
// file called go. A rank that is to fail then does.
func writeRanks(t *testing.T) {
	t.Helper()
	writeFiles(t, map[string]string{"data/empty": "", "own.yaml": `
name: own
jobs:
  - {program: /bin/sh, args: [rank, meets], name: meets, ranks: 4, memory: 1MiB, binding: declared}
  - {program: /bin/sh, args: [rank, fails], name: fails, ranks: 3, memory: 1MiB, binding: declared}
  - {program: /bin/sh, args: [alone, "2"], name: second, memory: 1MiB, binding: declared}
  - {program: /bin/sh, args: [alone, "1"], name: first, memory: 1MiB, binding: declared}
`, "alone": `
: >"started-alone-$1"
until [ -e go ]; do sleep 0.02; done
`, "rank": `
eval "exec 4<&$PMI_FD"
echo "cmd=init pmi_version=1 pmi_subversion=1" >&4
read -r answer <&4
echo "$CASE_RANK of $CASE_RANKS, $SLURM_PROCID of $SLURM_STEP_NUM_TASKS on $SLURMD_NODENAME: $answer"
: >"$CASE_RENDEZVOUS/$CASE_RANK"
until [ "$(ls "$CASE_RENDEZVOUS" | wc -l)" = "$CASE_RANKS" ]; do sleep 0.02; done
: >"started-$1-$CASE_RANK"
until [ -e go ]; do sleep 0.02; done
[ "$1$CASE_RANK" != fails1 ]
`})
}

// beginRanks has these jobs run on two nodes of a Slurm.
func beginRanks(t *testing.T, dir string) (c *slurmtest.Cluster, job string, log func() string) {
	t.Helper()
	writeRanks(t)
	c, job, log = onTwoNodes(t, dir)
	c.Await("all ranks have started", func() bool {
		found, _ := filepath.Glob("started-*-?")
		return len(found) == 9
	})
	return c, job, log
}

// Ranks of a job on nodes of an allocation take part in one step of Slurm, which connects them for MPI.
func TestRanksOverNodesOfSlurm(t *testing.T) {
	dir := inTempDir(t)
	c, _, log := beginRanks(t, dir)
	writeFiles(t, map[string]string{"go": ""})
	c.Await("the run has ended", func() bool { return strings.Contains(log(), "makespan") })
	if was := outcomes(t); was != "complete ok crash ok ok" {
		t.Error(was)
	}
	for rank := range 4 {
		found, _ := filepath.Glob(fmt.Sprintf("caserun-runs/*/job-0000-rank-%d.out", rank))
		if len(found) != 1 {
			t.Fatalf("rank %d: %v", rank, found)
		}
		text, _ := os.ReadFile(found[0])
		if want := fmt.Sprintf("%d of 4, %d of 4 on n%d: cmd=response_to_init", rank, rank, 1+rank/2); !strings.HasPrefix(string(text), want) {
			t.Errorf("rank %d says %q, want %q", rank, text, want)
		}
	}
	mustLeaveNothing(t, dir)
}

// Who ends a step of Slurm ends the job whose ranks take part in it, and no other.
func TestSlurmEndsTheStepOfRanks(t *testing.T) {
	dir := inTempDir(t)
	c, job, log := beginRanks(t, dir)
	if out, err := exec.Command("scancel", job+".2").CombinedOutput(); err != nil { // steps 0 and 1 are the nodes
		t.Fatalf("%v: %s", err, out)
	}
	c.Await("the run says that a job is lost", func() bool { return strings.Contains(log(), "lost") })
	writeFiles(t, map[string]string{"go": ""})
	c.Await("the run has ended", func() bool { return strings.Contains(log(), "makespan") })
	if was := outcomes(t); was != "complete lost crash ok ok" && was != "complete ok lost ok ok" { // whose step began first is open
		t.Error(was)
	}
	mustLeaveNothing(t, dir)
}

// A node that Slurm loses takes its jobs along, also those that have ranks elsewhere, and the others go on.
func TestARunOverNodesLosesANodeOfSlurm(t *testing.T) {
	dir := inTempDir(t)
	c, _, log := beginRanks(t, dir)
	c.LoseNode("n2")
	c.Await("the run says that jobs are lost", func() bool { return strings.Contains(log(), "lost") })
	writeFiles(t, map[string]string{"go": ""})
	c.Await("the run has ended", func() bool { return strings.Contains(log(), "makespan") })
	if was := outcomes(t); was != "complete lost lost lost ok" {
		t.Error(was)
	}
	mustLeaveNothing(t, dir)
}

// processOn is the process of a node of Slurm that is a node of the batch.
func processOn(t *testing.T, node, dir string) int {
	t.Helper()
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range found {
		line, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // it may have ended
		env, _ := os.ReadFile(filepath.Join(proc, "environ"))
		at, _ := os.Readlink(filepath.Join(proc, "cwd"))
		if at == dir && strings.HasSuffix(string(line), "\x00"+remote.Command+"\x00") && strings.HasPrefix(string(line), os.Args[0]) && strings.Contains(string(env), "\x00SLURMD_NODENAME="+node+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(proc))
			return pid
		}
	}
	t.Fatalf("no process of node %s", node)
	return 0
}

// A node of Slurm that says nothing for 10 s is lost with its jobs.
func TestASilentNodeOfSlurmIsLost(t *testing.T) {
	dir := inTempDir(t)
	c, _, log := allocate(t, dir)
	if err := syscall.Kill(processOn(t, "n2", dir), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.Await("the run says that jobs are lost", func() bool { return strings.Contains(log(), "it has said nothing for 10s") })
	writeFiles(t, map[string]string{"go": ""})
	c.Await("the run has ended", func() bool { return strings.Contains(log(), "makespan") })
	if was := outcomes(t); was != "complete ok lost ok lost" {
		t.Error(was)
	}
	mustLeaveNothing(t, dir)
}

// A head that is killed leaves nothing on the nodes.
func TestAHeadOfSlurmThatIsKilledLeavesNothing(t *testing.T) {
	dir := inTempDir(t)
	_, job, _ := beginRanks(t, dir)
	if out, err := exec.Command("scancel", "--signal=KILL", "--batch", job).CombinedOutput(); err != nil { // only the script, which the head is
		t.Fatalf("%v: %s", err, out)
	}
	mustLeaveNothing(t, dir)
}
