package runner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// happening is what befalls a job, each at a time in seconds, 0 for never. All
// jobs start at 0; those that nothing ends do so at 10.
type happening struct {
	fault int // a CUDA error shows
	kill  int // a signal ends it
	exit  int // it ends by itself with status 1
}

func TestCulpritAndCollateral(t *testing.T) {
	const (
		ok         = results.OK
		fault      = results.Fault
		collateral = results.Collateral
		crash      = results.Crash
	)
	for _, c := range []struct {
		name    string
		devices []int // of each job
		mps     bool
		jobs    []happening
		want    []results.Outcome
		blames  string // in the detail of the last collateral
	}{
		{"the earliest fault is the culprit", []int{0, 0, 0}, true,
			[]happening{{fault: 5}, {fault: 3}, {fault: 4}}, []results.Outcome{collateral, fault, collateral}, "(subject 1) failed"},
		{"without MPS processes do not share a server", []int{0, 0}, false,
			[]happening{{fault: 5}, {fault: 3}}, []results.Outcome{fault, fault}, ""},
		{"another device is out of reach", []int{0, 1}, true,
			[]happening{{fault: 5}, {fault: 3}}, []results.Outcome{fault, fault}, ""},
		{"a death with work outstanding harms the neighbours", []int{0, 0, 1}, true,
			[]happening{{kill: 3}, {fault: 4}, {fault: 4}}, []results.Outcome{crash, collateral, fault}, "(subject 0) failed"},
		{"a plain non-zero exit harms nobody", []int{0, 0}, true,
			[]happening{{exit: 3}, {fault: 4}}, []results.Outcome{crash, fault}, ""},
		{"at the same instant the earlier job is blamed", []int{0, 0}, true,
			[]happening{{fault: 3}, {fault: 3}}, []results.Outcome{fault, collateral}, "0.000 s earlier"},
		{"a neighbour without a fault is well", []int{0, 0}, true,
			[]happening{{fault: 3}, {}}, []results.Outcome{fault, ok}, ""},
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
							f.batch.ReportFault(place[i], 0, 700, "cudaFree", f.now)
						case h.kill:
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
				if want == collateral {
					last = j.Detail
				}
			}
			if !strings.Contains(last, c.blames) {
				t.Errorf("detail %q, want %q in it", last, c.blames)
			}
		})
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
		f.batch.ReportFault(2, 0, 700, "cudaFree", f.now)
		f.batch.ReportFault(0, 0, 700, "cudaFree", f.now)
		f.batch.ReportFault(3, 0, 700, "cudaFree", f.now) // had no device yet
		f.ended(0, 1, 2, 3)
	})
	wantOutcomes(t, jobs, results.Fault, results.Fault, results.Collateral, results.Fault)
}
