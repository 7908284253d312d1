package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testdata/squeue.txt has lines that Slurm 22.05.8 printed for fields, of several lists. The names are ours.
func TestParseTasks(t *testing.T) {
	out, err := os.ReadFile("testdata/squeue.txt")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := parseTasks(string(out), "again")
	want := []Task{
		{Number: 0, Job: "6_0", State: "CANCELLED", Restarts: 1, Nodes: "n3", Reason: "None"},
		{Number: 1, Job: "6_1", State: "COMPLETED", Nodes: "n1", Reason: "None"},
		{Number: 2, Job: "6_2", State: "PENDING", Restarts: 1, Reason: "launch failed requeued held"},
		{Number: 3, Job: "6_3", State: "PENDING", Reason: "JobArrayTaskLimit"},
		{Number: 8, Job: "7_0", State: "RUNNING", Restarts: 2, Nodes: "n2", Reason: "None"},
		{Number: 9, Job: "7_1", State: "COMPLETING", Nodes: "n2", Reason: "None"},
	}
	if diff := cmp.Diff(want, tasks); diff != "" || err != nil {
		t.Errorf("%v, tasks (-want +got):\n%s", err, diff)
	}
	for i, ended := range []bool{true, true, false, false, false, false} {
		if tasks[i].Ended() != ended || tasks[i].Held() != (i == 2) {
			t.Errorf("%+v: ended %v, held %v", tasks[i], tasks[i].Ended(), tasks[i].Held())
		}
	}
}

func TestParseTasksIsStrict(t *testing.T) {
	for _, line := range []string{
		"6|0|RUNNING|0|n1|again+0|",
		"6|0|RUNNING|0|n1|None|again+0",
		"6|0|RUNNING|0|n1|None|again+0|more|",
		"6|N/A|RUNNING|0|n1|None|again+0|",
		"6|0|RUNNING|x|n1|None|again+0|",
		"x|0|RUNNING|0|n1|None|again+0|",
		"6|0||0|n1|None|again+0|",
		"6|0|RUNNING|0|n1|None|again+x|",
	} {
		if tasks, err := parseTasks(line+"\n", "again"); err == nil {
			t.Errorf("%s: %+v, want an error", line, tasks)
		}
	}
}

func TestParsable(t *testing.T) {
	for out, want := range map[string]string{"12\n": "12", "12;cluster\n": "12", "sbatch: your project has 12 h left\n47\n": "47", "": "", "Submitted batch job 12\n": "", "-1\n": ""} {
		if job, err := parsable(out); job != want || (err == nil) != (want != "") {
			t.Errorf("%q: job %q, %v; want %q", out, job, err, want)
		}
	}
}

func TestWithoutSlurm(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := List(t.Context(), "any"); err == nil || !strings.Contains(err.Error(), "login node") {
		t.Error(err)
	}
}

func TestParseEnd(t *testing.T) {
	for text, want := range map[string]time.Time{"1795437133": time.Unix(1795437133, 0), "N/A": {}, "NONE": {}, "Unknown": {}} {
		if end, err := parseEnd(text); err != nil || !end.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, end, err, want)
		}
	}
	for _, text := range []string{"", "2026-11-23T12:32:13", "-1", "1\n2"} {
		if end, err := parseEnd(text); err == nil {
			t.Errorf("%q: %v, want an error", text, end)
		}
	}
}

// A task's command gets its arguments as they are, and in a container if there is one.
func TestScript(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"apptainer": `echo in "$@" until $SLURM_JOB_END_TIME`,
		"squeue":    `[ "$SLURM_TIME_FORMAT $*" = "%s --noheader --states=all --jobs=12_3 --format=%e" ] && echo 1700000000`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := []string{"printf", "<%s>", "{task}", "{task}/20", "it's", `"$HOME" ` + "`x` \\", "", "two\nlines"}
	for _, c := range []struct {
		array Array
		want  string
	}{
		{Array{Command: command}, "<11><{task}/20><it's><\"$HOME\" `x` \\><><two\nlines>"},
		{Array{Command: []string{"run", "{task}"}, Container: "my image.sif"}, "in exec my image.sif run 11 until 1700000000\n"},
		{Array{Command: []string{"run"}, Container: "i.sif", Gres: "gpu:1"}, "in exec --nv i.sif run until 1700000000\n"},
	} {
		sh := exec.Command("sh")
		sh.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "SLURM_ARRAY_JOB_ID=12", "SLURM_ARRAY_TASK_ID=3", "HOME=wrong"}
		sh.Stdin = strings.NewReader(c.array.script(8))
		if out, err := sh.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%q: %q, %v; want %q", c.array.Command, out, err, c.want)
		}
	}
}

func TestArguments(t *testing.T) {
	a := Array{Name: "sweep-1", Concurrent: 4, Logs: "/logs", Gres: "gpu:2", Partition: "p", Account: "a", Time: 61 * time.Second, Args: []string{"--qos=low"},
		Tasks: 15, Command: []string{"true"}}
	want := []string{"sbatch", "--parsable", "--gres=gpu:2", "--partition=p", "--account=a", "--time=2", "--qos=low",
		"--job-name=sweep-1+8", "--array=0-6%4", "--nodes=1", "--requeue", "--open-mode=append", "--output=/logs/%x-%a.log",
		"--signal=B:TERM@120"}
	calls, err := a.Calls(7)
	if err != nil || len(calls) != 3 || calls[0].Waits || !calls[1].Waits || !strings.Contains(calls[1].Script, "8 + SLURM_ARRAY_TASK_ID") {
		t.Fatalf("%+v, %v", calls, err)
	}
	if diff := cmp.Diff(want, calls[1].Command); diff != "" {
		t.Error(diff)
	}
	if got := After("12"); got != "--dependency=afterany:12" {
		t.Error(got)
	}
	a.Concurrent = 0 // no limit that arrays would exceed together
	if calls, err := a.Calls(15); err != nil || len(calls) != 1 || calls[0].Waits {
		t.Errorf("%+v, %v", calls, err)
	}
}

func TestArraysThatCannotBe(t *testing.T) {
	for want, a := range map[string]Array{
		"name of an array job": {Name: "a+b", Tasks: 1, Command: []string{"true"}},
		"0 tasks":              {Name: "a", Command: []string{"true"}},
		"-1 tasks at a time":   {Name: "a", Tasks: 1, Concurrent: -1, Command: []string{"true"}},
		"no command":           {Name: "a", Tasks: 1},
		"a \\ in its name":     {Name: "a", Tasks: 1, Command: []string{"true"}, Logs: `/a\b`},
		"/100%":                {Name: "a", Tasks: 1, Command: []string{"true"}, Logs: "/100%"},
	} {
		if _, err := a.Submit(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
}

// An array of which a part is refused leaves no job.
func TestSubmitAllOrNothing(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"scontrol": "echo 'MaxArraySize            = 5'",
		"sbatch":   "for a; do case $a in *+6) echo limit >&2; exit 1;; esac; done; echo 12",
		"scancel":  `echo "$@" >"$0.said"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	jobs, err := Array{Name: "a", Tasks: 6, Command: []string{"true"}}.Submit(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 1: limit") || jobs != nil {
		t.Errorf("jobs %v, error %v", jobs, err)
	}
	if said, err := os.ReadFile(filepath.Join(bin, "scancel.said")); string(said) != "12\n" {
		t.Errorf("cancelled %q, %v; want job 12", said, err)
	}
}

// A job whose number sbatch does not tell is found by its name, and cancelled.
func TestSubmitWithoutANumber(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"scontrol": "echo MaxArraySize = 5",
		"sbatch":   "echo submitted",
		"squeue":   "echo '47|0|PENDING|0||None|a+1|'; echo '48|0|PENDING|0||None|b+1|'",
		"scancel":  `echo "$@" >"$0.said"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	if _, err := (Array{Name: "a", Tasks: 2, Command: []string{"true"}}).Submit(t.Context()); err == nil || !strings.Contains(err.Error(), `not "submitted"`) {
		t.Errorf("error %v", err)
	}
	if said, err := os.ReadFile(filepath.Join(bin, "scancel.said")); string(said) != "47\n" {
		t.Errorf("cancelled %q, %v; want job 47", said, err)
	}
}

func TestCurrent(t *testing.T) {
	for _, name := range []string{"SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_CPUS_ON_NODE", "SLURM_JOB_END_TIME"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	outside := func(when string) {
		t.Helper()
		if a, err := Current(); a != nil || err != nil {
			t.Errorf("%s: %+v, %v", when, a, err)
		}
	}
	outside("without Slurm")
	t.Setenv("SLURM_JOB_ID", "14")
	outside("in a shell of salloc")
	t.Setenv("SLURMD_NODENAME", "n1")
	t.Setenv("SLURM_CPUS_ON_NODE", "1")
	if a, err := Current(); err != nil || *a != (Allocation{Job: "14", CPUs: 1}) {
		t.Errorf("in a job: %+v, %v", a, err)
	}
	t.Setenv("SLURM_ARRAY_JOB_ID", "12")
	t.Setenv("SLURM_ARRAY_TASK_ID", "3")
	t.Setenv("SLURM_RESTART_COUNT", "2")
	t.Setenv("SLURM_JOB_END_TIME", "1795437133")
	a, err := Current()
	if err != nil || *a != (Allocation{Job: "12_3", Restarts: 2, CPUs: 1}) {
		t.Fatalf("in a task: %+v, %v", a, err)
	}
	if end, err := a.End(t.Context()); err != nil || end.Unix() != 1795437133 {
		t.Errorf("its time ends at %v, %v", end, err)
	}
	t.Setenv("SLURM_CPUS_ON_NODE", "many")
	if a, err := Current(); err == nil || !strings.Contains(err.Error(), `job 12_3 of Slurm: SLURM_CPUS_ON_NODE is "many"`) {
		t.Errorf("%+v, %v", a, err)
	}
}
