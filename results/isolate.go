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
	s := isolation{run: run, faulted: map[int]bool{}, instead: map[int]string{}}
	for i, j := range jobs {
		s.faulted[j.Index] = *alone[i].Outcome == Fault
	}
	for _, j := range jobs {
		for _, blamed := range j.Suspects {
			if s.faulted[j.Index] && !s.faulted[blamed] {
				s.instead[blamed] = fmt.Sprintf("job %d (%s)", j.Index, j.Name)
			}
		}
	}
	var events []Event
	for i := range jobs {
		j := &jobs[i]
		kind, what := s.settle(j)
		if what == "" {
			continue
		}
		j.Detail += "; " + what
		events = append(events, Event{Kind: kind, Job: &j.Index, Device: j.Device,
			Detail: fmt.Sprintf("job %d (%s) is %s: %s", j.Index, j.Name, *j.Outcome, what)})
	}
	return events
}

// isolation is what the run of jobs alone has shown, by the jobs' indexes in the first run.
type isolation struct {
	run     int64
	faulted map[int]bool
	instead map[int]string // by blamed job: the job that faulted alone in its place
}

// settle corrects the outcome of a job, and says why; "": nothing is said of it.
func (s *isolation) settle(j *Job) (kind EventKind, what string) {
	found := slices.ContainsFunc(j.Suspects, func(index int) bool { return s.faulted[index] })
	switch was := *j.Outcome; {
	case s.faulted[j.Index]:
		j.Outcome = new(Fault)
		if was.CountsAsOK() {
			j.Detail = "no error was shown to it under MPS"
			return EventVerdict, fmt.Sprintf("it faulted alone, in run %d", s.run)
		}
		return EventVerdict, fmt.Sprintf("it faulted alone too, in run %d", s.run)
	case was == FaultSuspect && found:
		j.Outcome = new(Collateral)
		return EventVerdict, fmt.Sprintf("it did not fault alone, in run %d", s.run)
	case was == FaultSuspect:
		return EventNoVerdict, fmt.Sprintf("no suspect faulted alone, in run %d", s.run)
	case was == Fault && s.instead[j.Index] != "":
		j.Outcome = new(Collateral)
		return EventVerdict, fmt.Sprintf("it did not fault alone, in run %d, and %s did", s.run, s.instead[j.Index])
	case was == Fault:
		return EventNoVerdict, fmt.Sprintf("it did not fault alone, in run %d", s.run)
	case was == Collateral && !found:
		if at := slices.IndexFunc(j.Suspects, func(index int) bool { return s.instead[index] != "" }); at >= 0 {
			j.Detail += fmt.Sprintf("; but %s faulted alone, in run %d", s.instead[j.Suspects[at]], s.run)
		}
	}
	return "", ""
}
