package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// A fault takes two jobs down, and nothing tells whose it was. Each alone, the first
// faults again: the first run says so in the end, and what still failed is in the runs
// that the message names.
func TestMixIsolatesFaults(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	breaks := "jobs:\n  - {program: /bin/sh, args: [-c, 'if mkdir broke; then exec %program begin:1000 hear:both fault:700 hear:first; else %guilty; fi'], memory: 1GiB}\n"
	// again is what the second job does once it was taken down.
	const suffers = "  - {program: /bin/sh, args: [-c, 'if mkdir begun; then exec %program begin:1000 tell:both tell:first sleep:100 fault:700; else %again; fi'], memory: 1GiB}\n"
	// A misaligned address is shown to the other job alone, and the first ends ok.
	const hidden = "jobs:\n  - {program: /bin/sh, args: [-c, 'if mkdir broke; then exec %program busy begin:1000 tell:both hear:told idle exit:0; else %guilty; fi'], memory: 1GiB}\n" +
		"  - {program: /bin/sh, args: [-c, 'if mkdir begun; then exec %program idle begin:1000 hear:both fault:716 tell:told exit:1; else %again; fi'], memory: 1GiB}\n"
	const onSecond = "  - {program: /bin/true, memory: 1GiB}\n" // goes to the first node, before each of the others
	for _, c := range []struct {
		name, guilty, again, more, flag string
		says                            []string
		outcomes                        []results.Outcome
	}{
		{"the culprit is shown nothing", "exec %program begin:1000 fault:716", "exit 0", hidden, "--isolate-faults",
			[]string{"running 2 jobs that a fault took down, or that may have caused it, again, each alone on a GPU",
				"run 1: job 0 (sh) is fault: it faulted alone, in run 2", "1 of 2 jobs did not end ok; caserun report 2 -v shows them"},
			[]results.Outcome{results.Fault, results.Collateral}},
		{"one faults alone", "exec %program begin:1000 fault:700", "exit 0", "", "--isolate-faults",
			[]string{"1 of 2 jobs did not end ok; caserun report 2 -v shows them", "running 2 jobs that a fault took down, or that may have caused it, again, each alone on a GPU",
				"run 1: job 0 (sh) is fault: it faulted alone too, in run 2", "run 1: job 1 (sh) is collateral: it did not fault alone, in run 2"},
			[]results.Outcome{results.Fault, results.Collateral}},
		{"nobody does, and one fails", "exit 0", "exit 9", "  - {program: /bin/true, memory: 1GiB}\n", "--retry-collateral",
			[]string{"1 of 3 jobs did not end ok; caserun report 2 -v shows them", "retry-collateral is now called isolate-faults"},
			[]results.Outcome{results.FaultSuspect, results.FaultSuspect, results.OK}},
		{"on the second of two nodes", "exec %program begin:1000 fault:700", "exit 0", onSecond, "--isolate-faults",
			[]string{"running 2 jobs that a fault took down, or that may have caused it, again, each alone on a GPU", "and one of job 1 (sh), job",
				"run 1: job 1 (sh) is fault: it faulted alone too, in run 2", "run 1: job 3 (sh) is collateral: it did not fault alone, in run 2"},
			[]results.Outcome{results.OK, results.Fault, results.OK, results.Collateral}},
		{"without the flag", "exit 0", "exit 0", "", "--verbose",
			[]string{"nothing was measured: none of the 2 jobs ended ok", "caserun: a fault under MPS took 2 jobs down: with --isolate-faults each of them runs again",
				"a CUDA error took it down; 1/2 ended"},
			[]results.Outcome{results.FaultSuspect, results.FaultSuspect}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, mix := fakeNode(t, "", ""), breaks+suffers+c.more
			on := []string{"--devices", "3", "--sched", "zero"}
			switch {
			case c.more == hidden:
				mix = hidden
			case len(c.outcomes) == 4:
				mix, on = strings.Replace(breaks, "jobs:\n", "jobs:\n"+onSecond, 1)+onSecond+suffers, []string{"--node", "local:2:3", "--sched", "cluster-rr/zero"}
			}
			with := strings.NewReplacer("%program", program, "%again", c.again, "%guilty", strings.ReplaceAll(c.guilty, "%program", program))
			writeFiles(t, map[string]string{
				// The daemon has no server, ever, and ends when it is told to quit.
				"bin/nvidia-cuda-mps-control": "#!/bin/sh\ncd " + dir + "\n[ \"$1\" = -f ] && mkfifo $CUDA_MPS_PIPE_DIRECTORY/pipe && exec cat $CUDA_MPS_PIPE_DIRECTORY/pipe\nread line\ncase $line in quit*) echo >$CUDA_MPS_PIPE_DIRECTORY/pipe;; esac\n",
				"two.yaml":                    with.Replace(mix),
			})
			env := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
			status, text := finish(t, onFakes(dir, library, env, append([]string{"mix", "two.yaml"}, append(on, "--workers", "3", "--timeout", "1m", c.flag)...)...))
			if status != exitJobsFailed && status != exitNothing {
				t.Errorf("exit %d:\n%s", status, text)
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("want %q:\n%s", want, text)
				}
			}
			run, jobs, _ := stored(t, 1)
			ok := 0
			for i, j := range jobs {
				if j.EndedOK() {
					ok++
				}
				if *j.Outcome != c.outcomes[i] {
					t.Errorf("job %d of run 1 ended as %s, want %s: %s", i, *j.Outcome, c.outcomes[i], j.Detail)
				}
			}
			if run.Metrics.OK != ok {
				t.Errorf("run 1 says that %d jobs ended ok, and %d did", run.Metrics.OK, ok)
			}
		})
	}
}
