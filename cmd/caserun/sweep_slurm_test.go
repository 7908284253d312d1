package main

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness/local"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// nodesSweep is a simulated sweep of 60 blocks, after four warm-ups.
func nodesSweep(more ...string) []string {
	return append([]string{"sweep", "--mixes", "W1,W2,W5,W7", "--scheds", "sa,case-alg2,case-alg3", "--node", "sim:2xV100", "--sim-noise", "0.01",
		"--reps", "15", "--warmups", "1"}, more...)
}

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

// slowSweep makes a policy that thinks for some seconds before each of its decisions, in a temporary directory, and
// returns the sweep of nodesSweep with it. Its runs take little processor time. While the directory has a file "hold",
// one in five of the policy's processes does not decide.
func slowSweep(t *testing.T, thinks float64, more ...string) (dir string, plan []string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CASERUN_REQUIRE_PYTHON") != "" {
			t.Fatal(err)
		}
		t.Skip("the slow policy needs python3: ", err)
	}
	policy, err := os.ReadFile(filepath.Join("..", "..", "benchmarks", "policies", "alg3.py"))
	if err != nil {
		t.Fatal(err)
	}
	dir = inTempDir(t)
	think := fmt.Sprintf(`def place(question):
    time.sleep(%v)
    while os.getpid() %% 5 == 0 and os.path.exists("hold"):
        time.sleep(0.1)
`, thinks)
	slow := strings.NewReplacer("import sys\n", "import os\nimport sys\nimport time\n", "def place(question):\n", think).Replace(string(policy))
	if err := os.WriteFile("slow.py", []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	plan = nodesSweep(more...)
	plan[4] = "sa,exec:./slow.py,timeout=10m"
	return dir, plan
}

// A node is lost for good in the middle of a sweep, with all that runs on it. The sweep is complete all the same, and
// the collector says which node it was.
func TestSweepThatLosesANode(t *testing.T) {
	dir, plan := slowSweep(t, 0.005, "--reps", "2")
	mustRun(t, append(plan, "--db", "once.db", "--jobs", "32")...)
	c := startCluster(t)
	mustRun(t, append(plan, "--slurm", "--task-time", "1ms", "--publish", "500ms")...)
	name := submitted(t)
	var task slurm.Task
	c.Await("a task has published a copy", func() bool {
		tasks, err := slurm.List(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		task = tasks[0]
		copies, _ := filepath.Glob(filepath.Join("caserun.db.parts", "*", fmt.Sprintf("part-%05d-*", task.Number)))
		return task.State == "RUNNING" && len(copies) > 0
	})
	collector := process(dir, "sweep", "--resume", "latest", "--slurm", "--collect", "--poll", "500ms")
	var all strings.Builder
	lost := false
	for lines := bufio.NewScanner(started(t, collector)); lines.Scan(); {
		if !lost && strings.Contains(lines.Text(), " running") { // it has listed the tasks
			lost = true
			c.LoseNode(task.Nodes)
		}
		fmt.Fprintln(&all, lines.Text())
	}
	if err := collector.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, &all)
	}
	if want := fmt.Sprintf("task %d is started again: %s, where it ran, is down\n", task.Number, task.Nodes); !strings.Contains(all.String(), want) {
		t.Errorf("the collector does not say %q:\n%s", want, &all)
	}
	got, want := countedRows(t, "caserun.db"), countedRows(t, "once.db")
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d: those of the sweep done at once", len(got), len(want))
	}
}

// Tasks, nodes, the controller and the collector are killed, and tasks are requeued. Nothing is lost and nothing
// counts twice.
func TestSweepOverNodesThatFail(t *testing.T) {
	const kills, requeues = 20, 5
	dir, plan := slowSweep(t, 0.02)
	mustRun(t, append(plan, "--db", "once.db", "--jobs", "32")...)
	writeFiles(t, map[string]string{"hold": ""}) // the sweep does not end before all is done to it
	c := startCluster(t)
	// Eight tasks run at a time, two on each node, so that machines with few cores keep up.
	mustRun(t, append(plan, "--slurm", "--task-time", "1ms", "--publish", "2s", "--sbatch-arg=--cpus-per-task=2")...)
	random := rand.New(rand.NewPCG(7, 1))
	var collector *exec.Cmd
	var ended chan error // what the collector ended with
	said := &strings.Builder{}
	collect := func() {
		collector = process(dir, "sweep", "--resume", "latest", "--slurm", "--collect", "--poll", "500ms")
		collector.Stdout, collector.Stderr = said, said
		if err := collector.Start(); err != nil {
			t.Fatal(err)
		}
		ended = make(chan error, 1)
		go func(c *exec.Cmd, ended chan<- error) { ended <- c.Wait() }(collector, ended)
	}
	collect()
	// hit reports whether what was to be disturbed was there.
	hit := func(kind string) bool {
		tasks, _ := slurm.List(t.Context(), submitted(t)) // the controller may be away
		tasks = slices.DeleteFunc(tasks, func(t slurm.Task) bool { return t.State != "RUNNING" })
		if len(tasks) == 0 {
			c.ResumeNodes()
			return false
		}
		task := tasks[random.IntN(len(tasks))]
		switch kind {
		case "requeue":
			return slurm.Requeue(t.Context(), task.Job) == nil
		case "task":
			pids := taskProcesses(t, dir)
			return len(pids) > 0 && syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL) == nil
		case "node":
			c.KillNode(task.Nodes)
			c.StartNode(task.Nodes)
		case "controller":
			c.KillController()
			c.StartController()
			c.Await("the controller answers", func() bool { _, err := slurm.List(t.Context(), submitted(t)); return err == nil })
		case "collector":
			_ = collector.Process.Kill()
			killed := <-ended != nil && !collector.ProcessState.Exited()
			collect()
			return killed
		}
		return true
	}
	hits := map[string]int{}
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	failed, registered := 0, false
	for n, complete := 0, false; !complete; {
		select {
		case err := <-ended:
			if complete = err == nil; complete {
				break
			}
			// Tasks were started again too often. Their parts are submitted once more.
			if failed++; failed > kills {
				t.Fatalf("after %v: %v:\n%s", hits, err, said)
			}
			collect()
		case <-again.C:
			if n == kills+requeues {
				_ = os.Remove("hold")
				c.ResumeNodes()
				registered = registered || c.RegisterNodes()
				break
			}
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // so that it hits at any moment
			kind := []string{"task", "task", "node", "controller", "collector"}[random.IntN(5)]
			if n%5 == 4 {
				kind = "requeue"
			}
			if hit(kind) {
				hits[kind]++
				n++
			}
		}
	}
	if got := hits["task"] + hits["node"] + hits["controller"] + hits["collector"]; got != kills || hits["requeue"] != requeues {
		t.Errorf("the sweep was complete after %v: want %d kills and %d requeues", hits, kills, requeues)
	}
	got, want := countedRows(t, "caserun.db"), countedRows(t, "once.db")
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d rows after %v, want %d: those of the sweep done at once", len(got), hits, len(want))
	}
	t.Logf("%v", hits)
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
	t.Setenv(local.VisibleDevices, "0") // for the plan; tasks have Slurm's
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
	counted, err := s.Runs(t.Context(), store.Filter{})
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
	if status, _, errs := caserun(t, partSweep("--gres", "gpu:1")...); status != exitUsage || !strings.Contains(errs, "add --slurm") {
		t.Errorf("--gres alone: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, partSweep("--poll", "1s")...); status != exitUsage || !strings.Contains(errs, "--poll is for a sweep that Slurm spreads: add --slurm") {
		t.Errorf("--poll alone: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, partSweep("--slurm", "--time", "1m")...); status != exitUsage || !strings.Contains(errs, "want more than 2m") {
		t.Errorf("--time 1m: exit %d: %s", status, errs)
	}
	mustRun(t, partSweep("--plan-only")...)
	if status, _, errs := caserun(t, "sweep", "cancel"); status != exitUsage || !strings.Contains(errs, "was not submitted to Slurm") {
		t.Errorf("cancel before: exit %d: %s", status, errs)
	}
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

// The transcript of docs/slurm.md. The names of sweeps depend on the program, and directories on the machine.
func TestSlurmTranscript(t *testing.T) {
	const begin, end = "made it on the cluster of the tests -->\n```console\n", "```\n"
	page, err := filepath.Abs("../../docs/slurm.md")
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
		t.Fatal("docs/slurm.md has no transcript")
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case was != text:
		t.Errorf("docs/slurm.md has\n%s\nwant\n%s\n(go test -run SlurmTranscript -update writes it)", was, text)
	}
}

// Users see why tasks wait: each task's reason in the status, and what to do about one that may not end by itself.
func TestWhyTasksWait(t *testing.T) {
	dir := inTempDir(t)
	bin := t.TempDir()
	for name, script := range map[string]string{
		"scontrol": "echo MaxArraySize = 1001",
		"sbatch":   "cat >/dev/null; for a; do case $a in --job-name=*) echo ${a#--job-name=} >" + bin + "/name;; esac; done; echo 12",
		"squeue": "[ -e " + bin + `/name ] || exit 0; read -r name <` + bin + `/name
while read -r line; do echo "12|$line|$name|"; done <<'END'
0|RUNNING|0|n2|None
1|PENDING|1||ReqNodeNotAvail, UnavailableNodes:n1
2|PENDING|0||Resources
3|PENDING|0||Priority
4|PENDING|0||Priority
5|PENDING|0||None
END`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	mustRun(t, partSweep("--slurm", "--task-time", "1ms")...)
	out, _ := mustRun(t, "sweep", "status")
	for _, want := range []string{"running on n2\n", "pending: ReqNodeNotAvail, started", "pending: Resources\n", "pending: Priority\n", "pending\n",
		"1 task waits: ReqNodeNotAvail, UnavailableNodes:n1: sinfo -R shows why"} {
		if !strings.Contains(out, want) {
			t.Errorf("the status has no %q:\n%s", want, out)
		}
	}
	collect := process(dir, "sweep", "--resume", "latest", "--slurm", "--collect", "--poll", "10ms")
	wanted := map[string]bool{"tasks: 1 running, 5 waiting (1 ReqNodeNotAvail, 1 Resources, 2 Priority), 0 ended": true, ": 1 task waits: ReqNodeNotAvail, UnavailableNodes:n1: sinfo -R ": true}
	var all []string
	for lines := bufio.NewScanner(started(t, collect)); len(wanted) > 0 && lines.Scan(); {
		all = append(all, lines.Text())
		for want := range wanted {
			if strings.Contains(lines.Text(), want) {
				delete(wanted, want)
			}
		}
	}
	if len(wanted) > 0 {
		t.Errorf("the collector says\n%s\nand not %v", strings.Join(all, "\n"), slices.Collect(maps.Keys(wanted)))
	}
	_ = collect.Process.Kill()
	_ = collect.Wait()
}

// Of two programs that submit a sweep at once, one submits it. The other one says that it must wait, and does
// not submit it again afterwards.
func TestTwoSubmit(t *testing.T) {
	dir := inTempDir(t)
	bin := t.TempDir()
	for name, script := range map[string]string{
		"scontrol": "echo MaxArraySize = 1001",
		"squeue":   "true",
		"sbatch":   "cat >/dev/null; cd " + bin + "; echo >>submitted; [ -e waits ] || { : >waits; read -r _ <go; }; echo 12",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(bin, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Run("a submission that fails can be tried again", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir()) // without Slurm
		code, _, errs := caserun(t, nodesSweep("--slurm", "--db", "fails.db")...)
		if code != exitInfrastructure || !strings.Contains(errs, "; sweep 1 is in the store: caserun sweep --resume 1 --db fails.db --slurm tries again") {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
	mustRun(t, nodesSweep("--plan-only")...)
	submit := []string{"sweep", "--resume", "latest", "--slurm", "--task-time", "1ms"}
	first := process(dir, submit...)
	said := &strings.Builder{}
	first.Stdout, first.Stderr = said, said
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	letGo, err := os.OpenFile(filepath.Join(bin, "go"), os.O_WRONLY, 0) // once sbatch waits
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := caserun(t, submit...); code != exitInfrastructure || !strings.Contains(errs, "another program submits the sweep now: wait for it") {
		t.Errorf("the second ends with %d and says:\n%s", code, errs)
	}
	if _, err := letGo.WriteString("\n"); err != nil {
		t.Error(err)
	}
	if err := first.Wait(); err != nil || !strings.Contains(said.String(), "submitted as") {
		t.Errorf("the first ends with %v and says:\n%s", err, said)
	}
	if mustRead(t, filepath.Join(bin, "submitted")) != "\n" {
		t.Error("the sweep was submitted more than once")
	}
}
