package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
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
		{"name: l\nmps: true\npreload: ./no.so\n", "sa", "./l.yaml:3: preload: library ./no.so: there is no such file: build it"},
		{"name: l\npreloads: ./liblimit.so\n", "sa", `./l.yaml:2: unknown key "preloads": did you mean preload?`},
		{"preload: ./liblimit.so\n", "sa", "./l.yaml:1: the layer has no name"},
		{"name: mps\npreload: ./liblimit.so\n", "sa", "./l.yaml:1: name: mps is a builtin layer"},
		{"name: a/b\n", "sa", "./l.yaml:1: name: \"a/b\": want at most 40"},
		{"name: l\n", "sa", "./l.yaml:1: the layer changes nothing"},
		{"name: l\nenv:\n  A: \"{job.byte}\"\n", "sa", "./l.yaml:3: env: A: {job.byte} is not a field here: did you mean job.bytes?"},
		{"name: l\nenv: {LD_PRELOAD: x}\n", "sa", "./l.yaml:2: env: LD_PRELOAD: write preload"},
		{"name: l\nstart: [./nothing]\n", "sa", "./l.yaml:2: start: program ./nothing: no such file"},
		{"name: l\nstart: no-such-daemon\n", "sa", "./l.yaml:2: start: program no-such-daemon is not in PATH"},
		{"name: l\nmps: maybe\n", "sa", "./l.yaml:2: mps: want true or false"},
		{"name: l\nmps: true\nready: /bin/true\n", "sa", "./l.yaml:3: ready is of a daemon: give start"},
		{"name: l\nstart: /bin/cat\nready_within: soon\n", "sa", `./l.yaml:3: ready_within: "soon": want a time above 0`},
		{"name: l\nschedulers: [ca]\nmps: true\n", "sa", "./l.yaml:2: schedulers: unknown scheduler"},
		{"name: l\nmps: true\nschedulers: [cg, zero]\n", "sa", "./l.yaml:3: layer l is for cg, zero, and not for sa"},
		{"name: l\npreload: ./liblimit.so\n", "case-alg3", "./l.yaml:2: layer l preloads a library, and case-alg3 needs libcase.so preloaded, which overrides the same calls: name a scheduler that binds jobs"},
		{"name: l\nenv:\n  A: b\n  B: \"{device.uuid}\"\n", "zero", "./l.yaml:4: B has a field of the job's device"},
		{"name: l\nname: k\n", "sa", "./l.yaml:2: "},
		{"name: [l\n", "sa", "./l.yaml:1: not valid YAML"},
		{"[]", "sa", "./l.yaml:1: a layer: want keys and values"},
		{"\n", "sa", "./l.yaml: want one layer"},
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
