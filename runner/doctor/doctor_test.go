package doctor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
)

// The disk that counts is the one that the runs' directory will be on.
func TestDoctorLooksAtTheDiskOfTheRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	elsewhere := t.TempDir()
	file := filepath.Join(elsewhere, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for runs, want := range map[string]Finding{
		filepath.Join(elsewhere, "not", "yet"): {"disk", Fine, "free for " + elsewhere},
		elsewhere:                              {"disk", Fine, "free for " + elsewhere},
		"":                                     {"disk", Fine, ""},
		filepath.Join(file, "runs"):            {"disk", Failed, file + " is not a directory"},
	} {
		var e examination
		e.disk(runs)
		if len(e.findings) != 1 {
			t.Fatalf("%q: findings %+v", runs, e.findings)
		}
		got := e.findings[0]
		if got.Verdict == Warning {
			got.Verdict = Fine // this machine's disk is nearly full
		}
		if got.Check != want.Check || got.Verdict != want.Verdict || !strings.HasSuffix(got.Detail, want.Detail) {
			t.Errorf("%q: %+v, want %+v", runs, got, want)
		}
	}
}

// What doctor says of the suite is about the mixes that it is asked for.
func TestDoctorLooksAtTheMixesOfTheUser(t *testing.T) {
	t.Chdir(t.TempDir())
	suite := t.TempDir()
	program, err := os.Executable() // any that loads
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(suite, "darknet")); err != nil {
		t.Fatal(err)
	}
	jobs, err := suites.CatalogJobs([]string{"D-128"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range suites.Files(jobs, 1) {
		var content bytes.Buffer
		path := filepath.Join("data", f.Path)
		if err := errors.Join(f.Write(&content, nil), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(names ...string) string {
		jobs, err := suites.CatalogJobs(names)
		if err != nil {
			t.Fatal(err)
		}
		var e examination
		e.suite(harness.Options{Suite: suite, Data: "data"}, results.Lazy, jobs, nil)
		var said strings.Builder
		for _, f := range e.findings {
			said.WriteString(f.Check + " " + f.Verdict + " " + f.Detail + "\n")
		}
		return said.String()
	}
	if said := check("D-128"); !strings.Contains(said, "programs and data ok the 4 different jobs can start\nlibraries ok") {
		t.Error(said)
	}
	if said := check(); !strings.Contains(said, "programs and data failed") || !strings.Contains(said, "backprop") || !strings.Contains(said, "cluster/mm") {
		t.Error(said)
	}
	if said := check("C-alone-mm"); !strings.Contains(said, "programs and data failed job 0 (cluster-mm): program cluster/mm of suite") {
		t.Error(said)
	}
}

// Several errors of one check are told apart in one line.
func TestSeveralErrorsOfACheck(t *testing.T) {
	var e examination
	e.try("data", errors.Join(errors.New("no a"), errors.New("no b")), "")
	if got := e.findings[0]; got.Verdict != Failed || got.Detail != "no a; no b" {
		t.Errorf("%+v", got)
	}
}

// PyTorch is missing only for who wants its mixes.
func TestDoctorLoadsPyTorch(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, c := range []struct {
		python   string
		optional bool
		want     Finding
	}{
		{"exit 1", true, Finding{"PyTorch", Warning, "does not load torch (exit status 1): install a build for CUDA"}},
		{"exit 1", false, Finding{"PyTorch", Failed, "does not load torch (exit status 1): install a build for CUDA"}},
		{"echo 2.11 of /usr/bin/python3; echo False", false, Finding{"PyTorch", Failed, "2.11 of /usr/bin/python3 finds no GPU"}},
		{"echo 2.11 of /usr/bin/python3; echo True", true, Finding{"PyTorch", Fine, "2.11 of /usr/bin/python3 finds GPUs"}},
	} {
		if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\n"+c.python+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		var e examination
		e.pytorch(t.Context(), c.optional)
		if got := e.findings[0]; got.Check != c.want.Check || got.Verdict != c.want.Verdict || !strings.Contains(got.Detail, c.want.Detail) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// What doctor says of checkpoints is what the driver can do.
func TestDoctorChecksCheckpoints(t *testing.T) {
	fakes := filepath.Join(nativetest.Build(t, "fake"), "build/13")
	old := filepath.Join(nativetest.Build(t, "ballast", "checkpoint", "build/libcuda.so.1"), "build")
	t.Chdir("../..") // where the program is found
	t.Setenv("FAKE_CUDA_CHECKPOINT", "1")
	for _, c := range []struct {
		driver, fail string
		free         uint64
		want         Finding
	}{
		{fakes, "", 1 << 30, Finding{"checkpoint", Fine, "a process with a context and 4 MiB is out after"}},
		{fakes, "", 1 << 20, Finding{"checkpoint", Warning, "not tried: GPU 1 has less than 1 GiB free"}},
		{fakes, "cuCheckpointProcessLock:1=801", 1 << 30, Finding{"checkpoint", Warning, "not available: the driver cannot checkpoint it"}},
		{fakes, "cuMemAlloc_v2:1=2", 1 << 30, Finding{"checkpoint", Failed, "cuMemAlloc"}},
		{old, "", 1 << 30, Finding{"checkpoint", Warning, "not available with driver 535.1"}},
	} {
		t.Setenv("LD_LIBRARY_PATH", c.driver)
		t.Setenv("FAKE_CUDA_FAIL", c.fail)
		var e examination
		e.checkpoint(t.Context(), nvml.Device{UUID: "GPU-ca5e0000-0000-0000-0000-000000000001", ID: "1", Memory: nvml.Memory{Free: c.free}}, "535.1")
		if got := e.findings[0]; got.Verdict != c.want.Verdict || !strings.Contains(got.Detail, c.want.Detail) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
