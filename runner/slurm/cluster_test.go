//go:build slurm

package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// taskVariable makes this test binary the program of a task.
const taskVariable = "SLURM_TEST_TASK"

func TestMain(m *testing.M) {
	if os.Getenv(taskVariable) != "" {
		status, err := task(os.Args[1], os.Args[2], os.Args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// report is what a task leaves in the file NUMBER-RESTARTS.
type report struct {
	Allocation
	Node, GPUs string
	End        time.Time
	Terminated bool
}

// task reports, and waits for SIGTERM or until so many tasks have reported. A task that shares its GPU
// with another one fails.
func task(dir, number, together string) (status int, err error) {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	a, err := Current()
	if err != nil || a == nil {
		return 0, fmt.Errorf("allocation %v: %w", a, err)
	}
	r := report{Allocation: *a, Node: os.Getenv("SLURMD_NODENAME"), GPUs: os.Getenv("CUDA_VISIBLE_DEVICES")}
	if r.End, err = a.End(context.Background()); err != nil {
		return 0, err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d", number, r.Restarts))
	if r.GPUs != "" {
		gpu := filepath.Join(dir, "gpu-"+r.Node+"-"+r.GPUs)
		if err := os.Mkdir(gpu, 0o755); err != nil {
			return 0, fmt.Errorf("two tasks have a GPU: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(gpu)) }()
	}
	if err := r.write(path); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(together)
	if err != nil {
		return 0, err
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-terms:
			r.Terminated = true
			return 143, r.write(path)
		case <-again.C:
		}
		if reported, err := filepath.Glob(filepath.Join(dir, "*-[0-9]")); err != nil || len(reported) >= n {
			return 0, err
		}
	}
}

func (r report) write(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// cluster starts a cluster whose arrays have at most eight tasks. Tasks run this program.
func cluster(t *testing.T) *slurmtest.Cluster {
	t.Helper()
	t.Setenv(taskVariable, "1")
	// What users have set neither hides tasks nor sends them elsewhere.
	t.Setenv("SQUEUE_STATES", "SUSPENDED")
	t.Setenv("SQUEUE_SORT", "-i")
	t.Setenv("SLURM_TIME_FORMAT", "relative")
	t.Setenv("SBATCH_ARRAY_INX", "7")
	t.Setenv("TZ", "Asia/Kathmandu")
	return slurmtest.Start(t, "MaxArraySize=8")
}

// array has tasks that wait for each other, or for SIGTERM.
func array(t *testing.T, name string, tasks, together int) (a Array, dir string) {
	t.Helper()
	dir = t.TempDir()
	return Array{Name: name, Tasks: tasks, Logs: dir, Command: []string{os.Args[0], dir, TaskNumber, strconv.Itoa(together)}}, dir
}

func submit(t *testing.T, a Array) []string {
	t.Helper()
	jobs, err := a.Submit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(a.Logs, "*.log"))
			for _, name := range logs {
				text, _ := os.ReadFile(name)
				t.Logf("%s:\n%s", name, text)
			}
		}
	})
	return jobs
}

func list(t *testing.T, a Array) []Task {
	t.Helper()
	tasks, err := List(t.Context(), a.Name)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// reported reads a report; ok is false if the task has not written it yet.
func reported(t *testing.T, dir string, number, restarts int) (r report, ok bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d-%d", number, restarts)))
	if errors.Is(err, os.ErrNotExist) {
		return r, false
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, true
}

func allEnded(tasks []Task) bool {
	return !slices.ContainsFunc(tasks, func(t Task) bool { return !t.Ended() })
}

// Twenty tasks are three arrays of this cluster. Eight run at once, each with a GPU of its own.
func TestTasksHaveTheirGPUsAlone(t *testing.T) {
	c := cluster(t)
	a, dir := array(t, "twenty", 20, 8)
	a.Gres, a.Partition, a.Time = "gpu:1", "main", 90*time.Second
	before := time.Now()
	if jobs := submit(t, a); len(jobs) != 3 {
		t.Errorf("20 tasks are the arrays %v, want three", jobs)
	}
	if other, _ := array(t, "twent", 1, 1); len(list(t, other)) > 0 {
		t.Errorf("tasks of %s are listed as those of %s", a.Name, other.Name)
	}
	if tasks := list(t, a); len(tasks) != a.Tasks {
		t.Errorf("%d tasks are listed, want %d", len(tasks), a.Tasks)
	}
	c.Await("all tasks have ended", func() bool { return allEnded(list(t, a)) })
	gpus := map[string]int{}
	for i, task := range list(t, a) {
		r, ok := reported(t, dir, i+1, 0)
		if task.Number != i+1 || task.State != "COMPLETED" || task.Restarts != 0 || !ok || r.Node != task.Nodes {
			t.Errorf("task %d: %+v; it reported %+v", i, task, r)
		}
		if r.CPUs != 1 || r.Job != task.Job {
			t.Errorf("task %d: its allocation is %+v, want job %s with one CPU", i, r.Allocation, task.Job)
		}
		// Slurm rounds 90 s up to two minutes, and its times down to seconds.
		if least, most := before.Add(2*time.Minute-time.Second), time.Now().Add(2*time.Minute); r.End.Before(least) || r.End.After(most) {
			t.Errorf("task %d: its time ends at %v, want %v to %v", i, r.End, least, most)
		}
		gpus[r.Node+" "+r.GPUs]++
	}
	if len(gpus) != 8 {
		t.Errorf("tasks had the GPUs %v, want eight", gpus)
	}
}

// The arrays of a limited number of tasks at a time run one after another.
func TestConcurrent(t *testing.T) {
	c := cluster(t)
	a, _ := array(t, "two", 10, 2)
	a.Concurrent = 2
	submit(t, a)
	c.Await("all tasks have ended", func() bool {
		tasks := list(t, a)
		running := slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return t.State != "RUNNING" })
		if len(running) > a.Concurrent {
			t.Errorf("%d tasks run, want at most %d: %+v", len(running), a.Concurrent, tasks)
		}
		return allEnded(tasks)
	})
	for _, task := range list(t, a) {
		if task.State != "COMPLETED" {
			t.Errorf("%+v", task)
		}
	}
}

// A task that is requeued gets SIGTERM, and begins again with one restart more. The other task goes on,
// although one of the two has the array's own number.
func TestRequeue(t *testing.T) {
	c := cluster(t)
	for number := 1; number <= 2; number++ {
		a, dir := array(t, fmt.Sprintf("again%d", number), 2, 3)
		submit(t, a)
		both := func() bool {
			_, one := reported(t, dir, 1, 0)
			_, two := reported(t, dir, 2, 0)
			return one && two
		}
		c.Await("the tasks have reported", both)
		first, _ := reported(t, dir, number, 0)
		// The backfill scheduler makes a year of no limit.
		if !first.End.IsZero() && first.End.Before(time.Now().AddDate(0, 11, 0)) {
			t.Errorf("the partition has no limit, and the task's time ends at %v", first.End)
		}
		if err := Requeue(t.Context(), first.Job); err != nil {
			t.Fatal(err)
		}
		c.Await("the tasks have ended", func() bool { return allEnded(list(t, a)) })
		first, _ = reported(t, dir, number, 0)
		second, ok := reported(t, dir, number, 1)
		if !first.Terminated || !ok || second.Restarts != 1 || second.Job != first.Job {
			t.Errorf("task %d: first %+v, second %+v", number, first, second)
		}
		for _, task := range list(t, a) {
			if again := task.Number == number; task.State != "COMPLETED" || (task.Restarts > 0) != again {
				t.Errorf("task %d was requeued; at the end there is %+v", number, task)
			}
		}
		if log, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s+1-%d.log", a.Name, number-1))); err != nil || !strings.Contains(string(log), "DUE TO JOB REQUEUE") {
			t.Errorf("the second start has overwritten the log of the first: %q, %v", log, err)
		}
	}
}

// A task whose node says nothing any more begins again on another one. One that may run nowhere else waits, and Slurm
// says why.
func TestLostNode(t *testing.T) {
	c := cluster(t)
	t.Setenv("SINFO_PARTITION", "none") // what users have set does not hide nodes
	a, dir := array(t, "lost", 1, 2)
	submit(t, a)
	c.Await("the task has reported", func() bool { _, ok := reported(t, dir, 1, 0); return ok })
	first, _ := reported(t, dir, 1, 0)
	state := func() string {
		states, err := NodeStates(t.Context(), first.Node, "n9")
		if err != nil || len(states) != 1 {
			t.Errorf("states %v, %v; want that of %s", states, err, first.Node)
		}
		return states[first.Node]
	}
	if state() != "mixed" {
		t.Errorf("%s, where a task runs, is %s", first.Node, state())
	}
	c.KillNode(first.Node)
	there, _ := array(t, "there", 1, 1)
	there.Args = []string{"--nodelist=" + first.Node, "--exclusive"}
	submit(t, there)
	c.Await("the other task waits for the node", func() bool {
		waits := Waits(list(t, there))
		return len(waits) == 1 && waits[0].Remedy == nodesRemedy
	})
	c.Await("the node is down", func() bool { return Gone(state()) })
	if state() != "down" {
		t.Errorf("%s, which is lost, is %s", first.Node, state())
	}
	c.Await("the task has ended", func() bool { return allEnded(list(t, a)) })
	second, ok := reported(t, dir, 1, 1)
	if tasks := list(t, a); !ok || second.Node == first.Node || tasks[0].State != "COMPLETED" || tasks[0].Restarts != 1 {
		t.Errorf("first %+v, second %+v, at the end %+v", first, second, tasks)
	}
}

// A controller that is killed may forget that it has started tasks. It starts them again, on other nodes
// once the tasks are released.
func TestLostController(t *testing.T) {
	c := cluster(t)
	a, dir := array(t, "kept", 2, 3)
	submit(t, a)
	c.Await("the tasks have reported", func() bool {
		_, one := reported(t, dir, 1, 0)
		_, two := reported(t, dir, 2, 0)
		return one && two
	})
	c.KillController()
	if _, err := List(t.Context(), a.Name); !errors.Is(err, ErrNoController) {
		t.Errorf("without a controller: %v", err)
	}
	c.StartController()
	c.Await("the controller answers", func() bool { _, err := List(t.Context(), a.Name); return err == nil })
	if err := os.WriteFile(filepath.Join(dir, "3-0"), nil, 0o644); err != nil { // the third report
		t.Fatal(err)
	}
	c.Await("the tasks have ended", func() bool {
		c.ResumeNodes()
		tasks := list(t, a)
		for _, task := range tasks {
			if task.Held() {
				if err := Release(t.Context(), task.Job); err != nil {
					t.Error(err)
				}
			}
		}
		return allEnded(tasks)
	})
	for _, task := range list(t, a) {
		if task.State != "COMPLETED" {
			t.Errorf("%+v", task)
		}
	}
}

// Cancel ends the tasks that run and those that wait, and no other job.
func TestCancel(t *testing.T) {
	c := cluster(t)
	a, dir := array(t, "many", 20, 100)
	a.Gres = "gpu:2"
	submit(t, a)
	other, there := array(t, "many2", 1, 2)
	submit(t, other)
	c.Await("a task has reported", func() bool { _, ok := reported(t, dir, 1, 0); return ok })
	c.Await("the other task has reported", func() bool { _, ok := reported(t, there, 1, 0); return ok })
	if n, err := Cancel(t.Context(), a.Name); n != 20 || err != nil {
		t.Errorf("cancelled %d tasks, %v; want 20", n, err)
	}
	c.Await("all tasks have ended", func() bool { return allEnded(list(t, a)) })
	for _, task := range list(t, a) {
		if task.State != "CANCELLED" {
			t.Errorf("%+v", task)
		}
	}
	if r, _ := reported(t, dir, 1, 0); !r.Terminated {
		t.Error("a task that was cancelled got no SIGTERM")
	}
	if n, err := Cancel(t.Context(), a.Name); n != 0 || err != nil {
		t.Errorf("cancelled %d tasks once more, %v", n, err)
	}
	if tasks := list(t, other); len(tasks) != 1 || tasks[0].State != "RUNNING" {
		t.Errorf("the other array's tasks are %+v", tasks)
	}
}

// What Slurm refuses says what to do, and leaves no job.
func TestRefused(t *testing.T) {
	cluster(t)
	for name, c := range map[string]struct {
		change func(*Array)
		want   string
	}{
		"gres":      {func(a *Array) { a.Gres = "gpux:1" }, "exit status 1: sbatch: error: Invalid generic resource (gres) specification: --gres must name"},
		"partition": {func(a *Array) { a.Partition = "nope" }, "Invalid partition name specified: sinfo -s lists"},
		"memory":    {func(a *Array) { a.Args = []string{"--mem=99999999"} }, "Requested node configuration is not available: no node has"},
		"argument":  {func(a *Array) { a.Args = []string{"--bogus"} }, "unrecognized option '--bogus'"},
	} {
		a, _ := array(t, name, 20, 1)
		c.change(&a)
		jobs, err := a.Submit(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "sbatch --parsable ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: jobs %v, error %v; want %s", name, jobs, err, c.want)
		}
		if tasks := list(t, a); !allEnded(tasks) {
			t.Errorf("%s: it left %+v", name, tasks)
		}
	}
}
