package runner_test

import (
	"context"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// ordered fails on an event about a job that has no row yet: a store could not
// take it.
type ordered struct {
	*tape
	t *testing.T
}

func (r ordered) Event(e results.Event) {
	if _, known := r.jobs[*e.Job]; !known {
		r.t.Errorf("event %q of job %d before its row", e.Kind, *e.Job)
	}
	r.tape.Event(e)
}

func TestNotesAreRecordedBehindTheirJobs(t *testing.T) {
	s, err := policies.Parse("sa", 1)
	if err != nil {
		t.Fatal(err)
	}
	rec := ordered{newTape(), t}
	note := results.Event{Kind: results.EventDeclared, Job: new(1), Detail: "why"}
	_, err = runner.Run(context.Background(), runner.Config{Jobs: probed(2), Scheduler: s, Notes: []results.Event{note},
		Devices: []schedulers.Device{{CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}}},
		&fake{t: t, script: func(f *fake) {
			f.started(0)
			f.ended(0)
			f.started(1)
			f.ended(1)
		}}, rec)
	if err != nil || len(rec.events) != 1 || rec.events[0].Detail != "why" {
		t.Errorf("events %+v, %v, want the note", rec.events, err)
	}
}
