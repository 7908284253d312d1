package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results/store"
)

// Ranks meet in a live run, whoever decides, and the report shows them.
func TestMixOfRanks(t *testing.T) {
	script, err := filepath.Abs("../../benchmarks/ranks.sh")
	if err != nil {
		t.Fatal(err)
	}
	library, program := fakeNVML(t), buildStepJob(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{"m.yaml": fmt.Sprintf("jobs:\n- {program: %s, args: [\"2\", %s, \"begin:1000\", free], ranks: 3, memory: 1GiB}\n"+
		"- {program: /bin/sh, args: [-c, 'exit $CASE_RANK'], ranks: 2, memory: 1GiB}\n", script, program)})
	for run, sched := range []string{"case-alg3", "schedgpu:arch=shared", "sa"} {
		status, text := finish(t, onFakes(dir, library, nil, "mix", "m.yaml", "--no-mps", "--devices", "0", "--sched", sched))
		if status != exitJobsFailed || !strings.Contains(text, "crash: rank 1: exit status 1") {
			t.Fatalf("%s: exit %d:\n%s", sched, status, text)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		ranks, err := s.Ranks(t.Context(), int64(run+1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, k := range ranks {
			if k.Job == 1 && k.Rank == 0 {
				continue // it ends by itself, or because rank 1 has failed
			}
			said = append(said, fmt.Sprintf("%d.%d %s %d", k.Job, k.Rank, *k.Outcome, *k.ExitStatus))
		}
		if got := strings.Join(said, ", "); err != nil || got != "0.0 ok 0, 0.1 ok 0, 0.2 ok 0, 1.1 crash 1" {
			t.Errorf("%s: ranks %s (%v)", sched, got, err)
		}
	}
	if status, out, errs := caserun(t, "report", "1", "-v"); status != exitOK || !strings.Contains(out, "ranks of run 1") {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
}

// Steps of ranks that a job lacks are an error at the job's line.
func TestStepsOfOtherRanks(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"s.jsonl": `{"step": "message", "from": 0, "to": 2, "bytes": 8}` + "\n",
		"m.yaml": "jobs:\n  - {steps: s.jsonl, ranks: 3}\n  - {steps: s.jsonl, ranks: 2}\n"})
	const want = "m.yaml:3: s.jsonl:1: rank 2 of a job with 2: use ranks from 0 to 1, or give the job ranks: 3"
	if status, out, errs := caserun(t, "mix", "m.yaml", "--node", "sim:1xV100"); status != exitUsage || !strings.Contains(errs, want) {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
}
