package main

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// nodesSweep is a simulated sweep of 60 blocks, after four warm-ups.
func nodesSweep(more ...string) []string {
	return append([]string{"sweep", "--mixes", "W1,W2,W5,W7", "--scheds", "sa,case-alg2,case-alg3", "--node", "sim:2xV100", "--sim-noise", "0.01",
		"--reps", "15", "--warmups", "1"}, more...)
}

// What is for Slurm is refused without it, and what was not submitted is not cancelled.
func TestSlurmFlagsThatCannotBe(t *testing.T) {
	inTempDir(t)
	if status, _, errs := caserun(t, partSweep("--gres", "gpu:1")...); status != exitUsage || !strings.Contains(errs, "--gres requires --slurm") {
		t.Errorf("--gres alone: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, partSweep("--poll", "1s")...); status != exitUsage || !strings.Contains(errs, "--poll requires --slurm") {
		t.Errorf("--poll alone: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, partSweep("--slurm", "--time", "1m")...); status != exitUsage || !strings.Contains(errs, "want more than 2m") {
		t.Errorf("--time 1m: exit %d: %s", status, errs)
	}
	mustRun(t, partSweep("--plan-only")...)
	if status, _, errs := caserun(t, "sweep", "cancel"); status != exitUsage || !strings.Contains(errs, "was not submitted to Slurm") {
		t.Errorf("cancel before: exit %d: %s", status, errs)
	}
}

// --slurm --dry-run shows the tasks and the calls of sbatch, submits nothing and writes nothing, also where Slurm is not.
func TestSlurmDryRun(t *testing.T) {
	dir := inTempDir(t)
	bin := t.TempDir()
	for name, script := range map[string]string{
		"scontrol": "echo MaxArraySize = 25",
		"sbatch":   ": >" + bin + "/submitted; echo 12",
		"squeue":   "true",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const without, notKnown = "", "how many tasks the cluster takes in one array is not known"
	dry := func(path string, more ...string) (out, errs string) {
		t.Helper()
		before, _ := os.ReadFile("caserun.db") // there may be none
		if path == without {
			path = t.TempDir()
		}
		t.Setenv("PATH", path+":/usr/bin:/bin")
		out, errs = mustRun(t, append(more, "--slurm", "--dry-run", "--task-time", "1ms")...)
		if after, _ := os.ReadFile("caserun.db"); string(after) != string(before) {
			t.Error("the store has changed")
		}
		if left, _ := filepath.Glob("*.parts"); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
		return out, errs
	}
	wants := func(out string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(out, want) {
				t.Errorf("no %q:\n%s", want, out)
			}
		}
	}
	out, _ := dry(without, nodesSweep("--gres", "gpu:2", "--time", "1h", "--max-nodes", "8", "--partition", "p", "--sbatch-arg=--comment=a b")...)
	wants(out, "SIMULATED plan for Slurm", "60/60 ", "tasks: 60; parts of the plan: 60; calls of sbatch: 1", notKnown,
		"\nsbatch --parsable --gres=gpu:2 --partition=p --time=60 '--comment=a b' --job-name=caserun-", "-1-xxxxxx+1 --array=0-59%8 ", dir+"/caserun.db.parts/",
		"<<'END'\n#!/bin/sh\n", "'sweep' 'task' '"+dir+"/caserun.db.parts/", "\"$task\"\nEND\n")
	out, _ = dry(bin, nodesSweep("--max-nodes", "8")...)
	wants(out, "calls of sbatch: 3", "+26 --array=0-24%8 ", "+51 --array=0-9%8 ", "--dependency=afterany:JOB <<'END'")
	if strings.Contains(out, notKnown) {
		t.Errorf("asking Slurm was unsuccessful:\n%s", out)
	}
	out, errs := dry(bin, nodesSweep("--format", "csv")...)
	wants(errs, "\nsbatch --parsable")
	if !strings.HasPrefix(out, "task,part,blocks,runs,runs_done,left_s\n") || strings.Count(out, "\n") != 61 {
		t.Errorf("as CSV:\n%s", out)
	}
	mustRun(t, nodesSweep("--plan-only")...)
	out, _ = dry(bin, "sweep", "--resume", "latest")
	wants(out, "tasks: 60; parts of the plan: 60")
	mustRun(t, "sweep", "--resume", "latest", "--part", "1/60")
	out, _ = dry(bin, "sweep", "--resume", "latest")
	wants(out, " 2/60 ", "tasks: 59; parts of the plan: 60")
	out, _ = dry(bin, "sweep", "--resume", "latest", "--reps", "16")
	wants(out, "tasks: 63; parts of the plan: 64")
	out, _ = dry(bin, nodesSweep("--seed", "2")...) // beside the runs of another sweep
	wants(out, "tasks: 60; parts of the plan: 60")
	if status, _, errs := caserun(t, nodesSweep("--slurm", "--dry-run", "--collect")...); status != exitUsage || !strings.Contains(errs, "--dry-run submits none") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if _, err := os.Stat(filepath.Join(bin, "submitted")); err == nil {
		t.Error("sbatch was called")
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
