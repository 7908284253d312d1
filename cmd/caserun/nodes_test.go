package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/remote"
)

// twoNodes are the fake GPUs as two nodes of a cluster.
var twoNodes = []string{"mix", "own.yaml", "--node", "local:0:1", "--sched", "cluster-rr/case-alg3"}

// writeWaiting writes a mix of four jobs that start, and wait until there is a file called go.
func writeWaiting(t *testing.T, dir string) {
	t.Helper()
	text := "name: own\njobs:\n"
	for i := range 4 {
		text += fmt.Sprintf("  - {program: /bin/sh, args: [-c, ': >%s/started-%d; until [ -e %s/go ]; do sleep 0.02; done'], name: job%d, memory: 1MiB, binding: declared}\n", dir, i, dir, i)
	}
	writeFiles(t, map[string]string{"own.yaml": text, "data/empty": ""})
}

// beginOverNodes starts a run of these jobs, and returns when all have started.
func beginOverNodes(t *testing.T, dir string) (p *exec.Cmd, text *bytes.Buffer) {
	t.Helper()
	writeWaiting(t, dir)
	return begin(t, 4, onTheFakes(t, dir, nil, twoNodes...))
}

// begin starts a run, and returns when so many of its jobs have started.
func begin(t *testing.T, jobs int, run *exec.Cmd) (p *exec.Cmd, text *bytes.Buffer) {
	t.Helper()
	text = new(bytes.Buffer)
	run.Stdout, run.Stderr = text, text
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	probetest.Await(t, "not all jobs have started", func() bool {
		found, _ := filepath.Glob("started-?")
		return len(found) == jobs
	})
	return run, text
}

// nodesOf are the processes of the nodes that a process has started, in their order.
func nodesOf(t *testing.T, head int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		stat, _ := os.ReadFile(name) // it may have ended
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(head) && bytes.Contains(line, []byte("\x00"+remote.Command)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// mustLeaveNothing fails if a process of the run goes on.
func mustLeaveNothing(t *testing.T, dir string) {
	t.Helper()
	probetest.Await(t, "processes of the run go on", func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range files {
			line, _ := os.ReadFile(name) // it may have ended
			at, _ := os.Readlink(filepath.Join(filepath.Dir(name), "cwd"))
			if bytes.Contains(line, []byte(dir)) || at == dir && bytes.Contains(line, []byte("\x00"+remote.Command)) {
				return false
			}
		}
		return true
	})
}

// A batch over two real nodes is one run, whose jobs compute what they compute alone.
func TestARunOverNodes(t *testing.T) {
	policy, err := filepath.Abs("../../benchmarks/policies/alg3.py")
	if err != nil {
		t.Fatal(err)
	}
	dir := inTempDir(t)
	scheds := []string{"cluster-rr/case-alg3", "coloc/vgpu:n=2,victims=0", "cluster-batch/sa", "cluster-rr/plan", "cluster-rr/exec:" + policy}
	for i, sched := range scheds {
		args := []string{"mix", "native/fake-node.yaml", "--node", "local:0:1@weight=2", "--sched", sched, "--workers", "4"}
		status, text := onFakeNode(t, dir, []string{"FAKE_CUDA_KERNEL_US=1000", "FAKE_NVML_PROCESSES=" + t.TempDir()}, args...)
		if status != exitOK || !strings.Contains(text, "2 x Fake GPU (64 MiB)") || !strings.Contains(text, "\nnode                        local:0:1@weight=2\n") {
			t.Fatalf("%s: exit %d:\n%s", sched, status, text)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		id := int64(i + 1)
		devices, err := s.Devices(t.Context(), id)
		if err != nil || len(devices) != 2 || devices[0].Node != 0 || devices[1].Node != 1 || devices[0].UUID == devices[1].UUID {
			t.Errorf("%s: devices %+v (%v)", sched, devices, err)
		}
		jobs, err := s.Jobs(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		used := map[int]int{}
		for n, j := range jobs {
			used[*j.Device]++
			files, err := filepath.Glob(fmt.Sprintf("caserun-runs/run-%d-*/job-%04d.out", id, n))
			if err != nil || len(files) != 1 {
				t.Fatalf("%s: output of job %d: %q (%v)", sched, n, files, err)
			}
			if said := mustRead(t, files[0]); *j.Outcome != results.OK || !strings.Contains(said, fmt.Sprintf("after: contexts 1 first %d ", *j.Device)) {
				t.Errorf("%s: job %d is %s: %+v\n%s", sched, n, *j.Outcome, j, said)
			}
		}
		if len(used) != 2 {
			t.Errorf("%s: jobs by device: %v", sched, used)
		}
		events, err := s.Events(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		clocks := 0
		for _, e := range events {
			if e.Kind == results.EventClock && strings.Contains(e.Detail, "its times are known to ") {
				clocks++
			}
		}
		if clocks != 2 {
			t.Errorf("%s: events %+v", sched, events)
		}
	}
	// All nodes write into the directory of the run.
	dirs, err := filepath.Glob("caserun-runs/run-*")
	if err != nil || len(dirs) != len(scheds) {
		t.Errorf("directories of output files: %q (%v)", dirs, err)
	}
	mustRun(t, "store", "rm", "1", "--files", "--yes")
	if left, _ := filepath.Glob("caserun-runs/run-1-*"); len(left) > 0 {
		t.Errorf("store rm leaves %q", left)
	}
}

// A sweep over nodes is one as any other.
func TestASweepOverRealNodes(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"data/empty": "", "own.yaml": `name: own
jobs:
  - {program: /bin/true, name: one, memory: 1MiB, binding: declared}
  - {program: /bin/true, name: three, memory: 1MiB, ranks: 3}
  - {program: /bin/true, name: another, memory: 1MiB, binding: declared}
`})
	args := []string{"sweep", "--mixes", "own.yaml", "--scheds", "cluster-rr/case-alg3,coloc:nodes=1/sa", "--reps", "1", "--warmups", "0", "--node", "local:0:1"}
	if status, text := onFakeNode(t, dir, nil, args...); status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for run := range int64(2) {
		jobs, err := s.Jobs(t.Context(), run+1)
		if err != nil || len(jobs) != 3 || *jobs[0].Outcome != results.OK || *jobs[1].Outcome != results.OK || *jobs[2].Outcome != results.OK {
			t.Errorf("run %d: %+v (%v)", run+1, jobs, err)
		}
	}
}

// firstRun is the store, which closes with the test, and the jobs of its first run.
func firstRun(t *testing.T) (*store.Store, []results.Job) {
	t.Helper()
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	jobs, err := s.Jobs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return s, jobs
}

// Ranks of a job on several nodes meet in one directory, each on the GPU of its node. The first that fails ends the others.
func TestRanksOverNodes(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"data/empty": "", "own.yaml": `name: own
jobs:
  - {program: /bin/sh, args: [rank, none], name: meets, memory: 1MiB, ranks: 3, binding: declared}
  - {program: /bin/sh, args: [rank, "2"], name: fails, memory: 1MiB, ranks: 3, binding: declared}
  - {program: /bin/sh, args: [rank, none], name: alone, memory: 1MiB, ranks: 1, binding: declared}
`, "rank": `
echo "$CASE_RANK of $CASE_RANKS on $CUDA_VISIBLE_DEVICES in $CASE_RENDEZVOUS"
: >"$CASE_RENDEZVOUS/$CASE_RANK"
until [ "$(ls "$CASE_RENDEZVOUS" | wc -l)" = "$CASE_RANKS" ]; do sleep 0.02; done
[ "$1" != none ] || exit 0
[ "$1" != "$CASE_RANK" ] || exit 3
exec sleep 1000
`})
	if status, text := onFakeNode(t, dir, nil, twoNodes...); status != exitJobsFailed {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	s, jobs := firstRun(t)
	if *jobs[0].Outcome != results.OK || *jobs[1].Outcome != results.Crash || jobs[1].Detail != "rank 2: exit status 3" || *jobs[2].Outcome != results.OK {
		t.Errorf("%+v", jobs)
	}
	ranks, err := s.Ranks(t.Context(), 1)
	if err != nil || len(ranks) != 6 || *ranks[3].Outcome != results.Cancelled || *ranks[4].Outcome != results.Cancelled || *ranks[5].ExitStatus != 3 {
		t.Errorf("ranks %+v (%v)", ranks, err)
	}
	met := ""
	for rank, gpu := range []int{0, 0, 1} {
		found, _ := filepath.Glob(fmt.Sprintf("caserun-runs/*/job-0000-rank-%d.out", rank))
		if len(found) != 1 {
			t.Fatalf("output of rank %d: %q", rank, found)
		}
		said, at, _ := strings.Cut(strings.TrimSpace(mustRead(t, found[0])), " in ")
		if want := fmt.Sprintf("%d of 3 on GPU-ca5e0000-0000-0000-0000-00000000000%d", rank, gpu); said != want || met != "" && met != at {
			t.Errorf("rank %d says %q in %s, want %q in %s", rank, said, at, want, met)
		}
		met = at
	}
	if _, err := os.Stat(filepath.Dir(met)); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", met, err)
	}
	mustLeaveNothing(t, dir)
}

// A job that waits on a crowded node goes to another one. Here one ends only if another has left its node.
func TestJobsLeaveACrowdedNode(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"data/empty": "", "own.yaml": `name: own
jobs:
  - {program: /bin/sh, args: [-c, "until [ -e go ]; do sleep 0.02; done"], name: first, memory: 1MiB, binding: declared}
  - {program: /bin/true, name: second, memory: 1MiB, binding: declared}
  - {program: /bin/sh, args: [-c, ": >go"], name: third, memory: 1MiB, binding: declared}
`})
	args := []string{"mix", "own.yaml", "--node", "local:0:1", "--sched", "cluster-rr+offload:threshold=0/case-alg3", "--workers", "1", "--timeout", "1m"}
	if status, text := onFakeNode(t, dir, nil, args...); status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	s, jobs := firstRun(t)
	if *jobs[0].Device != 0 || *jobs[1].Device != 1 || *jobs[2].Device != 1 {
		t.Errorf("%+v", jobs)
	}
	events, err := s.Events(t.Context(), 1)
	moved := slices.IndexFunc(events, func(e results.Event) bool { return e.Kind == results.EventOffloaded })
	if err != nil || moved < 0 || *events[moved].Job != 2 {
		t.Errorf("%+v (%v)", events, err)
	}
}

// A user drains a device of any node, by its number in the run. A node keeps one.
func TestDrainOverNodes(t *testing.T) {
	dir := inTempDir(t)
	writeWaiting(t, dir)
	p, text := begin(t, 2, onTheFakes(t, dir, []string{"FAKE_CUDA_DEVICES=4"}, "mix", "own.yaml", "--node", "local:0+1:2+3", "--sched", "cluster-rr/case-alg3", "--workers", "1"))
	for _, c := range []struct {
		args, says string
		status     int
	}{
		{"drain latest 2 --no-wait", "job1", exitOK},
		{"drain 1 2", "run 1: device 2 is drained already: --undo puts it back", exitUsage},
		{"drain 1 3", "run 1: device 3 is the last one of its node that jobs may use", exitUsage},
		{"drain 1 1", "empty", exitOK},
		{"drain 1 1 --undo", "open", exitOK},
		{"drain 1 4", "device 4: run 1 has devices 0 to 3", exitUsage},
	} {
		if status, out, said := caserun(t, strings.Fields(c.args)...); status != c.status || !strings.Contains(out+said, c.says) {
			t.Errorf("%s: exit %d:\n%s%s", c.args, status, out, said)
		}
	}
	if err := syscall.Kill(nodesOf(t, p.Process.Pid)[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	probetest.Await(t, "the run does not say that a node is lost", func() bool { return strings.Contains(text.String(), "is lost") })
	if status, _, said := caserun(t, "drain", "1", "3"); status == exitOK || !strings.Contains(said, "is gone") && !strings.Contains(said, "is lost") {
		t.Errorf("a node that is lost: exit %d: %s", status, said)
	}
	writeFiles(t, map[string]string{"go": ""})
	_ = p.Wait() // its jobs on the lost node are lost
	mustLeaveNothing(t, dir)
}

// A node that is killed takes its jobs along, by name. The others go on.
func TestARunOverNodesLosesANode(t *testing.T) {
	dir := inTempDir(t)
	p, text := beginOverNodes(t, dir)
	pids := nodesOf(t, p.Process.Pid)
	if len(pids) != 2 {
		t.Fatalf("nodes %v", pids)
	}
	if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	probetest.Await(t, "the run does not say that jobs are lost", func() bool { return strings.Contains(text.String(), "lost") })
	writeFiles(t, map[string]string{"go": ""})
	if err := p.Wait(); p.ProcessState.ExitCode() != exitJobsFailed {
		t.Errorf("%v:\n%s", err, text)
	}
	for _, want := range []string{"  ok                        2\n", "): lost: job job", ") is down\n", "caserun: node ", ") is lost: its process ended (signal: killed)\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	mustLeaveNothing(t, dir)
}

// With --retry-lost jobs start again on another node that a lost one took along.
func TestJobsOfALostNodeStartAgain(t *testing.T) {
	dir := inTempDir(t)
	writeWaiting(t, dir)
	writeFiles(t, map[string]string{"own.yaml": strings.ReplaceAll(mustRead(t, "own.yaml"), "binding: declared", "binding: declared, restartable: true")})
	p, text := begin(t, 4, onTheFakes(t, dir, nil, append(twoNodes, "--retry-lost")...))
	if err := syscall.Kill(nodesOf(t, p.Process.Pid)[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	probetest.Await(t, "the run does not say that a node is lost", func() bool { return strings.Contains(text.String(), "is lost") })
	writeFiles(t, map[string]string{"go": ""})
	if err := p.Wait(); err != nil || !strings.Contains(text.String(), "  ok                        4\n") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// A head that is killed leaves nothing: its nodes stop their jobs.
func TestAHeadThatIsKilledLeavesNothing(t *testing.T) {
	dir := inTempDir(t)
	p, _ := beginOverNodes(t, dir)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	mustLeaveNothing(t, dir)
}

// Clusters that cannot be are refused, with what to do.
func TestNodesThatCannotBe(t *testing.T) {
	dir := inTempDir(t)
	writeWaiting(t, dir)
	const rr = "cluster-rr/case-alg3"
	for _, c := range []struct{ node, sched, says string }{
		{"local:0:7", rr, "node 1 (GPU 7): --devices 7: no GPU 7: want one or more of 0 ("},
		{"local:0:0", rr, `node "local:0:0": two nodes cannot have device 0: name it once`},
		{"local:0:GPU-ca5e0000-0000-0000-0000-000000000000", rr, "have the same GPUs: name each GPU once"},
		{"local:", rr, "want devices of this machine for each node, as in local:0:1 or local:0+1:2+3@weight=2"},
		{"local:0@nic=1Gb:1", rr, "nic=1Gb: want weight= with a number from 1 to 1000000"},
		{"local:0:1", "case-alg3", "local:0:1 is a cluster: write also the policy by which its head gives jobs to nodes, as in cluster-rr/case-alg3"},
		{"local:0:1", "cluster-rr:literal=true/case-alg3", "leave literal out"},
		{"local", rr, "this machine is one node"},
		{"slurm", rr, "not in a Slurm allocation: start caserun from an sbatch script or a salloc shell"},
	} {
		status, text := onFakeNode(t, dir, nil, "mix", "own.yaml", "--node", c.node, "--sched", c.sched)
		if status != exitUsage || !strings.Contains(text, c.says) {
			t.Errorf("%s under %s: exit %d:\n%s", c.node, c.sched, status, text)
		}
	}
	if status, text := onFakeNode(t, dir, nil, "mix", "own.yaml", "--node", "local:0:1", "--sched", rr, "--devices", "0"); status != exitUsage || !strings.Contains(text, "says which GPUs each node has") {
		t.Errorf("--devices: exit %d:\n%s", status, text)
	}
}
