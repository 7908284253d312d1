package runner_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// happening is what befalls a job, each at a time in seconds, 0 for never. All
// jobs start at 0; those that nothing ends do so at 10.
type happening struct {
	fault int // a CUDA error shows
	code  int // which; 0: 700
	kill  int // a signal ends it
	exit  int // it ends by itself with status 1
	since int // its kernels run since then; idle: it has none; 0: nobody can tell
}

const idle = -1

func TestCulpritAndCollateral(t *testing.T) {
	const (
		ok         = results.OK
		fault      = results.Fault
		suspect    = results.FaultSuspect
		collateral = results.Collateral
		crash      = results.Crash
	)
	for _, c := range []struct {
		name    string
		devices []int // of each job
		mps     bool
		jobs    []happening
		want    []results.Outcome
		says    string // in the detail of the last job with a fault
	}{
		{"the order of the reports names nobody", []int{0, 0, 0}, true,
			[]happening{{fault: 5}, {fault: 3}, {fault: 4}}, []results.Outcome{suspect, suspect, suspect}, "one of job 0 (subject 0), job 2 (subject 1), job 4 (subject 2) broke the MPS server"},
		{"who had no kernels is not a suspect", []int{0, 0, 0}, true,
			[]happening{{fault: 5, since: 1}, {fault: 3, since: idle}, {fault: 4, since: 2}}, []results.Outcome{suspect, collateral, suspect}, "one of job 0 (subject 0), job 4 (subject 2) broke"},
		{"the only one with kernels is named", []int{0, 0, 0}, true,
			[]happening{{fault: 5, since: idle}, {fault: 3, since: idle}, {fault: 4, since: 2}}, []results.Outcome{collateral, collateral, fault}, "CUDA error 700 in cudaFree: only it can have had kernels running when the MPS server broke"},
		{"kernels that began after it broke did not break it", []int{0, 0}, true,
			[]happening{{fault: 3, since: 2}, {fault: 9, since: 4}}, []results.Outcome{fault, collateral}, "CUDA error 700 in cudaFree, job 0 (subject 0) broke the MPS server"},
		{"nobody had kernels, as far as is known", []int{0, 0}, true,
			[]happening{{fault: 3, since: idle}, {fault: 4, since: idle}}, []results.Outcome{suspect, suspect}, "one of"},
		{"without MPS processes do not share a server", []int{0, 0}, false,
			[]happening{{fault: 5}, {fault: 3}}, []results.Outcome{fault, fault}, "CUDA error 700 in cudaFree"},
		{"another device is out of reach", []int{0, 1}, true,
			[]happening{{fault: 5}, {fault: 3}}, []results.Outcome{fault, fault}, "CUDA error 700 in cudaFree"},
		{"an assertion is shown to nobody else", []int{0, 0, 0}, true,
			[]happening{{fault: 3, code: 710}, {fault: 4, since: 1}, {fault: 4, since: idle}}, []results.Outcome{fault, fault, collateral}, "job 2 (subject 1) broke"},
		{"a death with kernels running", []int{0, 0, 1}, true,
			[]happening{{kill: 3, since: 2}, {fault: 4, since: 1}, {fault: 4}}, []results.Outcome{crash, collateral, fault}, "CUDA error 700 in cudaFree"},
		{"a death without kernels harms nobody", []int{0, 0}, true,
			[]happening{{kill: 3, since: idle}, {fault: 4, since: 1}}, []results.Outcome{crash, fault}, "CUDA error 700 in cudaFree"},
		{"a death of which nothing is known", []int{0, 0, 0}, true,
			[]happening{{kill: 3}, {fault: 4, since: 1}, {fault: 4, since: idle}}, []results.Outcome{crash, suspect, collateral}, "one of job 0 (subject 0), job 2 (subject 1) broke"},
		{"a death that takes its time", []int{0, 0}, true,
			[]happening{{kill: 5, since: 1}, {fault: 4, since: 1}}, []results.Outcome{crash, collateral}, "CUDA error 700 in cudaFree, job 0 (subject 0) broke the MPS server"},
		{"a death long after it broke, of a process that showed no error", []int{0, 0}, true,
			[]happening{{kill: 7, since: 1}, {fault: 4, since: 1}}, []results.Outcome{crash, suspect}, "one of job 0 (subject 0), job 2 (subject 1) broke"},
		{"a death of what had shown an error", []int{0, 0}, true,
			[]happening{{fault: 3, kill: 4, since: 1}, {fault: 5, since: idle}}, []results.Outcome{fault, collateral}, "job 0 (subject 0) broke"},
		{"a plain non-zero exit harms nobody", []int{0, 0}, true,
			[]happening{{exit: 3}, {fault: 4}}, []results.Outcome{crash, fault}, "CUDA error 700 in cudaFree"},
		{"a neighbour without a fault is well", []int{0, 0}, true,
			[]happening{{fault: 3}, {}}, []results.Outcome{fault, ok}, "CUDA error 700 in cudaFree"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := setup{scheduler: "cg:workers=8", devices: 2, mps: c.mps}
			// cg deals jobs out in turn; a filler takes the place of each job
			// that should not go to the device whose turn it is.
			place := map[int]int{}
			turn := 0
			for i, d := range c.devices {
				for ; turn%2 != d; turn++ {
					s.jobs = append(s.jobs, mixes.Job{Name: "filler"})
				}
				place[i] = len(s.jobs)
				s.jobs = append(s.jobs, mixes.Job{Name: fmt.Sprintf("subject %d", i)})
				turn++
			}
			jobs, _ := s.run(t, func(f *fake) {
				for i := range s.jobs {
					f.started(i)
				}
				ended := map[int]bool{}
				for second := 1; second <= 10; second++ {
					f.at(second)
					for i, h := range c.jobs {
						switch second {
						case h.fault:
							f.reportWork(place[i], h)
							f.batch.ReportFault(place[i], 1, cmp.Or(h.code, 700), "cudaFree", f.now)
						case h.kill:
							f.reportWork(place[i], h)
							f.batch.ProcessGone(place[i], 1, false, f.now)
							f.batch.JobEnded(place[i], runner.Exit{Signal: new("SIGKILL")}, f.now)
							ended[place[i]] = true
						case h.exit:
							f.batch.JobEnded(place[i], runner.Exit{Status: new(1)}, f.now)
							ended[place[i]] = true
						}
					}
				}
				for i := range s.jobs {
					if !ended[i] {
						f.ended(i)
					}
				}
			})
			last := ""
			for i, want := range c.want {
				j := jobs[place[i]]
				if *j.Outcome != want {
					t.Errorf("job %d: %s (%s), want %s", i, *j.Outcome, j.Detail, want)
				}
				if c.jobs[i].fault > 0 {
					last = j.Detail
				}
			}
			if !strings.Contains(last, c.says) || strings.HasPrefix(c.says, "CUDA") && last != c.says {
				t.Errorf("detail %q, want %q", last, c.says)
			}
		})
	}
}

// A process with contexts on two devices carries a fault from one to the other.
func TestAFaultSpreadsThroughAClientOfTwoDevices(t *testing.T) {
	for _, both := range []bool{true, false} {
		jobs, rec := setup{scheduler: "case-alg3", devices: 2, jobs: probed(3), mps: true}.run(t, func(f *fake) {
			f.started(0, 1, 2)
			f.beginOn(0, 1, 0)
			if both {
				f.beginOn(0, 1, 1)
			}
			f.beginOn(1, 2, 0)
			f.beginOn(2, 3, 1)
			f.at(2)
			f.batch.Working(1, 2, new(time.Second))
			f.batch.ReportFault(1, 2, 700, "kernel", f.now)
			f.batch.Working(0, 1, nil)
			f.batch.ReportFault(0, 1, 700, "kernel", f.now+1)
			f.batch.Working(2, 3, nil)
			f.batch.ReportFault(2, 3, 700, "kernel", f.now+2)
			f.at(3)
			f.ended(0, 1, 2)
		})
		want := []results.Outcome{results.Collateral, results.Fault, results.Collateral}
		if !both {
			want[2] = results.Fault // alone on its device
		}
		wantOutcomes(t, jobs, want...)
		n := 0
		for _, kind := range rec.kinds() {
			if kind == results.EventCulprit {
				n++
			}
		}
		if n != 1 {
			t.Errorf("events %q, want one culprit", rec.kinds())
		}
	}
}

// beginOn begins a task of a process on a device of its own choice.
func (f *fake) beginOn(job, process, device int) {
	f.batch.TaskBegin(job, schedulers.Task{Serial: process, Bytes: 2, OnDevice: &device}, f.now)
}

// reportWork is what the job's probe reports of its kernels.
func (f *fake) reportWork(job int, h happening) {
	switch {
	case h.since == idle:
		f.batch.Working(job, 1, nil)
	case h.since > 0:
		f.batch.Working(job, 1, new(time.Duration(h.since)*time.Second))
	}
}

// A job that has faulted without neighbours before is named before other suspects.
func TestAnEarlierFaultIsEvidence(t *testing.T) {
	for known, want := range map[string][]results.Outcome{
		"":  {results.FaultSuspect, results.FaultSuspect},
		"1": {results.Collateral, results.Fault},
		"2": {results.FaultSuspect, results.FaultSuspect}, // both are known to
	} {
		s := setup{scheduler: "case-alg3", jobs: probed(2), mps: true}
		switch known {
		case "1":
			s.faultsAlone = map[int]string{1: "it faulted without neighbours in run 12"}
		case "2":
			s.faultsAlone = map[int]string{0: "it faulted without neighbours in run 11", 1: "it faulted without neighbours in run 12"}
		}
		jobs, _ := s.run(t, func(f *fake) {
			f.started(0, 1)
			f.begin(0, 4)
			f.begin(1, 4)
			f.at(2)
			f.batch.ReportFault(0, 0, 700, "kernel", f.now)
			f.batch.ReportFault(1, 0, 700, "kernel", f.now)
			f.ended(0, 1)
		})
		wantOutcomes(t, jobs, want...)
		if known == "1" && !strings.HasSuffix(jobs[1].Detail, ": it faulted without neighbours in run 12") {
			t.Errorf("detail %q does not say why it is named", jobs[1].Detail)
		}
	}
}

// What the server's log shows is a sign like any other: new clients wait, and kernels
// that began later did not break it.
func TestTheServersOwnSign(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(3), workers: 3, mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.begin(0, 4)
		f.begin(1, 4)
		f.calls = nil
		f.at(2)
		f.batch.ServerFaulted(0, f.now)
		f.want("await server")
		f.begin(2, 1) // waits
		f.want()
		f.at(3)
		f.batch.Working(0, 0, new(2500*time.Millisecond))
		f.batch.ReportFault(0, 0, 700, "kernel", f.now)
		f.batch.Working(1, 0, new(1500*time.Millisecond))
		f.batch.ReportFault(1, 0, 700, "kernel", f.now)
		f.ended(0, 1)
		f.recovered()
		f.ended(2)
	})
	wantOutcomes(t, jobs, results.Collateral, results.Fault, results.OK)
	if e := rec.events[slices.Index(rec.kinds(), results.EventCulprit)]; e.AtS != 2 || *e.Job != 1 {
		t.Errorf("event %+v, want the culprit, job 1, when the server's log told, at 2 s", e)
	}
}

func TestCollateralUnderTaskBinding(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 2, jobs: probed(4), mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2, 3)
		f.begin(0, 16) // device 0
		f.begin(1, 8)  // device 1
		f.begin(2, 8)  // device 1
		f.at(2)
		f.batch.ReportFault(1, 0, 700, "kernel", f.now)
		f.at(3)
		f.batch.Working(2, 0, nil)
		f.batch.ReportFault(2, 0, 700, "cudaFree", f.now)
		f.batch.ReportFault(0, 0, 700, "cudaFree", f.now)
		f.batch.ReportFault(3, 0, 700, "cudaFree", f.now) // had no device yet
		f.ended(0, 1, 2, 3)
	})
	wantOutcomes(t, jobs, results.Fault, results.Fault, results.Collateral, results.Fault)
}
