package runner_test

import (
	"context"
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

func stated(j *mixes.Job) bool { return j.Restartable != nil && *j.Restartable }

// growers are jobs that may be started again, or may not.
func growers(restartable ...bool) setup {
	s := setup{scheduler: "case-alg3", restartable: stated, jobs: probed(len(restartable))}
	for i, may := range restartable {
		s.jobs[i].Restartable = new(may)
	}
	return s
}

// wait has each of the tasks ask for more than there is.
func (f *fake) wait(bytes int64, tasks ...schedulers.TaskID) {
	for _, id := range tasks {
		f.batch.TaskGrow(id, bytes, nil, f.now)
	}
}

// In a deadlock a job that may be started again is stopped, and starts again once all of it is gone, with what it had and had asked
// for. Its record is that of its last try, and what came before is waiting.
func TestAJobStartsAgain(t *testing.T) {
	s := growers(true, false)
	s.timeout = 100 * time.Second
	jobs, rec := s.run(t, func(f *fake) {
		f.want("start 0", "start 1")
		f.started(0, 1)
		other := f.begin(1, 8)
		own := f.batch.TaskBegin(0, schedulers.Task{Bytes: 7}, f.now)
		f.calls = nil
		f.at(2)
		f.wait(4, own)
		f.want()
		f.at(3)
		f.wait(4, other)
		f.want("stop 0")
		f.at(5)
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.want("grown 1", "restart 0 with 11, behind 1 tasks")
		f.at(9)
		f.started(0)
		f.want("wake 1m49s") // its whole limit
		again := f.begin(0, 11)
		f.want()
		f.at(20)
		f.ended(1)
		f.want("answer 3@0")
		f.batch.TaskGrow(again, 5, nil, f.now)
		f.want("grown 3")
		f.at(30)
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.OK, results.OK)
	r := jobs[0]
	if *r.Restarts != 1 || *r.StartS != 9 || *r.EndS != 30 || *r.WaitS != 9+11 || *r.TurnaroundS() != 30 || jobs[1].Restarts != nil {
		t.Errorf("%+v", r)
	}
	if first, last := rec.task(0, 0), rec.task(0, 1); *first.ReleaseS != 5 || first.Refusal != nil || last.Bytes != 11 || *last.GrantS != 20 {
		t.Errorf("tasks %+v and %+v", first, last)
	}
	at := slices.IndexFunc(rec.events, func(e results.Event) bool { return e.Kind == results.EventRestarted })
	if at < 0 || *rec.events[at].Job != 0 || !strings.Contains(rec.events[at].Detail, "started again with 11 bytes (restart 1 of 2)") {
		t.Errorf("events %+v", rec.events)
	}
}

// The second time a job has its device to itself, so that nobody can be in its way. After that it is not started again.
func TestAJobStartsAgainTwiceAtMost(t *testing.T) {
	jobs, _ := growers(false, true).run(t, func(f *fake) {
		f.started(0, 1)
		other, own := f.begin(0, 3), f.begin(1, 5)
		f.wait(9, other)
		f.calls = nil
		f.wait(9, own)
		f.want("stop 1")
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.started(1)
		f.batch.TaskFree(other, f.now)
		other, own = f.begin(0, 2), f.begin(1, 14)
		f.wait(8, other)
		f.calls = nil
		f.wait(1, own)
		f.want("stop 1")
		f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.started(1)
		f.want("grown 3", "restart 1 with 15, behind 2 tasks")
		f.batch.TaskFree(other, f.now)
		f.begin(0, 1)
		f.calls = nil
		alone := f.begin(1, 15)
		f.want()
		f.ended(0)
		f.want("answer 6@0")
		f.wait(1, alone)
		f.want("grown 6")
		f.ended(1)
	})
	wantOutcomes(t, jobs, results.OK, results.OK)
	if *jobs[1].Restarts != 2 {
		t.Errorf("%+v", jobs[1])
	}
}

// Beside a companion, which ends only after it, a job does not wait for its device to itself.
func TestAJobDoesNotStartAloneBesideACompanion(t *testing.T) {
	s := growers(false, true)
	s.jobs[0].UntilOthersEnd = true
	s.run(t, func(f *fake) {
		f.started(0, 1)
		for range runner.MostRestarts {
			companion, own := f.begin(0, 3), f.begin(1, 5)
			f.wait(9, companion, own)
			f.batch.JobEnded(1, runner.Exit{Signal: new("SIGTERM")}, f.now)
			f.started(1)
			f.batch.TaskFree(companion, f.now)
		}
		f.begin(0, 1)
		f.calls = nil
		f.begin(1, 14)
		f.want("answer 6@0")
		f.ended(1, 0)
	})
}

// Where no job may be started again the refusal says what would have helped.
func TestARefusalInADeadlockSaysWhatHelps(t *testing.T) {
	jobs, _ := growers(false, false).run(t, func(f *fake) {
		f.started(0, 1)
		f.wait(4, f.begin(0, 8), f.begin(1, 8))
		f.ended(0, 1)
	})
	const remedy = "; with restartable: true in the mix a job is started again instead"
	if d := jobs[1].Detail; *jobs[1].Outcome != results.Refused || !strings.HasSuffix(d, remedy) {
		t.Errorf("%s: %s", *jobs[1].Outcome, d)
	}
}

// A job that is stopped for another reason before it has started again ends for that reason.
func TestAJobThatIsToStartAgainMayEndForAnotherReason(t *testing.T) {
	deadlock := func(f *fake) {
		f.started(0, 1)
		f.wait(4, f.begin(1, 8), f.begin(0, 8))
		f.calls = nil
	}
	ended := func(f *fake) { f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now) }
	for name, c := range map[string]struct {
		then func(*fake)
		want results.Outcome
	}{
		"the run is stopped": {func(f *fake) { f.batch.Cancel("stop", f.now); ended(f); f.ended(1) }, results.Cancelled},
		"the run is stopped between tries": {func(f *fake) {
			f.batch.ServerFaulted(0, f.now)
			ended(f)
			f.batch.Cancel("stop", f.now)
			f.ended(1)
		}, results.Cancelled},
		"the device is lost":     {func(f *fake) { f.batch.Post(f.now, runner.DeviceLost{Why: "off the bus"}); ended(f); f.ended(1) }, results.Lost},
		"a fault":                {func(f *fake) { f.batch.ReportFault(0, 0, 700, "x", f.now); ended(f); f.ended(1) }, results.Fault},
		"it breaks the protocol": {func(f *fake) { f.batch.Misbehaved(0, "x", f.now); ended(f); f.ended(1) }, results.Crash},
		"it cannot be started": {func(f *fake) {
			ended(f)
			f.batch.JobEnded(0, runner.Exit{Err: context.Canceled}, f.now)
			f.ended(1)
		}, results.Crash},
	} {
		t.Run(name, func(t *testing.T) {
			s := growers(true, false)
			s.mps = true
			jobs, _ := s.run(t, func(f *fake) { deadlock(f); c.then(f) })
			if *jobs[0].Outcome != c.want {
				t.Errorf("%s (%s), want %s", *jobs[0].Outcome, jobs[0].Detail, c.want)
			}
		})
	}
}

// The engine has dropped the requests of a job that it wants started again. So a job that would not start again, because an error of
// its CUDA calls decides how it ends, is stopped too.
func TestAJobWithAFaultIsStoppedInsteadOfStartedAgain(t *testing.T) {
	jobs, rec := growers(true, false).run(t, func(f *fake) {
		f.started(0, 1)
		other, own := f.begin(1, 8), f.begin(0, 8)
		f.batch.ReportFault(0, 0, 700, "x", f.now)
		f.wait(4, other)
		f.calls = nil
		f.wait(4, own)
		f.want("stop 0")
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.want("grown 1")
		f.ended(1)
	})
	wantOutcomes(t, jobs, results.Fault, results.OK)
	if got := fmt.Sprint(rec.kinds()); got != "[fault refused]" {
		t.Errorf("events %s", got)
	}
}

// While the MPS server recovers no try begins, because the server would turn its processes away.
func TestATryWaitsForTheServersRecovery(t *testing.T) {
	s := growers(true, false)
	s.mps = true
	jobs, _ := s.run(t, func(f *fake) {
		f.started(0, 1)
		f.wait(4, f.begin(1, 8), f.begin(0, 8))
		f.batch.ServerFaulted(0, f.now)
		f.calls = nil
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.want("grown 1")
		f.batch.Recovered(nil, f.now)
		f.want("await server") // the death of the first try
		f.batch.Recovered(nil, f.now)
		f.want("restart 0 with 12, behind 1 tasks")
		f.started(0)
		f.ended(0, 1)
	})
	wantOutcomes(t, jobs, results.OK, results.OK)
}

// A limit of a job's devices counts in each of its tries.
func TestALimitCountsInEachTry(t *testing.T) {
	growers(true, false).run(t, func(f *fake) {
		f.started(0, 1)
		f.wait(4, f.begin(1, 8), f.begin(0, 8))
		f.batch.Post(f.now, runner.Limit{Job: 0, Devices: 0})
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.started(0)
		f.ended(1)
		f.calls = nil
		f.begin(0, 12)
		f.want()
		f.batch.Post(f.now, runner.Limit{Job: 0, Devices: 1})
		f.want("answer 3@0")
		f.ended(0)
	})
}

// What processes of earlier tries showed of their work counts when it is settled whose a fault was.
func TestATryThatHasEndedIsNotSuspectedWithoutWork(t *testing.T) {
	s := growers(true, false)
	s.mps = true
	jobs, _ := s.run(t, func(f *fake) {
		f.started(0, 1)
		other, own := f.batch.TaskBegin(1, schedulers.Task{Serial: 2, Bytes: 8}, f.now), f.batch.TaskBegin(0, schedulers.Task{Serial: 1, Bytes: 8}, f.now)
		f.wait(4, other, own)
		f.at(1)
		f.batch.Working(0, 1, nil)
		f.batch.ProcessGone(0, 1, false, f.now)
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGTERM")}, f.now)
		f.started(0)
		f.batch.Working(1, 2, new(time.Millisecond))
		f.batch.ReportFault(1, 2, 716, "kernel", f.now)
		f.ended(1)
		f.recovered()
		f.ended(0)
	})
	wantOutcomes(t, jobs, results.OK, results.Fault)
}

// A job that ends oom beside others starts again with what it had: under a scheduler that grants no more than there is, somebody has
// memory there that no call showed. A job that was alone there has had all of it.
func TestAJobThatRanOutOfMemoryStartsAgain(t *testing.T) {
	failed := runner.Exit{Status: new(1)}
	beside := func(f *fake) { f.begin(0, 3); f.begin(1, 4) }
	oom := func(f *fake) { f.batch.ReportOOM(0, 0, 0, "cudaLaunchKernel", f.now) }
	for name, c := range map[string]struct {
		scheduler string
		stays     bool // it may not be started again
		happens   func(*fake)
		exit      runner.Exit
		want      results.Outcome
		again     bool
	}{
		"beside another":             {"case-alg3", false, func(f *fake) { beside(f); oom(f) }, failed, results.OOM, true},
		"whatever it exits with":     {"demand", false, func(f *fake) { beside(f); oom(f) }, runner.Exit{Status: new(0)}, results.OOM, true},
		"the check passed":           {"case-alg3", false, func(f *fake) { beside(f); oom(f) }, runner.Exit{Status: new(0), Checked: true}, results.OKAfterOOM, false},
		"a context without task":     {"case-alg3", false, func(f *fake) { f.begin(0, 3); f.batch.TaskFree(f.begin(1, 4), f.now); oom(f) }, failed, results.OOM, true},
		"alone":                      {"case-alg3", false, func(f *fake) { f.begin(0, 3); oom(f) }, failed, results.OOM, false},
		"alone by then":              {"case-alg3", false, func(f *fake) { beside(f); f.ended(1); oom(f) }, failed, results.OOM, false},
		"not restartable":            {"case-alg3", true, func(f *fake) { beside(f); oom(f) }, failed, results.OOM, false},
		"a process has its device":   {"sa", false, oom, failed, results.OOM, false},
		"more granted than there is": {"zero", false, func(f *fake) { beside(f); oom(f) }, failed, results.OOM, false},
		"memory of the host":         {"case-alg3", false, func(f *fake) { beside(f); f.batch.ReportOOM(0, 0, 4, "cudaMallocHost", f.now) }, failed, results.OOM, false},
		"refused as well":            {"case-alg3", false, func(f *fake) { beside(f); f.begin(0, 17); oom(f) }, failed, results.OOM, false},
		"a fault as well":            {"case-alg3", false, func(f *fake) { beside(f); oom(f); f.batch.ReportFault(0, 0, 700, "x", f.now) }, failed, results.OOM, false},
		"the run was stopped":        {"case-alg3", false, func(f *fake) { beside(f); oom(f); f.batch.Cancel("stop", f.now) }, failed, results.Cancelled, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := growers(!c.stays, false)
			s.scheduler = c.scheduler
			jobs, rec := s.run(t, func(f *fake) {
				f.started(0)
				if c.scheduler != "sa" {
					f.started(1)
				}
				c.happens(f)
				f.calls = nil
				f.batch.JobEnded(0, c.exit, f.now)
				if again := slices.Contains(f.calls, "restart 0 with 3, behind 1 tasks"); again != c.again {
					t.Errorf("calls %v, restart %v", f.calls, c.again)
				}
				if c.again {
					f.started(0)
					f.ended(0)
				}
				if c.scheduler == "sa" {
					f.started(1)
				}
				if !f.done() {
					f.ended(1)
				}
			})
			want := c.want
			if c.again {
				want = results.OK
			}
			if *jobs[0].Outcome != want || (jobs[0].Restarts != nil) != c.again {
				t.Errorf("%s (%s), restarts %v", *jobs[0].Outcome, jobs[0].Detail, jobs[0].Restarts)
			}
			if slices.Contains(rec.kinds(), results.EventRestarted) != c.again {
				t.Errorf("events %v", rec.kinds())
			}
		})
	}
}

// It is started again twice at most, the second time with the device to itself. Then it has had all that there is, and ends oom.
func TestAJobThatRunsOutOfMemoryStartsAgainTwiceAtMost(t *testing.T) {
	jobs, rec := growers(true, false).run(t, func(f *fake) {
		f.started(0, 1)
		other := f.begin(1, 4)
		for try := range 2 {
			f.begin(0, 3)
			f.batch.ReportOOM(0, 0, 8, "cudaMalloc, device 0", f.now)
			f.calls = nil
			f.at(try + 1)
			f.batch.JobEnded(0, runner.Exit{Status: new(1)}, f.now)
			f.want(fmt.Sprintf("restart 0 with 3, behind %d tasks", try+1))
			f.started(0)
		}
		f.calls = nil
		f.begin(0, 3)
		f.want()
		f.batch.TaskFree(other, f.now)
		f.ended(1)
		f.want("answer 4@0")
		f.batch.ReportOOM(0, 0, 8, "cudaMalloc, device 0", f.now)
		f.batch.JobEnded(0, runner.Exit{Status: new(1)}, f.now)
	})
	wantOutcomes(t, jobs, results.OOM, results.OK)
	if got := fmt.Sprint(rec.kinds()); *jobs[0].Restarts != 2 || got != "[oom restarted oom restarted oom]" {
		t.Errorf("%+v, events %s", jobs[0], got)
	}
	const first = "out of memory: 8 bytes in cudaMalloc, device 0; the device is not oversubscribed"
	if d := rec.events[1].Detail; !strings.HasPrefix(d, first) || !strings.HasSuffix(d, ". Other jobs had memory on its device: it is started again with 3 bytes (restart 1 of 2)") {
		t.Error(d)
	}
	if d := rec.events[3].Detail; !strings.HasSuffix(d, "it is started again with 3 bytes (restart 2 of 2), and has its device to itself") {
		t.Error(d)
	}
}
