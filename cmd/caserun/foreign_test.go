package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner/live"
)

// their is a workload file as CASE's authors have them.
const their = `/usr/local/cuda/bin/nvprof --print-gpu-trace -o a.nvprof --log-file %p.log /home/them/cuda/hotspot/hotspot begin:1000000 sleep:10 &
nvprof /home/them/cuda/hotspot/hotspot begin:1000000 sleep:10 &
wait
nvprof -f -o b.nvprof /home/them/cuda/gaussian/gaussian begin:2000000 sleep:5
`

// theirSuite makes a directory with their file and a build of its programs, which
// do what their arguments say.
func theirSuite(t *testing.T) (dir string) {
	t.Helper()
	program := buildStepJob(t)
	dir = inTempDir(t)
	writeFiles(t, map[string]string{"their.wl": their, "suite/README": "", "suite/suite.yaml": "programs:\n  gaussian: {faults: known}\n"})
	for _, name := range []string{"hotspot", "gaussian"} {
		if err := os.MkdirAll(filepath.Join("suite", name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join("suite", name, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const theirYAML = `name: their
jobs:
  - name: hotspot
    program: hotspot
    args: ["begin:1000000", "sleep:10"]
    count: 2
  - name: gaussian
    program: gaussian
    args: ["begin:2000000", "sleep:5"]
    faults: known
    group: 1
`

func TestTheirWorkloadsAreShown(t *testing.T) {
	theirSuite(t)
	status, out, errs := caserun(t, "mixes", "show", "their.wl", "--suite", "suite", "--yaml")
	if diff := cmp.Diff(theirYAML, out); status != exitOK || diff != "" {
		t.Errorf("exit %d: %s\n%s", status, errs, diff)
	}
	if want := "caserun: their.wl: `&` and `wait` make it a script: 2 groups, each starts when the one before has ended\n" +
		`caserun: their.wl:1: "/usr/local/cuda/bin/nvprof --print-gpu-trace -o a.nvprof --log-file %p.log" before the program is left out; more lines with nvprof: 2` + "\n"; errs != want {
		t.Errorf("stderr %q, want %q", errs, want)
	}
	writeFiles(t, map[string]string{"written.yaml": out})
	for _, format := range []string{"table", "csv"} {
		_, first, _ := caserun(t, "mixes", "show", "their.wl", "--suite", "suite", "--format", format)
		status, again, errs := caserun(t, "mixes", "show", "written.yaml", "--suite", "suite", "--format", format)
		if status != exitOK || strings.ReplaceAll(again, "written", "their") != first || !strings.Contains(first, "group") || !strings.Contains(first, "faults") {
			t.Errorf("written and read again, exit %d: %s\n%s\n%s", status, errs, again, first)
		}
	}
	if _, out, _ := caserun(t, "mixes", "show", "W1"); strings.Contains(out, "group") || strings.Contains(out, "faults") {
		t.Errorf("columns that no job of the mix needs:\n%s", out)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{nil, exitUsage, "their.wl:1:76: unknown program"},
		{nil, exitUsage, "--suite DIR adds those of your own build"},
		{[]string{"--suite", "none"}, exitInfrastructure, "none is not a directory"},
		{[]string{"--suite", "suite/hotspot"}, exitUsage, "their.wl:4:23: unknown program"},
	} {
		status, _, errs := caserun(t, append([]string{"mixes", "show", "their.wl"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d, want %d and %q: %s", c.args, status, c.status, c.says, errs)
		}
	}
	writeFiles(t, map[string]string{"suite/suite.yaml": "programs:\n  gausian: {faults: known}\n"})
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:1xH200", "--suite", "suite"); status != exitUsage || !strings.Contains(errs, "suite.yaml:2:3: unknown program") {
		t.Errorf("a bad suite.yaml: exit %d: %s", status, errs)
	}
}

// Programs that only their suite has are profiled from the workload file itself, and
// run on a simulated node with those profiles, with the suite or without it.
func TestTheirWorkloadsAreProfiled(t *testing.T) {
	library := fakeNVML(t)
	dir := theirSuite(t)
	const measure = "caserun profile --mix their.wl --suite suite --out profiles.csv"
	status, _, errs := caserun(t, "mix", "their.wl", "--suite", "suite", "--node", "sim:1xH200")
	if status != exitUsage || !strings.Contains(errs, `their.wl:1: no profile of "hotspot begin:1000000 sleep:10"`) || !strings.Contains(errs, measure) {
		t.Errorf("without profiles: exit %d, want %d and %q: %s", status, exitUsage, measure, errs)
	}
	env := []string{live.LibraryVariable + "=" + library}
	status, text := finish(t, onFakes(dir, library, env, "profile", "--mix", "their.wl", "--suite", "suite", "--data", ".",
		"--devices", "3", "--untraced", "--out", "their.csv"))
	if status != exitOK || !strings.Contains(text, "profiling 2 of 2: gaussian") {
		t.Fatalf("profile: exit %d: %s", status, text)
	}
	for _, suite := range []string{"suite", suites.Builtin} {
		status, out, errs := caserun(t, "mix", "their.wl", "--suite", suite, "--profiles", "their.csv", "--node", "sim:1xH200", "--sched", "case-alg3:isolate=known")
		if status != exitOK {
			t.Fatalf("--suite %s: exit %d: %s%s", suite, status, errs, out)
		}
	}
	if _, out, _ := caserun(t, "report", "1", "-v"); !strings.Contains(out, "arrival") {
		t.Errorf("the report lacks the arrivals:\n%s", out)
	}
	for _, id := range []int64{1, 2} {
		run, jobs, _ := stored(t, id)
		if !strings.Contains(run.Parameters, "isolate=known") {
			t.Errorf("parameters %s", run.Parameters)
		}
		if *jobs[0].ArrivalS != 0 || *jobs[1].ArrivalS != 0 || *jobs[2].ArrivalS != max(*jobs[0].EndS, *jobs[1].EndS) || *jobs[2].TurnaroundS() >= *jobs[2].EndS {
			t.Errorf("arrivals %g, %g and %g s", *jobs[0].ArrivalS, *jobs[1].ArrivalS, *jobs[2].ArrivalS)
		}
	}
}
