package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// What did not end ok is in the run that the message names, also where the jobs
// that ended as collateral had a run of their own.
func TestMixNamesTheRunsThatFailed(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	breaks := "jobs:\n  - {program: " + program + ", args: 'begin:1000 hear:both fault:700 hear:first', memory: 1GiB}\n"
	// again is what the second job does once it was taken down.
	const suffers = "  - {program: /bin/sh, args: [-c, 'if mkdir begun; then exec %program begin:1000 tell:both tell:first sleep:100 fault:700; else %again; fi'], memory: 1GiB}\n"
	for _, c := range []struct {
		again, more, says string
		outcomes          []results.Outcome
	}{
		{"exit 0", "", "1 of 2 jobs did not end ok; caserun report 1 -v shows them", []results.Outcome{results.Fault, results.Collateral}},
		{"exit 9", "  - {program: /bin/true, memory: 1GiB}\n", "2 of 3 jobs did not end ok; caserun report 1 2 -v shows them",
			[]results.Outcome{results.Fault, results.Collateral, results.OK}},
	} {
		dir := fakeNode(t, "", "")
		writeFiles(t, map[string]string{
			// The daemon has no server, ever, and ends when it is told to quit.
			"bin/nvidia-cuda-mps-control": "#!/bin/sh\ncd " + dir + "\n[ \"$1\" = -f ] && exec cat pipe\nread line\ncase $line in quit*) echo >pipe;; esac\n",
			"two.yaml":                    breaks + strings.NewReplacer("%program", program, "%again", c.again).Replace(suffers) + c.more,
		})
		env := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
		status, text := finish(t, onFakes(dir, library, env, "mix", "two.yaml", "--sched", "zero", "--workers", "3", "--timeout", "1m", "--devices", "3", "--retry-collateral"))
		if status != exitJobsFailed || !strings.Contains(text, c.says) {
			t.Errorf("exit %d, want %d and %q:\n%s", status, exitJobsFailed, c.says, text)
		}
		_, jobs, _ := stored(t, 1)
		for i, j := range jobs {
			if *j.Outcome != c.outcomes[i] {
				t.Errorf("job %d of run 1 ended as %s, want %s: %s", i, *j.Outcome, c.outcomes[i], j.Detail)
			}
		}
	}
}
