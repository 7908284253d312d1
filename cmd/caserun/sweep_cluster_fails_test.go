//go:build slurm && python

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/runner/slurm"
)

// slowSweep makes a policy that thinks for some seconds before each of its decisions, in a temporary directory, and
// returns the sweep of nodesSweep with it. Its runs take little processor time. While the directory has a file "hold",
// one in five of the policy's processes does not decide. While it has a file "hold-all", none does, and a file held-N
// says that task N waits for that.
func slowSweep(t *testing.T, thinks float64, reps string) (dir string, plan []string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("the slow policy needs python3: install it: ", err)
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
    while os.path.exists("hold-all"):
        open("held-" + os.environ["SLURM_ARRAY_TASK_ID"], "w").close()
        time.sleep(0.1)
`, thinks)
	slow := strings.NewReplacer("import sys\n", "import os\nimport sys\nimport time\n", "def place(question):\n", think).Replace(string(policy))
	if err := os.WriteFile("slow.py", []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	plan = nodesSweep()
	plan[4], plan[slices.Index(plan, "--reps")+1] = "sa,exec:./slow.py,timeout=10m", reps
	return dir, plan
}

// A node is lost for good in the middle of a sweep, with all that runs on it. The sweep is complete all the same, and
// the collector says which node it was.
func TestSweepThatLosesANode(t *testing.T) {
	dir, plan := slowSweep(t, 0.005, "2")
	mustRun(t, append(plan, "--db", "once.db", "--jobs", "32")...)
	writeFiles(t, map[string]string{"hold-all": ""})
	c := startCluster(t)
	mustRun(t, append(plan, "--slurm", "--task-time", "1ms", "--publish", "500ms")...)
	name := submitted(t)
	var task slurm.Task
	c.Await("a task that cannot end yet has published a copy", func() bool {
		tasks, err := slurm.List(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(tasks, func(task slurm.Task) bool {
			copies, _ := filepath.Glob(filepath.Join("caserun.db.parts", "*", fmt.Sprintf("part-%05d-*", task.Number)))
			_, held := os.Stat(fmt.Sprintf("held-%d", task.Number))
			return task.State == "RUNNING" && len(copies) > 0 && held == nil
		})
		if at >= 0 {
			task = tasks[at]
		}
		return at >= 0
	})
	collector := process(dir, "sweep", "--resume", "latest", "--slurm", "--collect", "--poll", "500ms")
	var all strings.Builder
	lost := false
	for lines := bufio.NewScanner(started(t, collector)); lines.Scan(); {
		if !lost && strings.Contains(lines.Text(), " running") { // it has listed the tasks
			lost = true
			c.LoseNode(task.Nodes)
			if err := os.Remove("hold-all"); err != nil {
				t.Error(err)
			}
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
	kills, requeues := chance.Count(8, 40), chance.Count(2, 10)
	dir, plan := slowSweep(t, 0.02, "15")
	mustRun(t, append(plan, "--db", "once.db", "--jobs", "32")...)
	writeFiles(t, map[string]string{"hold": ""}) // the sweep does not end before all is done to it
	c := startCluster(t)
	// Eight tasks run at a time, two on each node, so that machines with few cores keep up.
	mustRun(t, append(plan, "--slurm", "--task-time", "1ms", "--publish", "2s", "--sbatch-arg=--cpus-per-task=2")...)
	random := drawing(t, 7)
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
	again := time.NewTimer(0)
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
			again.Reset(500*time.Millisecond + time.Duration(random.IntN(500))*time.Millisecond) // so that it hits at any moment
			if n == kills+requeues {
				_ = os.Remove("hold")
				c.ResumeNodes()
				registered = registered || c.RegisterNodes()
				break
			}
			kind := []string{"task", "node", "collector", "task", "controller"}[(n-hits["requeue"])%5] // eight kills have all
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
