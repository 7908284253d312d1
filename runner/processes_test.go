package runner_test

import (
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// Jobs of several processes: what one of them did is no other's.

// beginAs begins a task of a process of the job.
func (f *fake) beginAs(job, process int, bytes int64) schedulers.TaskID {
	return f.batch.TaskBegin(job, schedulers.Task{Serial: process, Bytes: bytes}, f.now)
}

// ends is the end of a job with its last process.
func (f *fake) ends(job int, e runner.Exit) {
	f.batch.JobExited(job, f.now)
	f.batch.JobEnded(job, e, f.now)
}

// A job had a client of the MPS server, which has ended. The next process of the job is a new client.
func TestRecoveryHoldsTheNextProcessOfAJob(t *testing.T) {
	setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.beginAs(0, 1, 4)
		f.beginAs(1, 2, 4)
		f.at(1)
		f.batch.ProcessGone(0, 1, true, f.now)
		f.calls = nil
		f.batch.ReportFault(1, 2, 700, "kernel", f.now)
		f.at(2)
		f.beginAs(0, 3, 4)
		f.want("await server")
		f.ended(1)
		f.batch.Recovered(nil, f.now)
		if !slices.Contains(f.calls, "answer 3@0") {
			t.Errorf("after recovery: %q", f.calls)
		}
		f.ended(0)
	})
}

// A fault on a device that the job's first process has left harms nobody there.
func TestFaultsAreOfTheProcessThatHasTheDevice(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 2, jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.beginAs(0, 1, 16) // device 0
		f.at(1)
		f.batch.ProcessGone(0, 1, true, f.now)
		f.beginAs(1, 2, 16) // device 0
		f.beginAs(0, 3, 16) // device 1
		f.at(5)
		f.batch.ReportFault(0, 3, 700, "kernel", f.now)
		f.batch.Recovered(nil, f.now)
		f.at(60)
		f.batch.ReportFault(1, 2, 700, "kernel", f.now)
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.Fault, results.Fault)
}

// A process that dies inside a script has harmed its neighbours as much as one that is
// the job. One that leaves without a goodbye on purpose has not.
func TestDeathInsideAScriptIsTheJobs(t *testing.T) {
	for status, want := range map[int][]results.Outcome{
		134: {results.Crash, results.FaultSuspect, results.Collateral},
		0:   {results.OK, results.Fault, results.Collateral},
	} {
		jobs, _ := setup{scheduler: "case-alg3", jobs: probed(3), mps: true}.run(t, func(f *fake) {
			f.started(0, 1, 2)
			f.beginAs(0, 1, 4)
			f.beginAs(1, 2, 4)
			f.beginAs(2, 3, 4)
			f.at(1)
			f.calls = nil
			f.batch.ProcessGone(0, 1, false, f.now)
			f.want("await server")
			f.ends(0, runner.Exit{Status: &status})
			f.batch.ReportFault(1, 2, 700, "kernel", f.now+30*time.Millisecond)
			f.batch.Working(2, 3, nil)
			f.batch.ReportFault(2, 3, 700, "kernel", f.now+31*time.Millisecond)
			f.at(3)
			f.ended(1, 2)
		})
		wantOutcomes(t, jobs, want...)
	}
}

// Being turned away by the server does not hide what the job's next process does.
func TestAJobsOwnFaultGoesBeforeBeingTurnedAway(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(3), mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.beginAs(0, 1, 4)
		f.beginAs(1, 2, 4)
		f.at(1)
		f.batch.ReportFault(0, 1, 700, "kernel", f.now)
		f.batch.ReportFault(1, 2, 807, "cudaSetDevice", f.now+1)
		f.batch.ProcessGone(1, 2, true, f.now)
		f.at(2)
		f.ended(0)
		f.batch.Recovered(nil, f.now)
		f.batch.Recovered(nil, f.now)
		f.at(5)
		f.beginAs(1, 4, 4)
		f.beginAs(2, 3, 4)
		f.at(6)
		f.batch.ReportFault(1, 4, 700, "kernel", f.now)
		f.batch.Working(2, 3, nil)
		f.batch.ReportFault(2, 3, 700, "kernel", f.now)
		f.batch.Recovered(nil, f.now)
		f.ended(1, 2)
	})
	wantOutcomes(t, jobs, results.Fault, results.Fault, results.Collateral)
}

// However many tasks a process has had, it is one client.
func TestManyTasksAreOneStay(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", devices: 2, jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		for range 100000 {
			a := f.beginAs(0, 1, 16)
			b := f.beginAs(1, 2, 16)
			f.batch.TaskFree(b, f.now)
			f.batch.TaskFree(a, f.now)
		}
		f.at(5)
		f.batch.ReportFault(0, 1, 700, "kernel", f.now)
		f.at(6)
		f.batch.ReportFault(1, 2, 700, "kernel", f.now)
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.Fault, results.Fault)
}

// A job that has written too much is stopped once, and says so.
func TestTooMuchOutputIsTold(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.calls = nil
		f.batch.Post(f.now, runner.Overfull{Why: "it wrote 9 bytes"})
		f.batch.Post(f.now, runner.Overfull{Why: "it wrote 10 bytes"})
		f.want("stop 0")
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.batch.Post(f.now, runner.Overfull{Why: "it wrote 11 bytes"})
	})
	wantOutcomes(t, jobs, results.Crash)
	if jobs[0].Detail != "it wrote 9 bytes" || !slices.Equal(rec.kinds(), []results.EventKind{results.EventOutput}) {
		t.Errorf("detail %q, events %q", jobs[0].Detail, rec.kinds())
	}
}

// A job that is stopped because a process of it broke its probe's protocol says so.
func TestMisbehaviourIsTold(t *testing.T) {
	jobs, rec := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.beginAs(0, 1, 4)
		f.calls = nil
		f.batch.Misbehaved(0, "unknown frame", f.now)
		f.batch.Misbehaved(0, "and another", f.now)
		f.want("stop 0")
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGKILL")}, f.now)
	})
	wantOutcomes(t, jobs, results.Crash)
	if jobs[0].Detail != "unknown frame" || !slices.Equal(rec.kinds(), []results.EventKind{results.EventProtocol}) {
		t.Errorf("detail %q, events %q", jobs[0].Detail, rec.kinds())
	}
}

// recovered answers each AwaitServer so far: the server is healthy.
func (f *fake) recovered() {
	for range 4 {
		f.batch.Recovered(nil, f.now)
	}
}

// A worker of job 0 leaves with _exit at 1 s, and job 0 goes on with another process; job 1
// comes at 50 s. What happens at 100 s, when job 0 ends, is judged by itself.
func TestAnEarlierDeathHidesNothing(t *testing.T) {
	failed, killed := runner.Exit{Status: new(1)}, runner.Exit{Signal: new("SIGKILL")}
	fault := func(f *fake, job, process int, after time.Duration) {
		f.batch.ReportFault(job, process, 700, "kernel", f.now+after)
	}
	running := func(f *fake, job, process int) { f.batch.Working(job, process, new(f.now-time.Second)) }
	idle := func(f *fake, job, process int) { f.batch.Working(job, process, nil) }
	for name, c := range map[string]struct {
		happens func(f *fake)
		ends    runner.Exit
		want    []results.Outcome
	}{
		"job 0 is killed in mid-kernel": {func(f *fake) {
			running(f, 0, 3)
			f.batch.ProcessGone(0, 3, false, f.now)
			fault(f, 1, 2, 30*time.Millisecond)
		}, killed, []results.Outcome{results.Crash, results.Collateral}},
		"job 1 faults first": {func(f *fake) {
			running(f, 1, 2)
			fault(f, 1, 2, 0)
			idle(f, 0, 3)
			fault(f, 0, 3, time.Microsecond)
			f.batch.ProcessGone(0, 3, true, f.now+time.Millisecond)
		}, failed, []results.Outcome{results.Collateral, results.Fault}},
		"job 0 faults first": {func(f *fake) {
			running(f, 0, 3)
			fault(f, 0, 3, 0)
			idle(f, 1, 2)
			fault(f, 1, 2, time.Microsecond)
			f.batch.ProcessGone(0, 3, true, f.now+time.Millisecond)
		}, failed, []results.Outcome{results.Fault, results.Collateral}},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
				f.started(0, 1)
				f.beginAs(0, 1, 4)
				f.at(1)
				f.batch.ProcessGone(0, 1, false, f.now)
				f.recovered()
				f.at(10)
				f.beginAs(0, 3, 4)
				f.at(50)
				f.beginAs(1, 2, 4)
				f.at(100)
				c.happens(f)
				f.ends(0, c.ends)
				f.at(101)
				f.ended(1)
			})
			wantOutcomes(t, jobs, c.want...)
		})
	}
}

// Job 0's worker leaves with _exit at 1 s, job 1 faults at 50 s, and job 0 is killed at 100 s.
// The end of the worker did not cause the fault of job 1.
func TestLeavingOnPurposeHarmsNobody(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.beginAs(0, 1, 4)
		f.beginAs(1, 2, 4)
		f.at(1)
		f.batch.ProcessGone(0, 1, false, f.now)
		f.recovered()
		f.at(50)
		f.batch.ReportFault(1, 2, 700, "kernel", f.now)
		f.ended(1)
		f.recovered()
		f.at(100)
		f.ends(0, runner.Exit{Signal: new("SIGKILL")})
	})
	wantOutcomes(t, jobs, results.Crash, results.Fault)
}

// A process of a job dies and breaks the server, which then turns another process of the same
// job away.
func TestBeingTurnedAwayHidesNoDeath(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.beginAs(0, 1, 4)
		f.beginAs(1, 2, 4)
		f.beginAs(0, 3, 1)
		f.at(1)
		f.batch.Working(0, 1, new(time.Duration(0)))
		f.batch.ProcessGone(0, 1, false, f.now) // kill -9 in mid-kernel
		f.batch.ReportFault(1, 2, 700, "kernel", f.now+30*time.Millisecond)
		f.batch.ReportFault(0, 3, 807, "cudaMalloc", f.now+40*time.Millisecond)
		f.batch.ProcessGone(0, 3, true, f.now+50*time.Millisecond)
		f.ends(0, runner.Exit{Status: new(137)})
		f.at(3)
		f.ended(1)
	})
	wantOutcomes(t, jobs, results.Fault, results.Collateral)
}

// What a killed process had goes to nobody who would be a new client of a server that
// may be broken.
func TestADeathHoldsWhatItGivesBack(t *testing.T) {
	setup{scheduler: "case-alg3", jobs: probed(3), mps: true}.run(t, func(f *fake) {
		f.started(0, 1, 2)
		f.beginAs(0, 1, 10)
		f.beginAs(1, 2, 4)
		f.beginAs(2, 3, 8)
		f.at(1)
		f.calls = nil
		f.batch.ProcessGone(0, 1, false, f.now)
		f.ends(0, runner.Exit{Signal: new("SIGKILL")})
		f.want("await server")
		f.batch.Recovered(nil, f.now)
		if !slices.Contains(f.calls, "answer 3@0") {
			t.Errorf("after recovery: %q", f.calls)
		}
		f.ended(1, 2)
	})
}

// A process that aborts because it was turned away has harmed nobody.
func TestAnAbortAfterBeingTurnedAwayHarmsNobody(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(2), mps: true}.run(t, func(f *fake) {
		f.started(0, 1)
		f.beginAs(1, 2, 4)
		f.at(10)
		f.beginAs(0, 1, 4)
		f.batch.ReportFault(0, 1, 807, "cudaMalloc", f.now+100*time.Millisecond)
		f.batch.ProcessGone(0, 1, false, f.now+120*time.Millisecond)
		f.batch.JobExited(0, f.now+121*time.Millisecond)
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGABRT")}, f.now+122*time.Millisecond)
		f.batch.ReportFault(1, 2, 700, "sync", f.now+500*time.Millisecond)
		f.at(11)
		f.ended(1)
	})
	wantOutcomes(t, jobs, results.Collateral, results.Fault)
}
