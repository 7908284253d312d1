package results

import (
	"strings"
	"testing"
)

func TestIsolate(t *testing.T) {
	for _, c := range []struct {
		name     string
		outcomes []Outcome // in the batch; suspects are those that say so
		alone    []Outcome
		want     []Outcome
		events   string
	}{
		{"one of the suspects faults alone", []Outcome{FaultSuspect, FaultSuspect, Collateral}, []Outcome{OK, Fault, OK},
			[]Outcome{Collateral, Fault, Collateral}, "verdict 0, verdict 1"},
		{"nobody does", []Outcome{FaultSuspect, FaultSuspect, Collateral}, []Outcome{OK, Crash, OK},
			[]Outcome{FaultSuspect, FaultSuspect, Collateral}, "no-verdict 0, no-verdict 1"},
		{"a collateral does, which says nothing of the suspects", []Outcome{FaultSuspect, FaultSuspect, Collateral}, []Outcome{OK, OK, Fault},
			[]Outcome{FaultSuspect, FaultSuspect, Fault}, "no-verdict 0, no-verdict 1, verdict 2"},
		{"two do", []Outcome{FaultSuspect, FaultSuspect, FaultSuspect}, []Outcome{Fault, Fault, OOM},
			[]Outcome{Fault, Fault, Collateral}, "verdict 0, verdict 1, verdict 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var jobs, alone []Job
			var suspects []int
			for i, o := range c.outcomes {
				if o == FaultSuspect {
					suspects = append(suspects, 10*i)
				}
			}
			for i, o := range c.outcomes {
				j := Job{Index: 10 * i, Name: "job", Outcome: &o, Detail: "CUDA error 700 in cudaFree"}
				if o == FaultSuspect {
					j.Suspects = suspects
				}
				jobs, alone = append(jobs, j), append(alone, Job{Index: i, Outcome: &c.alone[i]})
			}
			var events []string
			for _, e := range Isolate(jobs, alone, 7) {
				events = append(events, string(e.Kind)+" "+string('0'+rune(*e.Job/10)))
			}
			for i, want := range c.want {
				if *jobs[i].Outcome != want {
					t.Errorf("job %d: %s, want %s", i, *jobs[i].Outcome, want)
				}
				if (strings.Contains(jobs[i].Detail, "; ") && strings.Contains(jobs[i].Detail, "run 7")) != strings.Contains(c.events, string('0'+rune(i))) {
					t.Errorf("job %d: detail %q", i, jobs[i].Detail)
				}
			}
			if got := strings.Join(events, ", "); got != c.events {
				t.Errorf("events %q, want %q", got, c.events)
			}
		})
	}
}
