package main

import (
	"strings"
	"testing"
)

const twoTasks = `{"step": "allocate", "object": "a", "bytes": "1GiB"}
{"step": "kernel", "blocks": 8, "threads": 64, "seconds": 2}
{"step": "free", "object": "a"}
{"step": "host", "seconds": 1}
{"step": "allocate", "object": "a", "bytes": "2GiB"}
{"step": "kernel", "blocks": 8, "threads": 64, "seconds": 2}
`

// A job of a mix may be a list of steps, which a simulated node does and a GPU cannot.
func TestMixOfSteps(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{
		"steps/own.jsonl": twoTasks,
		"mine.yaml":       "jobs:\n  - {steps: steps/own.jsonl, count: 2}\n",
		"bad.yaml":        "jobs:\n  - {steps: steps/bad.jsonl}\n",
		"steps/bad.jsonl": twoTasks + `{"step": "sleep"}` + "\n",
		"none.yaml":       "jobs:\n  - {steps: steps/none.jsonl}\n",
		"both.yaml":       "jobs:\n  - {steps: steps/own.jsonl, program: /bin/true}\n",
	})
	if status, out, errs := caserun(t, "mix", "mine.yaml", "--node", "sim:1xH200", "--format", "csv"); status != exitOK {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	status, out, errs := caserun(t, "report", "latest", "-v", "--format", "json")
	if status != exitOK || strings.Count(out, "steps: steps/own.jsonl") != 2 || !strings.Contains(out, "1073741824") || !strings.Contains(out, "2147483648") {
		t.Errorf("exit %d: %s\n%s\nwant two jobs with two tasks each", status, errs, out)
	}
	if status, out, errs := caserun(t, "mixes", "show", "mine.yaml", "--yaml"); status != exitOK || !strings.Contains(out, "steps: steps/own.jsonl") {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	for mix, want := range map[string]string{
		"bad.yaml":  `steps/bad.jsonl:7: unknown step "sleep": use one of allocate, barrier, copy, free, host, kernel, message`,
		"none.yaml": "none.yaml:2: the steps of job none.jsonl: steps/none.jsonl: no such file or directory",
	} {
		for _, args := range [][]string{{"mix", mix}, {"sweep", "--mixes", mix, "--scheds", "sa"}} {
			if status, _, errs := caserun(t, append(args, "--node", "sim:1xH200")...); status != exitUsage || !strings.Contains(errs, want) {
				t.Errorf("%s: exit %d: %s\nwant %s", args, status, errs, want)
			}
		}
	}
	live := func(args ...string) (int, string) {
		return finish(t, onFakes(dir, library, nil, append(args, "--devices", "3")...))
	}
	const refused = "job 0 (own.jsonl) has steps or a profile and no program, so a GPU cannot run it: simulate the mix with --node sim:4xV100, or give the job a program"
	for _, args := range [][]string{{"mix", "mine.yaml", "--sched", "zero", "--no-mps", "--node", "local"}, {"profile", "--mix", "mine.yaml"}} {
		if status, text := live(args...); status != exitUsage || !strings.Contains(text, refused) {
			t.Errorf("%s without a program: exit %d: %s", args, status, text)
		}
	}
	if status, text := live("mix", "both.yaml", "--sched", "zero", "--no-mps", "--node", "local"); status != exitOK {
		t.Errorf("live with a program: exit %d: %s", status, text)
	}
}

// A sweep is resumed only with the steps that it was planned with.
func TestSweepOfOtherSteps(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"own.jsonl": twoTasks, "mine.yaml": "jobs:\n  - {steps: own.jsonl}\n"})
	_, _, errs := caserun(t, "sweep", "--mixes", "mine.yaml", "--scheds", "sa", "--node", "sim:1xH200", "--time-limit", "1ns")
	if !strings.Contains(errs, "no run began") {
		t.Fatalf("the sweep ran: %s", errs)
	}
	writeFiles(t, map[string]string{"own.jsonl": strings.Replace(twoTasks, "2GiB", "3GiB", 1)})
	if status, _, errs := caserun(t, "sweep", "--resume", "latest", "--time-limit", "1h"); status != exitUsage || !strings.Contains(errs, "mine") {
		t.Errorf("other steps: exit %d: %s", status, errs)
	}
	writeFiles(t, map[string]string{"own.jsonl": twoTasks})
	if status, _, errs := caserun(t, "sweep", "--resume", "latest", "--time-limit", "1h"); status != exitOK {
		t.Errorf("the same steps: exit %d: %s", status, errs)
	}
}
