package results

import (
	"fmt"
	"slices"
)

// Isolate corrects the outcomes of jobs that a fault under MPS took down (Collateral or
// FaultSuspect). alone has the same jobs in the same order, each run alone, in the run with the
// given id. A job that faulted alone caused the fault. A suspect is cleared if another suspect
// of the same fault faulted alone. It stays a suspect if none did, because the fault may depend
// on neighbours or on chance. Isolate returns an event for each job that it settles, and for
// each job that stays a suspect.
func Isolate(jobs, alone []Job, run int64) []Event {
	faulted := map[int]bool{} // by index in the first run
	for i, j := range jobs {
		faulted[j.Index] = *alone[i].Outcome == Fault
	}
	var events []Event
	for i := range jobs {
		j := &jobs[i]
		suspect := *j.Outcome == FaultSuspect
		found := slices.ContainsFunc(j.Suspects, func(index int) bool { return faulted[index] })
		kind, what := EventVerdict, ""
		switch {
		case faulted[j.Index]:
			j.Outcome, what = new(Fault), fmt.Sprintf("it faulted alone too, in run %d", run)
		case suspect && found:
			j.Outcome, what = new(Collateral), fmt.Sprintf("it did not fault alone, in run %d", run)
		case suspect:
			kind, what = EventNoVerdict, fmt.Sprintf("no suspect faulted alone, in run %d", run)
		default:
			continue
		}
		j.Detail += "; " + what
		events = append(events, Event{Kind: kind, Job: &j.Index, Device: j.Device,
			Detail: fmt.Sprintf("job %d (%s) is %s: %s", j.Index, j.Name, *j.Outcome, what)})
	}
	return events
}
