package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
