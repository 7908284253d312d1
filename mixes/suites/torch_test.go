package suites

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// The PyTorch programs need no build of a suite, and work where caserun was started. Without PyTorch they are refused before
// any job starts, once for each python3 that jobs would have.
func TestResolvePyTorch(t *testing.T) {
	m, err := mixes.Lookup("M-mixed")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	python := func(line string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	without := python("echo /opt/python3; exit 1")
	t.Setenv("PATH", python("exit 0"))
	programs, dirs, err := Resolve(Builtin, Plain, "data", m)
	if err != nil {
		t.Fatal(err)
	}
	for i, program := range programs {
		if want := filepath.Join(here, "benchmarks", m.Jobs[i].Program); program != want || dirs[i] != here {
			t.Errorf("%s in %s, want %s in %s", program, dirs[i], want, here)
		}
	}
	for i := range m.Jobs[1:] {
		m.Jobs[i+1].Env = []string{"PATH=" + without}
	}
	_, _, err = Resolve(Builtin, Plain, "data", m)
	want := "job 1 (torch-graphs): program torch/graphs.py: /opt/python3 has no PyTorch (exit status 1): install "
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "job") != 1 {
		t.Errorf("%v, want %s", err, want)
	}
	for _, suite := range []string{Builtin, "/opt/rodinia"} {
		for i, check := range Checks(suite, m.Jobs) {
			if !Restartable(suite, &m.Jobs[i]) || check != (mixes.Check{Failed: 4, Passes: true}) {
				t.Errorf("%s of %s: restartable %v, %+v", m.Jobs[i].Name, suite, Restartable(suite, &m.Jobs[i]), check)
			}
		}
	}
	t.Chdir(t.TempDir())
	if _, _, err := Resolve(Builtin, Plain, "data", m); err == nil || !strings.Contains(err.Error(), "programs not found: start caserun in its source tree") {
		t.Errorf("without the programs: %v", err)
	}
}
