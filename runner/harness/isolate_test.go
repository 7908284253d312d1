package harness

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// said is a log that keeps what it is told of jobs and events.
type said struct {
	unlogged
	lines []string
}

func (s *said) Job(run int64, j results.Job) {
	s.lines = append(s.lines, fmt.Sprintf("run %d job %d %s", run, j.Index, *j.Outcome))
}

func (s *said) Event(run int64, e results.Event) {
	s.lines = append(s.lines, fmt.Sprintf("run %d %s", run, e.Kind))
}

// The log learns which jobs of the earlier run have another outcome, and of no others.
func TestIsolateTellsTheLog(t *testing.T) {
	s := openScratch(t)
	ctx := t.Context()
	first, err := s.BeginRun(ctx, results.Run{Mix: "m", Scheduler: "zero", Node: "local", Mode: results.Live, Status: results.Running, Jobs: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs := []results.Job{
		{Index: 0, Name: "a", Outcome: new(results.FaultSuspect), Suspects: []int{0, 2}},
		{Index: 1, Name: "b", Outcome: new(results.Collateral)},
		{Index: 2, Name: "c", Outcome: new(results.FaultSuspect), Suspects: []int{0, 2}},
	}
	log := new(said)
	r := Request{Store: s, Log: log, Say: func(string, ...any) {}, Mix: mixes.Mix{Name: "m", Jobs: make([]mixes.Job, 2)}}
	alone := func(_ context.Context, again Request) (Outcome, error) {
		if got := again.Mix.Jobs[2].Name; got != "given" {
			t.Errorf("the last job that runs again is %q, want the one that the run was given", got)
		}
		return Outcome{Run: results.Run{ID: first + 1}, Jobs: []results.Job{{Outcome: new(results.OK)}, {Outcome: new(results.OK)}, {Outcome: new(results.Fault)}}}, nil
	}
	if _, err := isolate(ctx, r, Outcome{Run: results.Run{ID: first}, Given: []mixes.Job{{Name: "given"}}}, jobs, alone); err != nil {
		t.Fatal(err)
	}
	want := []string{"run 1 job 0 collateral", "run 1 job 2 fault", "run 1 verdict", "run 1 verdict"}
	if diff := cmp.Diff(want, log.lines); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
}
