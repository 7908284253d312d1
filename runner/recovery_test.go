package runner_test

import (
	"errors"
	"fmt"
	"slices"
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
		recovery func(*fake)
		want     []results.Outcome
		detail   string
		kinds    string
	}{
		{"the server was healthy", func(f *fake) {
			f.batch.Recovered(nil, f.now)
		}, []results.Outcome{results.Fault, results.Fault}, "CUDA error 700", "fault fault"},
		{"the server recovered", func(f *fake) {
			f.batch.ServerBroken(broken, true, f.now)
			f.want("wake 6s")
			f.at(5)
			f.batch.Recovered(nil, f.now)
		}, []results.Outcome{results.Fault, results.Fault}, "CUDA error 700", "fault mps-broken mps-recovered fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs := probed(2)
			jobs[0].Name = "first"
			ended, rec := setup{scheduler: "sa", jobs: jobs, mps: true}.run(t, func(f *fake) {
				f.want("start 0@0")
				f.started(0)
				faultAndExit(f)
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
		f.want("answer 6@1", "answer 4@0", "start 5")
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

// A process of a job that was placed as a whole has its device. If it asks for the first time while the server is broken, the
// server would turn it away, so its answer waits; a job that is a client of the server goes on.
func TestJobsBoundAsAWholeDuringRecovery(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: []mixes.Job{declared(4), declared(4), declared(4)}, mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		begin := func(job int) { f.batch.TaskBegin(job, schedulers.Task{Serial: job + 1, Bytes: 4}, f.now) }
		begin(1)
		f.at(1)
		f.calls = nil
		f.batch.ReportFault(0, 0, 700, "cudaMalloc", f.now)
		f.want("await server")
		begin(1)
		f.want("answer 2@0")
		begin(2)
		f.batch.ServerBroken(errors.New("broken"), true, f.now)
		f.want("wake 3s")
		f.ended(0)
		f.at(3)
		f.batch.Tick(f.now)
		f.want("wake 5s", "end client 1")
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.want()
		f.batch.Recovered(nil, f.now)
		f.want("await server") // there was a death meanwhile
		f.batch.Recovered(nil, f.now)
		f.want("answer 3@0")
		f.ended(2)
	})
	wantOutcomes(t, jobs, results.FaultSuspect, results.FaultSuspect, results.OK)
}

// A job that may not be a client of the broken server is ended too if the server waits for nobody else.
func TestAJobThatMayBeAClientIsEndedLast(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: []mixes.Job{declared(4), declared(4)}, mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.at(1)
		f.batch.ReportFault(0, 0, 700, "cudaMalloc", f.now)
		f.batch.TaskBegin(1, schedulers.Task{Serial: 1, Bytes: 4}, f.now)
		f.batch.ServerBroken(errors.New("broken"), true, f.now)
		f.ended(0)
		f.calls = nil
		f.at(3)
		f.batch.Tick(f.now)
		f.want("end client 1")
		f.batch.Working(1, 1, nil)
		f.batch.ProcessGone(1, 1, false, f.now)
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
	})
	wantOutcomes(t, jobs, results.Fault, results.Collateral)
}

// So is a job that got its device when the server was broken and nobody knew.
func TestAJobThatCameTooLateIsEndedLast(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(3), mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.begin(0, 4)
		f.begin(1, 4)
		f.at(4)
		f.begin(2, 4)
		f.batch.ReportFault(0, 0, 716, "cudaMalloc", f.now)
		f.batch.ServerBroken(errors.New("broken"), true, f.now)
		f.ended(0)
		f.calls = nil
		f.at(6)
		f.batch.Tick(f.now)
		f.wants("end client 1")
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.recovered()
		f.ended(2)
	})
	if *jobs[2].Outcome != results.OK {
		t.Errorf("the job that came late is %s (%s)", *jobs[2].Outcome, jobs[2].Detail)
	}
}

// Once the server was seen healthy it waits for nobody, also if its recovery is awaited once more.
func TestNobodyIsEndedByAServerThatWasHealthy(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: []mixes.Job{declared(4), declared(4), declared(4)}, mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.at(1)
		f.batch.ReportFault(0, 0, 700, "cudaMalloc", f.now)
		f.batch.TaskBegin(1, schedulers.Task{Serial: 1, Bytes: 4}, f.now)
		f.batch.ServerBroken(errors.New("broken"), true, f.now)
		f.ended(0)
		f.at(2)
		f.batch.JobEnded(2, runner.Exit{Signal: new("SIGKILL")}, f.now)
		f.calls = nil
		f.batch.Recovered(nil, f.now)
		f.want("await server") // again: there was a death meanwhile
		f.at(3)
		f.batch.Tick(f.now)
		f.want()
		f.batch.Recovered(nil, f.now)
		f.want("answer 1@0")
		f.ended(1)
	})
	wantOutcomes(t, jobs, results.FaultSuspect, results.OK, results.Crash)
}

// A newcomer that would fit waits without keeping memory from the clients of the broken server, which go on and are told. Those
// that have not ended by themselves after a while are ended, and then the newcomer has its device. Nothing of this touches
// another device.
func TestNothingStandsStillBehindAFault(t *testing.T) {
	for _, scheduler := range []string{"case-alg3:queue=fifo", "vgpu:n=4,queue=fifo", "demand:queue=fifo"} {
		jobs, rec := setup{scheduler: scheduler, devices: 2, jobs: probed(6), workers: 5, mps: true}.run(t, func(f *fake) {
			f.started(0, 1, 2, 3, 4)
			f.beginOn(0, 1, 0)
			told := f.batch.TaskBegin(1, schedulers.Task{Serial: 2, Bytes: 2, OnDevice: new(0)}, f.now)
			f.beginOn(2, 3, 0)
			f.beginOn(3, 4, 1)
			f.at(1)
			f.batch.TaskBegin(4, schedulers.Task{Serial: 5, Bytes: 12, OnDevice: new(0)}, f.now) // it does not fit
			f.calls = nil
			f.batch.ReportFault(0, 1, 700, "kernel", f.now)
			f.batch.TaskFree(told, f.now)
			f.ended(0) // and now it would
			f.begins(1, 2, 3)
			f.begins(2, 3, 3)
			f.wants("await server", "answer 6@0", "answer 7@0")
			f.batch.ServerBroken(errors.New("broken"), true, f.now)
			f.at(2)
			f.batch.Working(1, 2, nil)
			f.batch.ReportFault(1, 2, 700, "cudaMalloc", f.now)
			f.ended(1)
			f.at(3)
			f.batch.Tick(f.now)
			f.wants("end client 2")
			f.batch.Working(2, 3, nil)
			f.batch.ProcessGone(2, 3, false, f.now)
			f.batch.JobEnded(2, runner.Exit{Signal: new("SIGTERM")}, f.now)
			f.wants()
			f.recovered()
			f.wants("await server", "answer 5@0", "start 5")
			f.at(9)
			f.batch.Tick(f.now)
			f.started(5)
			f.ended(3, 4, 5)
		})
		wantOutcomes(t, jobs, results.Fault, results.Collateral, results.Collateral, results.OK, results.OK, results.OK)
		const says = "it was ended, because the MPS server waited for it for 2s, job 0 (probed) broke the MPS server"
		if jobs[2].Detail != says {
			t.Errorf("%s: detail %q, want %q", scheduler, jobs[2].Detail, says)
		}
		if got := fmt.Sprint(rec.kinds()); !strings.Contains(got, "[fault mps-broken fault mps-ended mps-recovered ") {
			t.Errorf("%s: events %s", scheduler, got)
		}
	}
}

// begins begins a task of a process that has its device.
func (f *fake) begins(job, serial int, bytes int64) {
	f.batch.TaskBegin(job, schedulers.Task{Serial: serial, Bytes: bytes}, f.now)
}

// wants is want without the times at which the batch asks to be woken.
func (f *fake) wants(calls ...string) {
	f.t.Helper()
	f.calls = slices.DeleteFunc(f.calls, func(c string) bool { return strings.HasPrefix(c, "wake") })
	if len(f.calls) == 0 {
		f.calls = nil
	}
	f.want(calls...)
}

// A server that will never recover admits nobody. Clients whose contexts it has not lost go on.
func TestAServerThatDoesNotRecover(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", devices: 2, jobs: probed(3), workers: 2, mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.beginOn(0, 1, 0)
		f.beginOn(1, 2, 1)
		f.batch.ReportFault(0, 1, 700, "kernel", f.now)
		f.calls = nil
		f.batch.Recovered(errors.New("the daemon has ended"), f.now)
		f.ended(0)
		f.begins(1, 2, 3)
		f.want("answer 3@1")
		f.batch.Cancel("the daemon has ended", f.now)
		f.want("stop 1")
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
	})
	wantOutcomes(t, jobs, results.Fault, results.Cancelled, results.Cancelled)
	if got := fmt.Sprint(rec.kinds()); got != "[fault mps-not-recovered cancelled]" {
		t.Errorf("events %s", got)
	}
}

// A job that dies on another device while a server is broken does not end its neighbours there: only on the device where the
// fault was shown have clients lost their contexts.
func TestADeathBesideAFaultEndsNobody(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 2, jobs: probed(4), mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2, 3)
		f.beginOn(0, 1, 0)
		f.beginOn(1, 2, 0)
		f.beginOn(2, 3, 1)
		f.beginOn(3, 4, 1)
		f.at(1)
		f.batch.ReportFault(0, 1, 700, "kernel", f.now)
		f.batch.ServerBroken(errors.New("broken"), true, f.now)
		f.batch.ProcessGone(2, 3, false, f.now)
		f.batch.JobEnded(2, runner.Exit{Signal: new("SIGSEGV")}, f.now)
		f.at(3)
		f.calls = nil
		f.batch.Tick(f.now)
		f.wants("end client 0", "end client 1")
		f.ended(0, 1)
		f.recovered()
		f.ended(3)
	})
	wantOutcomes(t, jobs, results.FaultSuspect, results.FaultSuspect, results.Crash, results.OK)
}

// A server that does not answer has lost nobody's context, as far as is known.
func TestASilentServerEndsNobody(t *testing.T) {
	setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.beginOn(0, 1, 0)
		f.beginOn(1, 2, 0)
		f.batch.ReportFault(0, 1, 700, "kernel", f.now)
		f.calls = nil
		f.batch.ServerBroken(errors.New("no answer within 5 s"), false, f.now)
		f.at(9)
		f.batch.Tick(f.now)
		f.want()
		f.ended(0, 1)
	})
}
