package engine_test

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// idle places nothing.
type idle struct{ schedulers.Policy }

func (idle) Place(schedulers.Task, schedulers.View) (schedulers.Placement, bool) {
	return schedulers.Placement{}, false
}

// A policy that places nothing is not taken for a lack of memory.
func TestRefusalOfAPolicyThatPlacesNothing(t *testing.T) {
	e, err := engine.New([]schedulers.Device{enginetest.Small}, idle{}, engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ds, err := e.Submit(schedulers.Task{ID: 1, Bytes: 1}, 0)
	if err != nil || len(ds) != 1 || ds[0].Kind != schedulers.Refused {
		t.Fatalf("%+v (%v), want a refusal", ds, err)
	}
	if why := ds[0].Reason.Why; !strings.Contains(why, "the scheduler gives it no device") || len(why) > 119 {
		t.Errorf("it says %q", why)
	}
}
