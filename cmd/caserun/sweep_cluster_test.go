//go:build slurm

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// startCluster starts a Slurm whose tasks can be this program.
func startCluster(t *testing.T, extra ...string) *slurmtest.Cluster {
	t.Helper()
	t.Setenv(mainEnv, "1")
	c := slurmtest.Start(t, extra...)
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob("*.parts/*/logs/*")
			for _, name := range logs {
				text, _ := os.ReadFile(name)
				t.Logf("%s:\n%s", name, text[max(0, len(text)-1000):])
			}
		}
	})
	return c
}

// A simulated sweep of 60 blocks on four nodes is, byte for byte, the sweep that is done on one.
func TestSweepOverNodes(t *testing.T) {
	inTempDir(t)
	mustRun(t, nodesSweep("--db", "once.db")...)
	mustRun(t, "store", "merge", "want.db", "once.db")
	startCluster(t)
	out, errs := mustRun(t, nodesSweep("--slurm", "--task-time", "1ms", "--max-nodes", "8", "--collect", "--poll", "1s")...)
	if !strings.Contains(errs, "a task for each of 60 parts, of 60") || !strings.Contains(out, "  15  15  ") {
		t.Errorf("the sweep says:\n%s%s", errs, out)
	}
	if mustRead(t, "caserun.db") != mustRead(t, "want.db") {
		t.Error("the nodes make another store than one machine")
	}
	if _, errs := mustRun(t, "sweep", "--resume", "latest", "--slurm", "--collect"); !strings.Contains(errs, "sweep 1 is complete") {
		t.Errorf("resumed once more, it says:\n%s", errs)
	}
	out, errs = mustRun(t, "sweep", "--resume", "latest", "--reps", "16", "--slurm", "--collect", "--poll", "1s")
	if !strings.Contains(errs, "a task for each of 4 parts, of 60") || !strings.Contains(out, "  16  16  ") {
		t.Errorf("extended, it says:\n%s%s", errs, out)
	}
	mustRun(t, "sweep", "--resume", "latest", "--reps", "16", "--db", "once.db")
	mustRun(t, "store", "merge", "want.db", "once.db")
	if mustRead(t, "caserun.db") != mustRead(t, "want.db") {
		t.Error("extended, the nodes make another store than one machine")
	}
}

// submitted is the name of the array that was submitted last.
func submitted(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.parts/*/submission-?.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("submissions %v, %v", files, err)
	}
	return regexp.MustCompile(`caserun-[0-9a-f]+-[0-9]-[0-9a-f]{6}`).FindString(mustRead(t, files[len(files)-1]))
}

// taskProcesses are the processes of tasks of Slurm whose store is in a directory.
func taskProcesses(t *testing.T, dir string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may be gone
		if strings.Contains(string(text), "\x00sweep\x00task\x00"+dir) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// A live sweep over nodes, each task with a GPU, loses no cell and counts none twice, although tasks are requeued and
// killed.
func TestLiveSweepOverNodes(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "sleep 0.3", ready+"exec cat")
	writeFiles(t, map[string]string{"other.yaml": strings.Replace(mustRead(t, "own.yaml"), "name: own", "name: other", 1)})
	c := startCluster(t)
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(library)+":"+os.Getenv("LD_LIBRARY_PATH"))
	t.Setenv(live.LibraryVariable, library)
	t.Setenv(live.VisibleDevices, "0") // for the plan; tasks have Slurm's
	submit := process(dir, "sweep", "--mixes", "own.yaml,other.yaml", "--scheds", "sa,cg:workers=1", "--reps", "4", "--warmups", "0", "--no-mps", "--node", "local",
		"--slurm", "--gres", "gpu:1", "--time", "1h", "--task-time", "1ms", "--publish", "200ms")
	if out, err := submit.CombinedOutput(); err != nil || !strings.Contains(string(out), "a task for each of 8 parts, of 8") {
		t.Fatalf("%v: %s", err, out)
	}
	name := submitted(t)
	c.Await("a task runs", func() bool { return len(taskProcesses(t, dir)) > 0 })
	if tasks, err := slurm.List(t.Context(), name); err != nil {
		t.Error(err)
	} else if err := slurm.Requeue(t.Context(), tasks[0].Job); err != nil {
		t.Error(err)
	}
	if pids := taskProcesses(t, dir); len(pids) > 0 {
		_ = syscall.Kill(pids[len(pids)-1], syscall.SIGKILL) // it may just have ended
	}
	collect := process(dir, "sweep", "--resume", "latest", "--slurm", "--collect", "--poll", "500ms")
	if out, err := collect.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	counted, err := s.Runs(t.Context(), store.Filter{Status: results.Complete}) // the requeued task may have begun a run
	arms := map[string]int{}
	for _, r := range counted {
		arms[fmt.Sprint(r.Mix, " ", r.Scheduler, " ", r.Repetition)]++
		devices, err := s.Devices(t.Context(), r.ID)
		if err != nil || len(devices) != 1 {
			t.Fatalf("run %d has %d devices, %v; want one", r.ID, len(devices), err)
		}
	}
	if err != nil || len(counted) != 16 || len(arms) != 16 {
		t.Errorf("%d runs count, of %d arms and repetitions (%v); want 16 and 16", len(counted), len(arms), err)
	}
}

// The tasks of a sweep can be cancelled. What they had published is not done again.
func TestCancelledSweepGoesOn(t *testing.T) {
	inTempDir(t)
	mustRun(t, partSweep("--plan-only")...)
	c := startCluster(t)
	mustRun(t, "sweep", "--resume", "latest", "--slurm", "--task-time", "1ms", "--max-nodes", "1")
	name := submitted(t)
	c.Await("a task has ended", func() bool {
		tasks, err := slurm.List(t.Context(), name)
		return err == nil && slices.ContainsFunc(tasks, slurm.Task.Ended)
	})
	if out, _ := mustRun(t, "sweep", "status"); !strings.Contains(out, "1/8") || !strings.Contains(out, "completed on n") || !strings.Contains(out, "pending") {
		t.Errorf("status:\n%s", out)
	}
	if _, errs := mustRun(t, "sweep", "cancel"); !strings.Contains(errs, "cancelled") {
		t.Errorf("cancel says %s", errs)
	}
	c.Await("all tasks have ended", func() bool {
		tasks, err := slurm.List(t.Context(), name)
		return err == nil && !slices.ContainsFunc(tasks, func(t slurm.Task) bool { return !t.Ended() })
	})
	_, errs := mustRun(t, "sweep", "--resume", "latest", "--slurm", "--collect", "--poll", "1s")
	parts := regexp.MustCompile(`task for each of ([0-9]) parts`).FindStringSubmatch(errs)
	if parts == nil || parts[1] == "8" {
		t.Errorf("after a cancellation, all parts are submitted again:\n%s", errs)
	}
	mustRun(t, partSweep("--db", "once.db")...)
	if got, want := countedRows(t, "caserun.db"), countedRows(t, "once.db"); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d: those of the sweep done at once", len(got), len(want))
	}
}

// The transcript of docs/guide/cluster.md. The names of sweeps depend on the program, and directories on the machine.
func TestSlurmTranscript(t *testing.T) {
	const begin, end = "made it on the cluster of the tests -->\n```console\n", "```\n"
	page, err := filepath.Abs("../../docs/guide/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := inTempDir(t)
	startCluster(t)
	var got strings.Builder
	for _, line := range []string{
		"caserun sweep --mixes W1,W7 --scheds sa,case-alg3 --reps 7 --node sim:4xV100 --sim-noise 0.01 --slurm --max-nodes 4 --task-time 100ms",
		"caserun sweep --resume latest --slurm --collect",
		"caserun sweep status",
	} {
		args := strings.Fields(line)[1:]
		if strings.Contains(line, "--collect") {
			args = append(args, "--poll", "500ms")
		}
		out, errs := mustRun(t, args...)
		fmt.Fprintf(&got, "$ %s\n", line)
		for said := range strings.Lines(errs) {
			if strings.Contains(said, "submitted as") {
				got.WriteString(said)
			}
		}
		if rows := strings.SplitAfter(out, "\n"); strings.HasSuffix(line, "status") && len(rows) > 8 {
			// The parts are alike: the page shows the first and the sum.
			out = strings.Join(rows[:5], "") + "...\n" + rows[len(rows)-2]
		}
		got.WriteString(out)
	}
	text := strings.ReplaceAll(got.String(), dir, "/home/you/sweep")
	for _, uid := range regexp.MustCompile("caserun.db.parts/([0-9a-f]{32})").FindAllStringSubmatch(text, -1) {
		text = strings.ReplaceAll(text, uid[1], "3f1c5a0b...")
		text = regexp.MustCompile(uid[1][:12]+"-1-[0-9a-f]{6}").ReplaceAllString(text, "3f1c5a0b2d7e-1-81bd07")
	}
	text = regexp.MustCompile("completed on n[1-4]").ReplaceAllString(text, "completed on n1")
	doc := mustRead(t, page)
	before, rest, found := strings.Cut(doc, begin)
	was, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatal("docs/guide/cluster.md has no transcript")
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case was != text:
		t.Errorf("docs/guide/cluster.md has\n%s\nwant\n%s\n(go test -run SlurmTranscript -update writes it)", was, text)
	}
}
