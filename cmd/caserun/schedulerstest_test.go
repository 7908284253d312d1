package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestSchedulersTest(t *testing.T) {
	inTempDir(t)
	// It lets a task wait while any device is closed to it, up to a question whose number no smaller workload has.
	const tired = `{
    case $question in *'"open":false'*) echo "{\"id\":$id,\"device\":null}"; continue ;; esac
    [ "$id" -lt 90 ] || { echo tired >&2; exit 5; }
  }`
	writeFiles(t, map[string]string{
		"closed.sh": shellPolicy(never, "true"),
		"dies.sh":   shellPolicy(1, "{ echo tired >&2; exit 5; }"),
		"silent.sh": "#!/bin/sh\nexit 3\n",
		"tired.sh":  shellPolicy(0, tired),
		"second.sh": shellHead(never, "true"),
		"waits.sh":  shellHead(0, `{ echo "{\"id\":$id,\"shares\":[]}"; continue; }`),
	})
	for _, c := range []struct {
		line   string
		status int
		says   []string
	}{
		{"case-alg3 --workloads 5", exitOK, []string{"test of case-alg3", "priority-mmu           5  ok"}},
		{"vgpu --workloads 5", exitOK, []string{"largest-first          5  ok"}},
		{"zero --workloads 5", exitOK, []string{"-              5  ok"}},
		{"exec:closed.sh", exitJobsFailed, []string{"FAILED: policy closed.sh: asked to place task", "which is not open to the task", "the smallest workload found on which it fails, queue fifo", "begin", "task 1 of job 1: 0 bytes", "caserun: exec:closed.sh breaks a rule (queue fifo, seed 1): "}},
		{"exec:dies.sh --seed 2", exitJobsFailed, []string{"(queue fifo, seed 2): policy dies.sh: asked to place task", `its stderr: "tired"`}},
		{"exec:tired.sh", exitJobsFailed, []string{"the same workload does not fail again", "at first: policy tired.sh: asked to place task", `its stderr: "tired"`}},
		{"exec:silent.sh", exitInfrastructure, []string{"policy silent.sh: asked to greet: it gave no answer and ended (exit status 3)"}},
		{"coloc:nodes=2/sa --workloads 5", exitOK, []string{"test of coloc:nodes=2/sa", "-              5  ok"}},
		{"exec:waits.sh+offload:threshold=1/sa", exitOK, []string{"-            100  ok"}},
		{"exec:second.sh/sa", exitJobsFailed, []string{"FAILED: policy second.sh: asked to assign job 1 (random)", "node 1: the cluster has nodes 0 to 0", "1 submit ranks 1, kind 0, class 0, whole 0", "exec:second.sh/sa breaks a rule (queue -, seed 1): "}},
		{"exec:silent.sh/sa", exitInfrastructure, []string{"policy silent.sh: asked to greet: it gave no answer and ended (exit status 3)"}},
		{"exec:second.sh/case-alg9", exitUsage, []string{"policy second.sh/case-alg9: not a directory"}},
		{"coloc", exitUsage, []string{"as in coloc/case-alg3"}},
		{"exec:none.sh/sa", exitUsage, []string{"policy none.sh: no such file"}},
		{"exec:none.sh", exitUsage, []string{"policy none.sh: no such file"}},
		{"exec:closed.sh,queue=fifo", exitUsage, []string{"the test draws queue itself: leave it out"}},
		{"case-alg3:queue=fifo", exitUsage, []string{"name case-alg3 alone"}},
		{"case-alg9", exitUsage, []string{`unknown scheduler "case-alg9"`}},
		{"case-alg3 --seed 0", exitUsage, []string{"want 1 or more"}},
		{"case-alg3 --workloads 0", exitUsage, []string{"want 1 or more"}},
		{"", exitUsage, []string{"SCHEDULER is missing"}},
	} {
		status, out, errs := caserun(t, append([]string{"schedulers", "test"}, strings.Fields(c.line)...)...)
		if status != c.status {
			t.Errorf("%s: exit %d, want %d:\n%s%s", c.line, status, c.status, out, errs)
		}
		text := strings.Join(strings.Fields(out+errs), " ")
		for _, want := range c.says {
			if !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s must say %q:\n%s%s", c.line, want, out, errs)
			}
		}
	}
	if found, err := os.ReadDir("."); err != nil || len(found) != 6 {
		t.Errorf("the test left files: %v, %v", found, err)
	}
}

// The same seed fails on the same workload, and every format has its steps.
func TestSchedulersTestFailsAlike(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"p.sh": shellPolicy(1, "{ echo tired >&2; exit 5; }")})
	fails := func(args ...string) string {
		status, out, errs := caserun(t, append([]string{"schedulers", "test", "exec:p.sh"}, args...)...)
		if status != exitJobsFailed {
			t.Fatalf("exit %d: %s%s", status, out, errs)
		}
		return out
	}
	var tables []struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(fails("--format", "json")), &tables); err != nil {
		t.Fatal(err)
	}
	if len(tables) != 2 || len(tables[0].Rows) != 1 || len(tables[1].Rows) < 2 || tables[1].Rows[0]["call"] != "begin" {
		t.Errorf("tables %+v", tables)
	}
	if out := fails("--format", "md"); !strings.Contains(out, "begin") || !strings.Contains(out, "tired") {
		t.Errorf("md:\n%s", out)
	}
	if out := fails("--format", "csv"); !strings.Contains(out, "tired") {
		t.Errorf("csv:\n%s", out)
	}
}

// Reports print names with parameters, so the name before the colon is looked up.
func TestSchedulersWithParameters(t *testing.T) {
	for line, says := range map[string]string{"cg:workerz=8": "workers", "exec:./x.py": "a program of yours",
		"CASE-ALG3:queue=fifo": "did you mean case-alg3?", "testt": "did you mean caserun schedulers test?"} {
		_, out, errs := caserun(t, "schedulers", line)
		if !strings.Contains(out+errs, says) {
			t.Errorf("%s: %s%s, want %q", line, out, errs, says)
		}
	}
}
