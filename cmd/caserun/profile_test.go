package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/runner/profiles"
)

// buildStepJob builds native/probe/tests/job.c, whose arguments are what it does.
func buildStepJob(t *testing.T) string {
	t.Helper()
	return filepath.Join(nativetest.Build(t, "probe", "build/job"), "build/job")
}

// A signal costs the profile of the command that it stops, and no other; kill -9 too.
func TestInterruptedProfileKeepsWhatItMeasured(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	for _, c := range []struct {
		out    string
		signal os.Signal
		status int
	}{
		{"new.csv", os.Interrupt, exitInterrupted}, {"", os.Interrupt, exitInterrupted},
		{"new.csv", os.Kill, -1}, {"", os.Kill, -1},
	} {
		out := c.out
		dir := fakeNode(t, "", "")
		writeFiles(t, map[string]string{"two.yaml": "jobs:\n  - {program: " + program + ", args: begin:1000}\n" +
			"  - {program: /bin/sh, args: [-c, 'echo >pipe; sleep 60']}\n"})
		args := []string{"profile", "--mix", "two.yaml"}
		if out != "" {
			args = append(args, "--out", out)
		}
		p := onFakes(dir, library, nil, args...)
		var written bytes.Buffer
		p.Stdout = &written
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile("pipe"); err != nil { // until the second command runs
			t.Fatal(err)
		}
		if err := p.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // the status says it
		if status := p.ProcessState.ExitCode(); status != c.status {
			t.Errorf("%v: exit %d, want %d:\n%s", c.signal, status, c.status, p.Stderr)
		}
		if out != "" {
			text, err := os.ReadFile(out)
			if err != nil {
				t.Error(err)
			}
			written.Write(text)
		}
		set, err := profiles.Read("profiles", &written)
		if err != nil {
			t.Errorf("--out %q: %v:\n%s", out, err, p.Stderr)
			continue
		}
		got, err := set.Lookup(mixes.Job{Program: program, Args: []string{"begin:1000"}})
		if err != nil || got.Footprint.Bytes != 1000 {
			t.Errorf("--out %q: %+v, %v, want the first command's profile:\n%s", out, got, err, p.Stderr)
		}
	}
}

// A file that cannot be is found out before anything runs, and one with nothing in it
// does not stay.
func TestProfileMakesItsFileFirst(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{"there.csv": "earlier"})
	for _, c := range []struct {
		out, step string
		status    int
		says      string
		runs      bool
	}{
		{"there.csv", "begin:1", exitUsage, "there.csv: file already exists: name another file, or remove it first", false},
		{"none/new.csv", "begin:1", exitUsage, "none/new.csv: the directory none does not exist", false},
		{"new.csv", "exit:9", exitNothing, "nothing was measured", true},
		{"new.csv", "begin:1", exitOK, "", true},
	} {
		status, text := finish(t, onFakes(dir, library, nil, "profile", "--out", c.out, "--", program, c.step))
		if status != c.status || !strings.Contains(text, c.says) || strings.Contains(text, "profiling 1 of 1") != c.runs {
			t.Errorf("%s, %s: exit %d, want %d, %q and that it runs: %v:\n%s", c.out, c.step, status, c.status, c.says, c.runs, text)
		}
	}
	if text, err := os.ReadFile("there.csv"); err != nil || string(text) != "earlier" {
		t.Errorf("there.csv is %q (%v), want what was there", text, err)
	}
}

func TestProfileCommandLine(t *testing.T) {
	inTempDir(t)
	t.Setenv("CASERUN_LIBCASE", "/nowhere/libcase.so")
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"profile"}, exitUsage, "one program"},
		{[]string{"profile", "--mix", "W7", "--", "true"}, exitUsage, "one program"},
		{[]string{"profile", "--mix", "W7", "--name", "x"}, exitUsage, "--name"},
		{[]string{"profile", "--mix", "W9"}, exitUsage, "W9"},
		{[]string{"profile", "--", "./missing"}, exitInfrastructure, "./missing"},
		{[]string{"profile", "--mix", "W7"}, exitInfrastructure, "make cuda"},
		{[]string{"profile", "--", "true"}, exitInfrastructure, "make native"},
	} {
		status, _, errs := caserun(t, c.args...)
		if status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("caserun %s: exit %d, want %d; stderr must contain %q:\n%s", strings.Join(c.args, " "), status, c.status, c.says, errs)
		}
	}
	silent := func(string, ...any) {}
	jobs, err := (&profileOptions{mix: "W7"}).jobs(t.Context(), silent)
	mix, _ := mixes.Lookup("W7")
	if err != nil || len(jobs) == 0 || len(jobs) >= len(mix.Jobs) {
		t.Errorf("%d commands of W7's %d jobs, %v: want each once", len(jobs), len(mix.Jobs), err)
	}
	jobs, err = (&profileOptions{name: "label", stdin: "in", asked: asked{args: []string{"./solver", "-n", "5"}}}).jobs(t.Context(), silent)
	if err != nil || jobs[0].Command() != "./solver -n 5 < in" || jobs[0].Name != "label" || jobs[0].Dir != "." {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}

// What profile writes is what a simulated node reads.
func TestMixReadsAProfileFile(t *testing.T) {
	inTempDir(t)
	var file strings.Builder
	if err := profiles.NewWriter(&file).Write(profiles.Profile{Job: "own", Command: "./own -n 5", HostBeforeS: 3, Kernels: profiles.Untraced,
		Footprint: mixes.Footprint{Bytes: 3 << 30}}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"own.csv": file.String(), "own.yaml": "jobs:\n  - {program: ./own, args: -n 5}\n",
		"bad.csv": strings.Replace(file.String(), ",3,", ",-3,", 1)} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status, out, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200", "--profiles", "own.csv", "-v", "--format", "json"); status != exitOK ||
		!strings.Contains(out, "3221225472") {
		t.Errorf("exit %d, want the profile's memory in the job's row: %s\n%s", status, errs, out)
	}
	if status, _, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200"); status != exitUsage || !strings.Contains(errs, "./own -n 5") {
		t.Errorf("without the file: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200", "--profiles", "bad.csv"); status != exitUsage || !strings.Contains(errs, "bad.csv:2: host_before_s") {
		t.Errorf("a bad file: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "mix", "own.yaml", "--node", "sim:1xH200", "--profiles", "none.csv"); status != exitUsage || !strings.Contains(errs, "none.csv") {
		t.Errorf("a missing file: exit %d: %s", status, errs)
	}
}
