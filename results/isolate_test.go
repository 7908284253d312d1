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

// A job that was named by evidence is cleared by another that faults alone, also by one that had ended ok.
func TestIsolationReplacesAName(t *testing.T) {
	job := func(index int, o Outcome, suspects ...int) Job {
		return Job{Index: index, Name: "job", Outcome: &o, Detail: "CUDA error 716 in cudaFree", Suspects: suspects}
	}
	for _, c := range []struct {
		name  string
		jobs  []Job
		alone []Outcome
		want  []string
	}{
		{"the name holds", []Job{job(3, Fault), job(4, Collateral, 3)}, []Outcome{Fault, OK}, []string{
			"fault: CUDA error 716 in cudaFree; it faulted alone too, in run 7", "collateral: CUDA error 716 in cudaFree"}},
		{"another did", []Job{job(3, Fault), job(4, Collateral, 3), job(5, Collateral, 3)}, []Outcome{OK, OK, Fault}, []string{
			"collateral: CUDA error 716 in cudaFree; it did not fault alone, in run 7, and job 5 (job) did",
			"collateral: CUDA error 716 in cudaFree; but job 5 (job) faulted alone, in run 7",
			"fault: CUDA error 716 in cudaFree; it faulted alone too, in run 7"}},
		{"nobody did", []Job{job(3, Fault), job(4, Collateral, 3)}, []Outcome{OK, OK}, []string{
			"fault: CUDA error 716 in cudaFree; it did not fault alone, in run 7", "collateral: CUDA error 716 in cudaFree"}},
		{"a suspect that was ok", []Job{job(2, OK), job(3, FaultSuspect, 2, 3)}, []Outcome{Fault, OK}, []string{
			"fault: no error was shown to it under MPS; it faulted alone, in run 7", "collateral: CUDA error 716 in cudaFree; it did not fault alone, in run 7"}},
		{"a named job that was ok", []Job{job(2, OK), job(3, Collateral, 2)}, []Outcome{Fault, OK}, []string{
			"fault: no error was shown to it under MPS; it faulted alone, in run 7", "collateral: CUDA error 716 in cudaFree"}},
		{"it stays ok", []Job{job(2, OK), job(3, Collateral, 2)}, []Outcome{OK, OK}, []string{
			"ok: CUDA error 716 in cudaFree", "collateral: CUDA error 716 in cudaFree"}},
	} {
		alone := make([]Job, len(c.alone))
		for i := range alone {
			alone[i].Outcome = &c.alone[i]
		}
		Isolate(c.jobs, alone, 7)
		for i, j := range c.jobs {
			if got := string(*j.Outcome) + ": " + j.Detail; got != c.want[i] {
				t.Errorf("%s: job %d: %q, want %q", c.name, j.Index, got, c.want[i])
			}
		}
	}
}
