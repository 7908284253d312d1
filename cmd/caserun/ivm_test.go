package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// An application of IVM is a job. On one GPU each PE that uses it has tasks of its own. With several the application has the GPUs that
// its job has. Otherwise PEs of one device may get different GPUs, which ends the application.
func TestAnApplicationOfIVMIsAJob(t *testing.T) {
	dir := inTempDir(t)
	ivm := filepath.Join(nativetest.Build(t, "ivm", "fixtures"), "build")
	programs := filepath.Join(nativetest.Build(t, "../benchmarks/ivm"), "../../bin/ivm")
	for i, c := range []struct {
		job     string
		devices string
		outcome results.Outcome
		tasks   int // at least
	}{
		{"args: [PROGRAMS/start, --gpu, --count, 4], count: 2", "0", results.OK, 2 * 4},
		{"args: [IVM/gpu, master], gpus: 2, memory: 40MiB", "0,1", results.OK, 0},
		{"args: [PROGRAMS/gpushare, --bytes, 20971520], binding: declared, memory: 50MiB", "0,1", results.OK, 0},
		{"args: [PROGRAMS/gpushare, --bytes, 20971520]", "0,1", results.Crash, 2},
	} {
		text := strings.NewReplacer("IVM", ivm, "PROGRAMS", programs).Replace("name: ivm\njobs:\n  - {program: IVM/ivmd, " + c.job + "}\n")
		if err := os.WriteFile("ivm.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, said := onFakeNode(t, dir, nil, "mix", "ivm.yaml", "--node", "local", "--sched", "case-alg2", "--devices", c.devices, "--workers", "2")
		if (status == exitOK) != (c.outcome == results.OK) {
			t.Fatalf("%s: exit %d:\n%s", c.job, status, said)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		jobs, err := s.Jobs(t.Context(), int64(i+1))
		if err != nil || len(jobs) == 0 {
			t.Fatal(jobs, err)
		}
		for _, job := range jobs {
			if *job.Outcome != c.outcome {
				t.Errorf("%s: %+v\n%s", c.job, job, said)
			}
		}
		tasks, err := s.Tasks(t.Context(), int64(i+1))
		if err != nil || len(tasks) < c.tasks {
			t.Errorf("%s: %d tasks (%v), want %d: %+v", c.job, len(tasks), err, c.tasks, tasks)
		}
	}
}
