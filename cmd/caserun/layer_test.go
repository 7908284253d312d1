package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/userfile"
)

// Whatever shows a run or a sweep says its layer, and sweeps resume with it.
func TestLayersOfSimulatedRuns(t *testing.T) {
	inTempDir(t)
	sweep := []string{"sweep", "--mixes", "W1", "--scheds", "cg,cg@mps,lone:=sa@mps", "--node", "sim:2xV100", "--jobs", "2"}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{append(sweep, "--reps", "2"), exitOK, "cg@mps"},
		{[]string{"sweep", "--resume", "latest", "--scheds", "cg,cg@mps,lone:=sa@mps", "--reps", "3"}, exitOK, "cg@mps     3   3"},
		{[]string{"sweep", "--resume", "latest", "--scheds", "cg,cg@mps-50,lone:=sa@mps"}, exitUsage, "was planned with"},
		{[]string{"report", "--sched", "cg@mps", "--last", "1"}, exitOK, "W1   cg@mps     sim:2xV100"},
		{[]string{"compare", "--base", "cg@mps"}, exitOK, "cg@mps (base)"},
		{[]string{"export", "--benchfmt", "-", "--last", "1", "--sched", "cg@mps"}, exitOK, "/sched=cg@mps/"},
		{[]string{"regress", "--allow-simulated", "--baseline", "latest/cg", "--candidate", "latest/cg@mps", "--max-regression", "W1/cg@mps:throughput=90%"}, exitNothing, "sweep:1/cg@mps against sweep:1/cg"},
		{[]string{"replay", "3"}, exitOK, ""},
		{[]string{"schedulers", "cg@mps"}, exitOK, "core-to-GPU"},
		{[]string{"mix", "W1", "--node", "sim:1xV100", "--sched", "cg@timeslice"}, exitUsage, "of layers only mps can be simulated"},
		{[]string{"mix", "W1", "--node", "sim:1xV100", "--sched", "cg@mps-50"}, exitUsage, "of layers only mps can be simulated"},
		{[]string{"mix", "W1", "--node", "sim:1xV100", "--sched", "cg@mps", "--no-mps"}, exitUsage, "--no-mps cannot be combined"},
		{[]string{"mix", "W1", "--node", "sim:1xV100", "--sched", "vgpu-preempt@mps:via=checkpoint"}, exitUsage, "leave via=checkpoint out"},
		{[]string{"__complete", "sweep", "--scheds", "sa,cg@t"}, exitOK, "sa,cg@timeslice"},
	} {
		status, out, errs := caserun(t, c.args...)
		if status != c.status || !strings.Contains(out+errs, c.want) {
			t.Errorf("%q: exit %d, want %d and %q:\n%s%s", c.args, status, c.status, c.want, out, errs)
		}
	}
}

// The daemon of MPS gets the percentage of mps-50, and time slices have no daemon.
func TestBuiltinLayers(t *testing.T) {
	library := fakeNVML(t)
	for layer, want := range map[string]string{"mps": "-f \n", "mps-50": "-f 50\n", "timeslice": ""} {
		dir := fakeNode(t, "exit 0", "")
		log := filepath.Join(dir, "log")
		writeFiles(t, map[string]string{"bin/nvidia-cuda-mps-control": "#!/bin/sh\n[ \"$1\" = -f ] && echo \"$1 $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE\" >>" + log + "\n" + untilQuit})
		env := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
		status, text := finish(t, onFakes(dir, library, env, "mix", "own.yaml", "--sched", "sa@"+layer, "--devices", "3"))
		said, _ := os.ReadFile(log)
		if status != exitOK || string(said) != want || !strings.Contains(text, "sa@"+layer) {
			t.Errorf("%s: exit %d, MPS was started with %q, want %q:\n%s", layer, status, said, want, text)
		}
	}
}

// A program that allocates device memory, holds it for a while, and says whether it could.
const allocates = `#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern int cudaMalloc(void **, size_t);
int main(int argc, char **argv)
{
	void *p;
	int failed = cudaMalloc(&p, strtoull(argv[1], NULL, 0));
	if (argc > 2)
		usleep(1000 * atoi(argv[2]));
	printf("%d %s %s\n", failed, getenv("LIMIT_GPU"), getenv("LIMIT_JOB"));
	return failed;
}
`

// A layer: allocations beyond LIMIT_BYTES fail.
const limits = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
static size_t used;
int cudaMalloc(void **p, size_t bytes);
int cudaMalloc(void **p, size_t bytes)
{
	int (*next)(void **, size_t) = (int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");
	if (used + bytes > strtoull(getenv("LIMIT_BYTES"), NULL, 10))
		return 2;
	used += bytes;
	return next(p, bytes);
}
`

// withLimit makes a folder with a layer that limits memory, limit.yaml, and a program that allocates.
func withLimit(t *testing.T) (dir string) {
	t.Helper()
	dir = inTempDir(t)
	runtime := filepath.Join(nativetest.Build(t, "fake", "build/13/libcudart.so.13"), "build/13/libcudart.so.13")
	for name, built := range map[string]string{"allocates": buildC(t, allocates, "-xnone", runtime), "liblimit.so": buildC(t, limits, "-shared", "-fPIC", "-ldl")} {
		if err := os.Rename(built, name); err != nil {
			t.Fatal(err)
		}
	}
	writeFiles(t, map[string]string{"limit.yaml": `name: limit
preload: ./liblimit.so
env:
  LIMIT_BYTES: "{job.bytes}"
  LIMIT_GPU: "{device.uuid}"
  LIMIT_JOB: "{job.index} {share.percent}"
`})
	return dir
}

// Jobs run under a layer that limits memory in place of libcase, and the store knows its files.
func TestLayerThatLimitsMemory(t *testing.T) {
	dir := withLimit(t)
	writeFiles(t, map[string]string{"m.yaml": `name: m
jobs:
  - {name: fits, program: ./allocates, args: ["4000000"], memory: 8MiB, share: 0.25}
  - {name: exceeds, program: ./allocates, args: ["9000000"], memory: 8MiB}
  - {name: free, program: ./allocates, args: ["9000000"]}
  - {name: escapes, program: /usr/bin/env, args: [-u, LD_PRELOAD, ./allocates, "9000000", "2500"], memory: 8MiB}
`})
	env := []string{"FAKE_NVML_PROCESSES=" + t.TempDir()}
	status, text := onFakeNode(t, dir, env, "mix", "m.yaml", "--node", "local", "--sched", "sa@./limit.yaml")
	if status != exitJobsFailed || !strings.Contains(text, "sa@limit") {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	run, jobs, _ := stored(t, 1)
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, outputs := jobsOf(t, s, 1, 4)
	for i, want := range []string{"0 GPU-ca5e0000-0000-0000-0000-00000000000%d 0 25\n", "2 GPU-ca5e0000-0000-0000-0000-00000000000%d 1 100\n", "0 GPU-ca5e0000-0000-0000-0000-00000000000%d 2 100\n", "0 GPU-ca5e0000-0000-0000-0000-00000000000%d 3 100\n"} {
		if want = strings.ReplaceAll(want, "%d", strconv.Itoa(*jobs[i].Device)); outputs[i] != want {
			t.Errorf("job %d said %q, want %q", i, outputs[i], want)
		}
		if (*jobs[i].Outcome == results.OK) != (i != 1) {
			t.Errorf("job %d ended as %s", i, *jobs[i].Outcome)
		}
	}
	if !strings.Contains(run.Doubts, "of job 3 used GPU") || !strings.Contains(run.Doubts, "which layer limit preloads") || strings.Contains(run.Doubts, "job 0") {
		t.Errorf("doubts %q", run.Doubts)
	}
	if run.Scheduler != "sa@limit" || !strings.HasPrefix(run.Parameters, "layer=") {
		t.Errorf("%s, %s", run.Scheduler, run.Parameters)
	}
	for _, file := range []string{"limit.yaml", "liblimit.so"} {
		if !strings.Contains(run.Provenance.Binaries, "/"+file+`":"`) {
			t.Errorf("%s is not in %s", file, run.Provenance.Binaries)
		}
	}
}

// A layer's file says where it is wrong, and what to do.
func TestLayerFilesThatAreWrong(t *testing.T) {
	dir := withLimit(t)
	writeFiles(t, map[string]string{"m.yaml": "name: m\njobs:\n  - {program: ./allocates, args: [\"1\"]}\n"})
	for _, c := range []struct{ file, sched, want string }{
		{"", "sa", "layer ./l.yaml: there is no such file: correct its path"},
		{"name: l\nmps: true\npreload: ./no.so\n", "sa", "./l.yaml:3:10: preload: library ./no.so: there is no such file: build it"},
		{"name: l\npreloads: ./liblimit.so\n", "sa", `./l.yaml:2:1: unknown key "preloads": did you mean preload?`},
		{"preload: ./liblimit.so\n", "sa", "./l.yaml: the layer has no name"},
		{"name: mps\npreload: ./liblimit.so\n", "sa", "./l.yaml:1:7: name: mps is a builtin layer"},
		{"name: a/b\n", "sa", "./l.yaml:1:7: name: \"a/b\": want at most 40"},
		{"name: l\n", "sa", "./l.yaml: the layer changes nothing"},
		{"name: l\nenv:\n  A: \"{job.byte}\"\n", "sa", "./l.yaml:3:6: env: A: {job.byte} is not a field here: did you mean job.bytes?"},
		{"name: l\nenv: {LD_PRELOAD: x}\n", "sa", "./l.yaml:2:7: env: LD_PRELOAD: write preload"},
		{"name: l\nstart: [./nothing]\n", "sa", "./l.yaml:2:8: start: program ./nothing: no such file"},
		{"name: l\nstart: no-such-daemon\n", "sa", "./l.yaml:2:8: start: program no-such-daemon is not in PATH"},
		{"name: l\nmps: maybe\n", "sa", "./l.yaml:2:6: mps: want true or false"},
		{"name: l\nmps: true\nready: /bin/true\n", "sa", "./l.yaml:3: ready is of a daemon: give start"},
		{"name: l\nstart: /bin/cat\nready_within: soon\n", "sa", `./l.yaml:3:15: ready_within: "soon": want a time above 0`},
		{"name: l\nschedulers: [ca]\nmps: true\n", "sa", "./l.yaml:2:13: schedulers: unknown scheduler"},
		{"name: l\nmps: true\nschedulers: [cg, zero]\n", "sa", "./l.yaml:3: layer l is for cg, zero, and not for sa"},
		{"name: l\npreload: ./liblimit.so\n", "case-alg3", "./l.yaml:2: layer l preloads a library, and case-alg3 needs libcase.so preloaded, which overrides the same calls: name a scheduler that binds jobs"},
		{"name: l\nenv: {LD_LIBRARY_PATH: /opt/x}\n", "zero", "./l.yaml:2: layer l sets LD_LIBRARY_PATH, for libraries in the place of CUDA's, and zero needs libcase.so"},
		{"name: l\nenv:\n  A: b\n  B: \"{device.uuid}\"\n", "zero", "./l.yaml:4: B has a field of the job's device"},
		{"name: l\nname: k\n", "sa", "./l.yaml:2:1: not valid YAML"},
		{"name: [l\n", "sa", ": not valid YAML"},
		{"[]", "sa", "./l.yaml:1:1: want keys and values, such as preload: ./liblimit.so"},
		{"\n", "sa", "./l.yaml: the layer has no name"},
	} {
		os.Remove("l.yaml")
		if c.file != "" {
			writeFiles(t, map[string]string{"l.yaml": c.file})
		}
		status, text := onFakeNode(t, dir, nil, "mix", "m.yaml", "--node", "local", "--sched", c.sched+"@./l.yaml")
		if status != exitUsage || !strings.Contains(text, c.want) {
			t.Errorf("%q: exit %d, want %q:\n%s", c.file, status, c.want, text)
		}
	}
	status, text := onFakeNode(t, dir, nil, "mix", "W1", "--node", "sim:2xV100", "--sched", "cg@./limit.yaml")
	if status != exitUsage || !strings.Contains(text, "--sched cg@limit: not available on sim:2xV100") {
		t.Errorf("exit %d:\n%s", status, text)
	}
}

// A sweep keeps the layer that it was planned with.
func TestLayerOfASweepChanges(t *testing.T) {
	dir := withLimit(t)
	writeFiles(t, map[string]string{"m.yaml": "name: m\njobs:\n  - {program: ./allocates, args: [\"1\"]}\n"})
	sweep := []string{"sweep", "--mixes", "m.yaml", "--scheds", "sa@./limit.yaml", "--node", "local", "--warmups", "0", "--reps", "2"}
	if status, text := onFakeNode(t, dir, nil, sweep...); status != exitOK || !strings.Contains(text, "sa@limit") {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	resume := []string{"sweep", "--resume", "1", "--scheds", "sa@./limit.yaml", "--reps", "3"}
	if status, text := onFakeNode(t, dir, nil, resume...); status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	if err := os.Remove("liblimit.so"); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, map[string]string{"liblimit.so": "another"})
	resume[len(resume)-1] = "4"
	if status, text := onFakeNode(t, dir, nil, resume...); status != exitUsage || !strings.Contains(text, "a sweep keeps the content that it was planned with") {
		t.Errorf("exit %d:\n%s", status, text)
	}
}

// A layer: a process has the turn from its first allocation to its end. The daemon keeps the turn in a FIFO.
const takesTurns = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static int turn = -1;
static void note(char what)
{
	int log = open(getenv("TURN_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (write(log, &what, 1) != 1)
		abort();
	close(log);
}
int cudaMalloc(void **p, size_t bytes);
int cudaMalloc(void **p, size_t bytes)
{
	char c;
	if (turn < 0) {
		turn = open(getenv("TURN"), O_RDWR);
		if (read(turn, &c, 1) != 1)
			return 999;
		note('+');
	}
	return ((int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc"))(p, bytes);
}
__attribute__((destructor)) static void give(void)
{
	if (turn >= 0) {
		note('-');
		if (write(turn, "t", 1) != 1)
			abort();
	}
}
`

// withTurns is withLimit with a layer whose daemon grants turns, turns.yaml, too.
func withTurns(t *testing.T) (dir string) {
	t.Helper()
	dir = withLimit(t)
	if err := os.Rename(buildC(t, takesTurns, "-shared", "-fPIC", "-ldl"), "libturns.so"); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, map[string]string{"turns.sh": "#!/bin/sh\nmkfifo $1/turn && exec 3<>$1/turn && printf t >&3 && echo open for $2 && while sleep 0.1; do :; done\n",
		"turns.yaml": `name: turns
preload: ./libturns.so
env: {TURN: "{dir}/turn", TURN_LOG: ` + dir + `/log}
start: ./turns.sh {dir} {devices}
ready: test -p {dir}/turn
`})
	return dir
}

// Jobs that share a device take the turns that a layer's daemon grants, and the daemon's log is kept with their output.
func TestLayerWithADaemon(t *testing.T) {
	dir := withTurns(t)
	writeFiles(t, map[string]string{"m.yaml": "name: m\njobs:\n  - {program: ./allocates, args: [\"1000\", \"100\"], count: 4}\n"})
	env := []string{"TMPDIR=" + t.TempDir()}
	status, text := onFakeNode(t, dir, env, "mix", "m.yaml", "--node", "local", "--devices", "0", "--sched", "cg@./turns.yaml:workers=4")
	turns, err := os.ReadFile("log")
	if status != exitOK || string(turns) != "+-+-+-+-" {
		t.Errorf("exit %d, turns %s (%v):\n%s", status, turns, err, text)
	}
	logs, _ := filepath.Glob("caserun-runs/run-1-*/layer.log")
	if len(logs) != 1 {
		t.Fatalf("logs %q", logs)
	}
	if said, err := os.ReadFile(logs[0]); err != nil || string(said) != "open for GPU-ca5e0000-0000-0000-0000-000000000000\n" {
		t.Errorf("the log is %q, %v", said, err)
	}
	nothingLeft(t, env[0], dir)
}

// nothingLeft fails if a run has left temporary files, unless tmp is empty, or processes whose command has a text.
func nothingLeft(t *testing.T, tmp, command string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := running(command)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("processes are left: %q", left)
			break
		}
	}
	if files, _ := filepath.Glob(strings.TrimPrefix(tmp, "TMPDIR=") + "/*"); tmp != "" && len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
}

// running are the commands with a text that processes of this machine have.
func running(text string) (commands []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		command, _ := os.ReadFile(file)
		if strings.Contains(string(command), text) {
			commands = append(commands, string(command))
		}
	}
	return commands
}

// A daemon may fail at each step. The run ends as it must, and leaves nothing.
func TestLayerDaemonsThatFail(t *testing.T) {
	dir := withLimit(t)
	const ready = "ready: [test, -e, \"{dir}/ready\"]\nready_within: 500ms\n"
	for name, c := range map[string]struct {
		file    string
		seconds string // of the job
		status  int
		killed  bool
		wants   []string
	}{
		"ends at once":    {"start: [sh, -c, \"echo no GPU for me; exit 3\", MARK]\n" + ready, "0", exitInfrastructure, false, []string{"start layer l: its daemon ended by itself (exit status 3)", "the last 1 line of its log:", "no GPU for me"}},
		"is never ready":  {"start: [sh, -c, \"echo wait; while sleep 0.1; do :; done\", MARK]\n" + ready, "0", exitInfrastructure, false, []string{"its daemon was not ready within 500ms", "raise ready_within", "wait"}},
		"ready hangs":     {"start: [sh, -c, \"while sleep 0.1; do :; done\", MARK]\nready: [sh, -c, \"while sleep 0.1; do :; done\", MARK]\nready_within: 300ms\n", "0", exitInfrastructure, false, []string{"was not ready within 300ms"}},
		"dies in mid-run": {"start: [sh, -c, \"touch $1/ready; sleep 1; echo out of turns; exit 4\", MARK, \"{dir}\"]\n" + ready, "60", exitInfrastructure, false, []string{"the daemon of layer l ended during the run", "exit status 4", "out of turns"}},
		"hangs at stop":   {"start: [sh, -c, \"trap '' TERM; touch $1/ready; while :; do sleep 0.1; done\", MARK, \"{dir}\"]\nstop_within: 300ms\n" + ready, "0", exitOK, true, []string{"its daemon did not end within 300ms of being told to, and was killed"}},
		"stop hangs":      {"start: [sh, -c, \"while sleep 0.1; do :; done\", MARK]\nstop: [sh, -c, \"while sleep 0.1; do :; done\", MARK]\nstop_within: 300ms\n", "0", exitOK, true, []string{"stop: sh did not end in time"}},
		"leaves children": {"start: [sh, -c, \"setsid sh -c 'while sleep 0.1; do :; done' MARK & while sleep 0.1; do :; done\", MARK]\n", "0", exitOK, false, nil},
		"stops by itself": {"start: [sh, -c, \"until test -e $1/stop; do sleep 0.1; done; echo bye\", MARK, \"{dir}\"]\nstop: [touch, \"{dir}/stop\"]\n", "0", exitOK, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			mark := fmt.Sprintf("mark-%d-%s", os.Getpid(), strings.ReplaceAll(name, " ", "-"))
			writeFiles(t, map[string]string{"l.yaml": "name: l\n" + strings.ReplaceAll(c.file, "MARK", mark),
				"m.yaml": "name: m\njobs:\n  - {program: /bin/sleep, args: [\"" + c.seconds + "\"], binding: declared, memory: 1MiB}\n"})
			if err := os.RemoveAll("caserun-runs"); err != nil {
				t.Fatal(err)
			}
			tmp := "TMPDIR=" + t.TempDir()
			status, text := onFakeNode(t, dir, []string{tmp}, "mix", "m.yaml", "--node", "local", "--sched", "sa@./l.yaml")
			if status != c.status || strings.Contains(text, "was killed") != c.killed || strings.Contains(text, "left their job's group") {
				t.Errorf("exit %d, want %d:\n%s", status, c.status, text)
			}
			for _, want := range c.wants {
				if !strings.Contains(text, want) {
					t.Errorf("want %q:\n%s", want, text)
				}
			}
			nothingLeft(t, tmp, mark)
			logs, _ := filepath.Glob("caserun-runs/layer*")
			kept, _ := filepath.Glob("caserun-runs/run-*/layer.log")
			if began := c.status == exitOK || c.seconds != "0"; len(logs) > 0 || (len(kept) == 1) != began {
				t.Errorf("logs %q and %q", logs, kept)
			}
		})
	}
}

// kill -9 of the program ends the daemon, with what it has started.
func TestLayerDaemonOfAKilledHarness(t *testing.T) {
	dir := withTurns(t)
	mark := fmt.Sprintf("mark-%d-killed", os.Getpid())
	writeFiles(t, map[string]string{"m.yaml": "name: m\njobs:\n  - {program: /bin/sleep, args: [\"60\"], binding: declared, memory: 1MiB}\n",
		"l.yaml": "name: l\nstart: [sh, -c, \"setsid sh -c 'while sleep 0.1; do :; done' " + mark + " & touch $1/began; while sleep 0.1; do :; done\", " + mark + ", " + dir + "]\n"})
	tmp := t.TempDir()
	p := onTheFakes(t, dir, []string{"TMPDIR=" + tmp}, "mix", "m.yaml", "--node", "local", "--sched", "sa@./l.yaml")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for len(running(mark)) < 2 || userfile.Absent("began") { // fake-node has become the program
		time.Sleep(20 * time.Millisecond)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	nothingLeft(t, "", mark)
}
