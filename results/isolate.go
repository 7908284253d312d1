package results

import (
	"fmt"
	"slices"
)

// Isolate corrects the outcomes of jobs of a run in which faults under MPS took jobs down: those that were taken down
// (Collateral or FaultSuspect), and those that are suspected or named. alone has the same jobs in the same order, each run
// alone, in the run with the given id.
//
// A job that faulted alone caused the fault, also one that was shown no error and ended ok. A suspect is cleared if another
// suspect of the same fault faulted alone, and a job that was named if another job that the fault took down did. Otherwise
// they stay what they are, because the fault may depend on neighbours or on chance. Isolate returns an event for each job that
// it settles, and for each suspected or named job that it does not.
func Isolate(jobs, alone []Job, run int64) []Event {
	faulted := map[int]bool{} // by index in the first run
	for i, j := range jobs {
		faulted[j.Index] = *alone[i].Outcome == Fault
	}
	instead := map[int]string{} // of the jobs that are blamed, by index: who of those that blame them faulted alone
	for _, j := range jobs {
		for _, blamed := range j.Suspects {
			if faulted[j.Index] && !faulted[blamed] {
				instead[blamed] = fmt.Sprintf("job %d (%s)", j.Index, j.Name)
			}
		}
	}
	var events []Event
	for i := range jobs {
		j := &jobs[i]
		found := slices.ContainsFunc(j.Suspects, func(index int) bool { return faulted[index] })
		kind, what := EventVerdict, ""
		switch was := *j.Outcome; {
		case faulted[j.Index]:
			j.Outcome, what = new(Fault), fmt.Sprintf("it faulted alone too, in run %d", run)
			if was.CountsAsOK() {
				j.Detail, what = "no error was shown to it under MPS", fmt.Sprintf("it faulted alone, in run %d", run)
			}
		case was == FaultSuspect && found:
			j.Outcome, what = new(Collateral), fmt.Sprintf("it did not fault alone, in run %d", run)
		case was == FaultSuspect:
			kind, what = EventNoVerdict, fmt.Sprintf("no suspect faulted alone, in run %d", run)
		case was == Fault && instead[j.Index] != "":
			j.Outcome, what = new(Collateral), fmt.Sprintf("it did not fault alone, in run %d, and %s did", run, instead[j.Index])
		case was == Fault:
			kind, what = EventNoVerdict, fmt.Sprintf("it did not fault alone, in run %d", run)
		case was == Collateral && !found:
			if at := slices.IndexFunc(j.Suspects, func(index int) bool { return instead[index] != "" }); at >= 0 {
				j.Detail += fmt.Sprintf("; but %s faulted alone, in run %d", instead[j.Suspects[at]], run)
			}
			continue
		default:
			continue
		}
		j.Detail += "; " + what
		events = append(events, Event{Kind: kind, Job: &j.Index, Device: j.Device,
			Detail: fmt.Sprintf("job %d (%s) is %s: %s", j.Index, j.Name, *j.Outcome, what)})
	}
	return events
}
