package runner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// The first job breaks the server, the second takes its place and fails too.
func TestAJobAfterAFault(t *testing.T) {
	broken := errors.New("MPS server 7 is in state FAULT\nend of its log")
	for _, c := range []struct {
		name     string
		harm     func(*fake) // job 0 ends at 4
		recovery func(*fake)
		want     []results.Outcome
		detail   string
		kinds    string
	}{
		{"the server was healthy", faultAndExit, func(f *fake) {
			f.batch.Recovered(nil, f.now)
		}, []results.Outcome{results.Fault, results.Fault}, "CUDA error 700", "fault fault"},
		{"the server recovered", faultAndExit, func(f *fake) {
			f.batch.ServerBroken(broken, f.now)
			f.at(5)
			f.batch.Recovered(nil, f.now)
		}, []results.Outcome{results.Fault, results.Fault}, "CUDA error 700", "fault mps-broken mps-recovered fault"},
		{"the server did not recover", faultAndExit, func(f *fake) {
			f.batch.ServerBroken(broken, f.now)
			f.at(5)
			f.batch.Recovered(errors.New("not within 1 s"), f.now)
		}, []results.Outcome{results.Fault, results.Collateral}, "CUDA error 700 in cudaMalloc, job 0 (first) broke the MPS server",
			"fault mps-broken mps-not-recovered fault culprit"},
		{"it did not recover after a death", func(f *fake) {
			f.at(4)
			f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
		}, func(f *fake) {
			f.batch.Recovered(errors.New("not within 1 s"), f.now)
		}, []results.Outcome{results.Crash, results.Collateral}, "CUDA error 700 in cudaMalloc, job 0 (first) broke the MPS server",
			"mps-not-recovered fault culprit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs := probed(2)
			jobs[0].Name = "first"
			ended, rec := setup{scheduler: "sa", jobs: jobs, mps: true}.run(t, func(f *fake) {
				f.want("start 0@0")
				f.started(0)
				c.harm(f)
				f.want("await server") // and job 1 waits
				c.recovery(f)
				f.want("start 1@0")
				f.started(1)
				f.at(7)
				f.batch.ReportFault(1, 0, 700, "cudaMalloc", f.now)
				f.ended(1)
			})
			wantOutcomes(t, ended, c.want...)
			if got := ended[1].Detail; !strings.Contains(got, c.detail) {
				t.Errorf("detail %q, want %q in it", got, c.detail)
			}
			if got := fmt.Sprint(rec.kinds()); got != "["+c.kinds+"]" {
				t.Errorf("events %q, want %q", got, c.kinds)
			}
			for _, e := range rec.events {
				if e.Kind == results.EventMPSBroken && e.Detail != "MPS server 7 is in state FAULT" {
					t.Errorf("detail %q, want the state without the log", e.Detail)
				}
			}
		})
	}
}

func faultAndExit(f *fake) {
	f.at(3)
	f.batch.ReportFault(0, 0, 700, "cudaFree", f.now)
	f.at(4)
	f.ended(0)
}

func TestWithoutMPSNobodyWaits(t *testing.T) {
	setup{scheduler: "sa", jobs: probed(2)}.run(t, func(f *fake) {
		f.started(0)
		faultAndExit(f)
		f.want("start 0@0", "start 1@0")
		f.started(1)
		f.ended(1)
	})
}

// The job that the server waits for goes on. The server would turn new clients away.
func TestGrantsWaitForTheServer(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 2, jobs: probed(6), workers: 5, mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2, 3, 4)
		f.begin(0, 10) // device 0
		f.begin(1, 16) // device 1
		f.calls = nil
		f.at(1)
		f.batch.ReportFault(0, 0, 700, "kernel", f.now)
		f.want("await server")
		f.begin(0, 1)
		f.want("answer 3@0")
		f.begin(2, 1)
		gone := f.begin(3, 1)
		f.begin(4, 16)
		f.want()
		f.batch.TaskFree(gone, f.now)
		f.at(2)
		f.ended(1) // device 1 is free for the task that fits nowhere else; job 5 waits
		f.want()
		f.batch.ReportFault(0, 0, 700, "kernel", f.now)
		f.at(3)
		f.batch.Recovered(nil, f.now)
		f.want("await server") // again: there was another fault meanwhile
		f.at(4)
		f.batch.Recovered(nil, f.now)
		f.want("answer 4@0", "answer 6@1", "start 5")
		f.started(5)
		f.ended(0, 2, 3, 4, 5)
	})
	wantOutcomes(t, jobs, results.Fault, results.OK, results.OK, results.OK, results.OK, results.OK)
}

// Clients of another device go on there. New clients of that device wait too.
func TestClientsOfAnotherDeviceGoOn(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 2, jobs: probed(3), mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.begin(0, 15) // device 0
		f.begin(1, 8)  // device 1
		f.calls = nil
		f.at(1)
		f.batch.ReportFault(0, 0, 700, "kernel", f.now)
		f.want("await server")
		f.begin(1, 4)
		f.want("answer 3@1")
		f.begin(2, 2)
		f.want()
		f.batch.Recovered(nil, f.now)
		f.want("answer 4@1")
		f.ended(0, 1, 2)
	})
	wantOutcomes(t, jobs, results.Fault, results.OK, results.OK)
}

// A client that the server turns away is collateral, whatever its device, and
// whether or not the culprit's error has shown by then.
func TestBeingTurnedAwayIsCollateral(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   int  // when that of job 0 shows; job 1 is turned away at 3
		healthy bool // in between
		code    int
		want    results.Outcome
		detail  string
	}{
		{"the fault showed before", 2, false, 807, results.Collateral, "CUDA error 807 in cudaSetDevice, job 0 (first) had broken the MPS server"},
		{"the fault shows later", 4, false, 805, results.Collateral, "CUDA error 805 in cudaSetDevice, job 0 (first) had broken the MPS server"},
		{"its context could not be made", 4, false, 46, results.Collateral, "CUDA error 46 in cudaSetDevice, job 0 (first) had broken the MPS server"},
		{"the job that failed later came later", 5, false, 807, results.Fault, "CUDA error 807 in cudaSetDevice"},
		{"the server was healthy in between", 2, true, 807, results.Fault, "CUDA error 807 in cudaSetDevice"},
		{"there is no other fault", 0, false, 807, results.Fault, "CUDA error 807 in cudaSetDevice"},
		{"a fault of its own on another device", 2, false, 700, results.Fault, "CUDA error 700 in cudaSetDevice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs := probed(2)
			jobs[0].Name = "first"
			ended, _ := setup{scheduler: "case-alg3", devices: 2, jobs: jobs, mps: true}.run(t, func(f *fake) {
				f.started(0, 1)
				if c.fault < 5 {
					f.begin(0, 10) // device 0
				}
				f.at(1)
				f.begin(1, 10) // device 1
				for second := 2; second <= 5; second++ {
					f.at(second)
					if c.fault == 5 && second == 4 {
						f.batch.Recovered(nil, f.now) // or no grant would come
						f.begin(0, 10)
					}
					if second == c.fault {
						f.batch.ReportFault(0, 0, 700, "kernel", f.now)
						if c.healthy {
							f.batch.Recovered(nil, f.now)
						}
					}
					if second == 3 {
						f.batch.ReportFault(1, 0, c.code, "cudaSetDevice", f.now)
					}
				}
				f.ended(0, 1)
			})
			first := results.Fault
			if c.fault == 0 {
				first = results.OK
			}
			wantOutcomes(t, ended, first, c.want)
			if ended[1].Detail != c.detail {
				t.Errorf("detail %q, want %q", ended[1].Detail, c.detail)
			}
		})
	}
}

// A process of a job that was placed as a whole has its device whatever state the server is in.
func TestJobsBoundAsAWholeAreAnsweredDuringRecovery(t *testing.T) {
	setup{scheduler: "case-alg3", jobs: []mixes.Job{declared(4), declared(4)}, mps: true}.run(t, func(f *fake) {
		f.want("start 0@0", "start 1@0")
		f.started(0, 1)
		f.batch.ReportFault(0, 0, 700, "cudaMalloc", f.now)
		f.want("await server")
		f.batch.TaskBegin(1, schedulers.Task{Serial: 1, Bytes: 4}, f.now)
		f.want("answer 1@0")
		f.batch.Recovered(nil, f.now)
		f.ended(0, 1)
	})
}
