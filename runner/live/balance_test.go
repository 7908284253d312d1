package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// A process goes to the faster device once that is idle, and computes there what it computes alone. One that cannot go says why, and ends
// where it is.
func TestBalancingMovesAProcess(t *testing.T) {
	alone := newSwapRig(t, "sa", 1)
	alone.mustRun()
	want := computed(alone, 0)
	for binary, why := range map[string]string{"lazy_program": "", "linked_lazy": "the program has a static CUDA runtime"} {
		t.Run(binary, func(t *testing.T) {
			room := t.TempDir()
			r := newSwapRig(t, "vgpu:n=1,balance=on,weights=2:1", 2)
			r.limit = ample
			slow := &r.jobs[1] // it begins second, and waits in a phase on the host until it has answered
			slow.Env = append(slow.Env, fmt.Sprintf("SWAPPED_MEET=%s,2", room))
			slow.Args = []string{"-c", "read line <next; exec " + strings.Replace(slow.Program, "lazy_program", binary, 1) + " swapped 10"}
			slow.Program = "/bin/sh"
			r.tell("next", func(s runner.Step) bool {
				begin, ok := s.Event.(runner.TaskBegin)
				return ok && begin.Task.Job == 0
			})
			tell := r.observe
			r.observe = func(s runner.Step) {
				tell(s)
				if e, ok := s.Event.(runner.TaskRevoked); ok && (e.Answer.Outcome == schedulers.Done || e.Answer.Outcome == schedulers.Unable) {
					if err := os.WriteFile(filepath.Join(room, "answered"), nil, 0o600); err != nil {
						t.Error(err)
					}
				}
			}
			jobs, rec := r.mustRun()
			for i, j := range jobs {
				if *j.Outcome != results.OK || computed(r, i) != want {
					t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
				}
			}
			var answers []results.Swap
			for _, s := range rec.swaps {
				if s.Action == schedulers.Move.String() && s.Outcome != schedulers.Busy {
					answers = append(answers, s)
				}
			}
			moved := len(answers) == 1 && answers[0].Bytes >= jobMoves
			if len(answers) != 1 || answers[0].Job != 1 || moved != (why == "") || answers[0].Why != why {
				t.Errorf("answers %+v, want one of job 1, and the reason %q", rec.swaps, why)
			}
			r.wantWholeArea()
		})
	}
}
