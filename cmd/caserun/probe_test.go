package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// fakeSuites goes to a directory with both builds of a program, which write down their path and
// what they preload, and a mix of it.
func fakeSuites(t *testing.T) (dir string) {
	t.Helper()
	dir = inTempDir(t)
	const script = "#!/bin/sh\necho \"$(dirname \"$0\") ${LD_PRELOAD:+preloads}\" >>seen\n"
	writeFiles(t, map[string]string{
		"bin/suite/needle":        script,
		"bin/suite-casecc/needle": script + "# built by casecc\n",
		"own":                     script,
		"suite.yaml":              "name: suite\njobs:\n  - {program: needle, args: 16 10, memory: 1GiB}\n",
		"own.yaml":                "name: own\njobs:\n  - {program: ./own, dir: data, memory: 1GiB}\n",
		"data/seen":               "",
	})
	return dir
}

// seen is what the programs have written down since the last call.
func seen(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile("data/seen")
	if err == nil {
		err = os.Truncate("data/seen", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), dir+"/", "")
}

// A probe decides which build of the builtin suite runs and whether libcase.so is preloaded, and
// the run's row has it.
func TestProbeOfARun(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeSuites(t)
	for i, c := range []struct {
		mix  string
		args []string
		env  []string
		want string
		is   results.Probe
	}{
		{"suite.yaml", nil, nil, "bin/suite preloads\n", results.Lazy},
		{"suite.yaml", []string{"--probe", "static"}, nil, "bin/suite-casecc preloads\n", results.Static},
		{"suite.yaml", nil, []string{"CASERUN_PROBE=static"}, "bin/suite-casecc preloads\n", results.Static},
		{"suite.yaml", []string{"--probe", "static", "--suite", "bin/suite"}, nil, "bin/suite preloads\n", results.Static},
		{"own.yaml", []string{"--probe", "explicit"}, nil, ". \n", results.Explicit},
	} {
		args := append([]string{"mix", c.mix, "--node", "local", "--no-mps", "--sched", "sa"}, c.args...)
		if status, text := finish(t, onFakes(dir, library, c.env, args...)); status != exitOK {
			t.Fatalf("%v: exit %d:\n%s", args, status, text)
		}
		if got := strings.ReplaceAll(seen(t, dir), dir, "."); got != c.want {
			t.Errorf("%v %v: programs said %q, want %q", c.args, c.env, got, c.want)
		}
		run, _, _ := stored(t, int64(i+1))
		if run.Probe != c.is || strings.Contains(run.Provenance.Binaries, filepath.Base(library)) != (c.is != results.Explicit) {
			t.Errorf("%v %v: the run has probe %s and binaries %s, want %s", c.args, c.env, run.Probe, run.Provenance.Binaries, c.is)
		}
	}
	_, text := finish(t, onFakes(dir, library, nil, "report"))
	for _, name := range []string{" sa:probe=lazy ", " sa:probe=static ", " sa:probe=explicit "} {
		if !strings.Contains(text, name) {
			t.Errorf("the list of runs has no %q:\n%s", name, text)
		}
	}
}

// Probes of a sweep are arms of their own, which sides name as they name parameters.
func TestProbesOfASweep(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeSuites(t)
	caserun := func(args ...string) string {
		t.Helper()
		status, text := finish(t, onFakes(dir, library, nil, args...))
		if status != exitOK {
			t.Fatalf("%v: exit %d:\n%s", args, status, text)
		}
		return text
	}
	plan := []string{"sweep", "--mixes", "suite.yaml", "--scheds", "sa", "--probes", "lazy,static", "--reps", "4", "--node", "local", "--no-mps"}
	if text := caserun(append(plan, "--dry-run")...); strings.Count(text, " sa:probe=static ") != 5 || !strings.Contains(text, "10 runs") {
		t.Errorf("plan, want 4 repetitions and a warm-up of each probe:\n%s", text)
	}
	if text := caserun(plan...); strings.Count(text, "\nsuite  sa:probe=static  4   4 ") != 1 || strings.Count(text, "\nsuite  sa:probe=lazy    4   4 ") != 1 {
		t.Errorf("table of the sweep:\n%s", text)
	}
	if got := seen(t, dir); strings.Count(got, "bin/suite preloads\n") != 5 || strings.Count(got, "bin/suite-casecc preloads\n") != 5 {
		t.Errorf("programs that ran:\n%s", got)
	}
	if text := caserun("compare", "latest/sa:probe=lazy", "latest/sa:probe=static"); !strings.Contains(text, "sweep:1/sa:probe=static against sweep:1/sa:probe=lazy\n") ||
		!strings.Contains(text, "the probes differ: lazy and static") {
		t.Errorf("comparison of the probes:\n%s", text)
	}
	if text := caserun("sweep", "--resume", "latest", "--probes", "lazy,static"); !strings.Contains(text, "sweep 1 is complete") {
		t.Errorf("resumed:\n%s", text)
	}
	status, text := finish(t, onFakes(dir, library, nil, "sweep", "--resume", "latest", "--probes", "static"))
	if status != exitUsage || !strings.Contains(text, "sweep 1 was planned with --probes lazy,static, not --probes static") {
		t.Errorf("resumed with another probe: exit %d:\n%s", status, text)
	}
	db, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cells, err := db.Cells(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	seeds := map[uint64]bool{}
	for _, c := range cells {
		run, err := db.Run(t.Context(), *c.Run)
		if err != nil || run.Probe != c.Probe {
			t.Errorf("cell %d is %s, its run %s (%v)", c.Position, c.Probe, run.Probe, err)
		}
		seeds[c.Seed] = true
	}
	if len(seeds) != len(cells) {
		t.Errorf("%d seeds among %d cells", len(seeds), len(cells))
	}
}

func TestProbesThatCannotBe(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeSuites(t)
	if err := errors.Join(os.RemoveAll("bin/suite-casecc"), os.MkdirAll("native/pass", 0o755)); err != nil {
		t.Fatal(err)
	}
	sweep := func(probes string, more ...string) []string {
		return append([]string{"sweep", "--mixes", "suite.yaml", "--scheds", "sa", "--probes", probes}, more...)
	}
	const notBuilt = "the builtin suite is not built in bin/suite-casecc (programs not found): run make casecc, run without --probe static, or name a build of your own with --suite DIR"
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"mix", "suite.yaml", "--probe", "static"}, exitInfrastructure, notBuilt},
		{sweep("lazy,static"), exitInfrastructure, notBuilt},
		{[]string{"doctor", "--probe", "static"}, exitInfrastructure, "run make casecc"},
		{[]string{"mix", "suite.yaml", "--probe", "explicit"}, exitUsage, "--probe explicit: needle is a program of the builtin suite, which does not call the task API"},
		{sweep("lazy,explicit"), exitUsage, "--probe explicit: needle"},
		{[]string{"mix", "M-mixed", "--probe", "static"}, exitUsage, "--probe static: torch/decode.py is a PyTorch program, which casecc did not compile"},
		{[]string{"mix", "W1", "--probe", "static", "--node", "sim:4xV100"}, exitUsage, "--probe static: not available on sim:4xV100"},
		{sweep("static", "--node", "sim:4xV100"), exitUsage, "--probe static: not available on sim:4xV100"},
		{sweep("lazy,lazy"), exitUsage, "--probes: lazy is named twice"},
		{sweep("eager"), exitUsage, `"eager": want lazy, static or explicit`},
		{[]string{"mix", "W1", "--probe", "eager"}, exitUsage, "want lazy, static or explicit"},
		{[]string{"paper", "--probe", "static"}, exitUsage, "--probe requires --run"},
		{[]string{"paper", "--run", "--mixes", "W1", "--node", "sim:4xV100", "--probe", "static"}, exitUsage, "--probe static: not available on sim:4xV100"},
	} {
		status, text := finish(t, onFakes(dir, library, nil, c.args...))
		if joined := strings.Join(strings.Fields(text), " "); status != c.status || !strings.Contains(joined, c.says) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", c.args, status, c.status, c.says, text)
		}
	}
}
