package runner_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// evidence of how a job ended, weakest first: each goes before all that come
// earlier in the list.
var evidence = []struct {
	name    string
	happens func(*fake, *runner.Exit)
	outcome results.Outcome
	detail  string
}{
	{"exit status 0", func(*fake, *runner.Exit) {}, results.OK, ""},
	{"exit status", func(_ *fake, e *runner.Exit) { e.Status = new(3) }, results.Crash, "exit status 3"},
	{"output check", func(_ *fake, e *runner.Exit) { e.Wrong = true }, results.Wrong, "output check"},
	{"hint", func(f *fake, e *runner.Exit) {
		e.Status, e.Wrong = new(1), false
		f.batch.Post(f.now, runner.Hint{What: "cudaSetDevice(1): no such device"})
	}, results.Crash, "exit status 1: cudaSetDevice(1): no such device; a job has one GPU, as its device 0. A program that chooses among several needs pin: true"},
	{"signal", func(_ *fake, e *runner.Exit) { e.Status, e.Signal = nil, new("SIGSEGV") }, results.Crash, "SIGSEGV"},
	{"no scheduler", func(f *fake, _ *runner.Exit) { f.batch.Post(f.now, runner.Unreached{Why: "connect: no"}) }, results.NotScheduled,
		"it could not reach the scheduler: connect: no"},
	{"fault", func(f *fake, _ *runner.Exit) {
		f.batch.ReportFault(0, 0, 700, "cudaMemcpy", f.now)
		f.batch.ReportFault(0, 0, 719, "cudaFree", f.now)
	}, results.Fault, "CUDA error 700 in cudaMemcpy"},
	{"refusal", func(f *fake, _ *runner.Exit) { f.begin(0, 17) }, results.Refused, "needs 17 bytes, capacity 16 bytes"},
	{"oom", func(f *fake, _ *runner.Exit) {
		f.batch.ReportOOM(0, 0, 99, "cudaMalloc", f.now)
		f.batch.ReportOOM(0, 0, 5, "cudaMallocHost", f.now)
	}, results.OOM, "out of memory: 99 bytes in cudaMalloc"},
	{"not watched", func(_ *fake, e *runner.Exit) { e.Err = errors.New("wait: no child") }, results.Crash, "wait: no child"},
	{"output", func(f *fake, _ *runner.Exit) { f.batch.Post(f.now, runner.Overfull{Why: "it wrote 9 bytes"}) }, results.Crash, "it wrote 9 bytes"},
	{"timeout", func(f *fake, _ *runner.Exit) { f.at(60); f.batch.Tick(f.now) }, results.Timeout, "longer than its limit"},
	{"cancel", func(f *fake, _ *runner.Exit) { f.batch.Cancel("interrupt", f.now) }, results.Cancelled, "stopped with the run"},
	{"not started", func(_ *fake, e *runner.Exit) { e.Err, e.NotStarted = errors.New("too many open files"), true }, results.NotStarted, "too many open files"},
}

func TestOutcomePrecedence(t *testing.T) {
	one := setup{scheduler: "case-alg3", jobs: probed(1), timeout: 60e9}
	for i, strongest := range evidence {
		for first := range i + 1 {
			// strongest alone (first == i), or with all evidence from first on.
			jobs, _ := one.run(t, func(f *fake) {
				f.started(0)
				exit := runner.Exit{Status: new(0)}
				for _, e := range evidence[first:i] {
					e.happens(f, &exit)
				}
				strongest.happens(f, &exit)
				f.batch.JobEnded(0, exit, f.now)
			})
			if got := jobs[0]; *got.Outcome != strongest.outcome || !strings.Contains(got.Detail, strongest.detail) {
				t.Errorf("%s with all from %q on: %s (%s), want %s (%s)", strongest.name, evidence[first].name,
					*got.Outcome, got.Detail, strongest.outcome, strongest.detail)
			}
		}
	}
}

// A job that goes on after a failed allocation is ok only if a check of its output passed, and nothing else went wrong.
func TestOKAfterOutOfMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails bool
		exit  runner.Exit
		also  func(*fake)
		want  results.Outcome
	}{
		{"the check passed", false, runner.Exit{Checked: true, Status: new(0)}, nil, results.OKAfterOOM},
		{"--after-oom oom", true, runner.Exit{Checked: true, Status: new(0)}, nil, results.OOM},
		{"no check", false, runner.Exit{Status: new(0)}, nil, results.OOM},
		{"the check failed", false, runner.Exit{Checked: true, Wrong: true, Status: new(4)}, nil, results.OOM},
		{"another exit status", false, runner.Exit{Checked: true, Status: new(1)}, nil, results.OOM},
		{"a signal", false, runner.Exit{Checked: true, Signal: new("SIGSEGV")}, nil, results.OOM},
		{"a fault", false, runner.Exit{Checked: true, Status: new(0)}, func(f *fake) { f.batch.ReportFault(0, 0, 700, "cudaMemcpy", f.now) }, results.OOM},
		{"a refusal of the same", false, runner.Exit{Checked: true, Status: new(0)}, func(f *fake) { f.begin(0, 17) }, results.OKAfterOOM},
		{"no scheduler", false, runner.Exit{Checked: true, Status: new(0)}, func(f *fake) { f.batch.Post(f.now, runner.Unreached{Why: "none"}) }, results.OOM},
	} {
		jobs, _ := setup{scheduler: "case-alg3", jobs: probed(1), oomFails: c.fails}.run(t, func(f *fake) {
			f.started(0)
			f.batch.ReportOOM(0, 0, 99, "cudaMalloc", f.now)
			if c.also != nil {
				c.also(f)
			}
			f.batch.JobEnded(0, c.exit, f.now)
		})
		if got := jobs[0]; *got.Outcome != c.want || !strings.HasPrefix(got.Detail, "out of memory: 99 bytes in cudaMalloc") {
			t.Errorf("%s: %s (%s), want %s", c.name, *got.Outcome, got.Detail, c.want)
		}
	}
}

func TestReportsAreEvents(t *testing.T) {
	_, rec := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.at(2)
		f.batch.ReportOOM(0, 0, 99, "cudaMalloc", f.now)
		f.batch.ReportFault(0, 0, 700, "cudaMemcpy", 1e9)
		f.begin(0, 17)
		f.ended(0)
	})
	if got := fmt.Sprint(rec.kinds()); got != "[oom fault refused]" {
		t.Fatalf("events %q, want oom fault refused", got)
	}
	if e := rec.events[1]; e.AtS != 1 || e.Job == nil || *e.Job != 0 {
		t.Errorf("fault event %+v, want the time at which it was seen, 1 s, of job 0", e)
	}
}

// A growth that the scheduler refuses is no failed allocation: the job is refused, also if it faults then, because it went on
// as if it had the memory. A failed allocation counts all the same.
func TestRefusedGrowth(t *testing.T) {
	const refused, passed = "needs 17 bytes, capacity 16 bytes", "; it went on, and its output check passed"
	report := func(f *fake) { f.batch.ReportOOM(0, 0, 17, "cudaMalloc, which the scheduler refused", f.now) }
	for name, c := range map[string]struct {
		scheduler string
		exit      runner.Exit
		happens   func(*fake)
		want      results.Outcome
		detail    string
	}{
		"it fails":           {"case-alg3", runner.Exit{Status: new(1)}, func(f *fake) { f.begin(0, 17); report(f) }, results.Refused, refused},
		"it goes on":         {"case-alg3", runner.Exit{Status: new(0)}, func(f *fake) { f.begin(0, 17); report(f) }, results.Refused, refused},
		"the check passed":   {"case-alg3", runner.Exit{Checked: true, Status: new(0)}, func(f *fake) { f.begin(0, 17); report(f) }, results.OKAfterOOM, refused + passed},
		"without a report":   {"case-alg3", runner.Exit{Checked: true, Status: new(0)}, func(f *fake) { f.begin(0, 17) }, results.OKAfterOOM, refused + passed},
		"no decision":        {"case-alg3", runner.Exit{Status: new(1)}, report, results.Refused, "17 bytes in cudaMalloc, which the scheduler refused"},
		"memory can move":    {"vgpu:n=2", runner.Exit{Status: new(1)}, func(f *fake) { f.begin(0, 17); report(f) }, results.Refused, refused + "; with a larger --swap more memory can be on the host"},
		"it faults":          {"case-alg3", runner.Exit{Status: new(1)}, func(f *fake) { f.begin(0, 17); report(f); f.batch.ReportFault(0, 0, 700, "cudaMemcpy", f.now) }, results.Refused, refused},
		"another allocation": {"case-alg3", runner.Exit{Status: new(1)}, func(f *fake) { f.begin(0, 17); report(f); f.batch.ReportOOM(0, 0, 3, "cudaMalloc", f.now) }, results.OOM, "out of memory: 3 bytes in cudaMalloc"},
	} {
		jobs, rec := setup{scheduler: c.scheduler, jobs: probed(1)}.run(t, func(f *fake) {
			f.started(0)
			c.happens(f)
			f.batch.JobEnded(0, c.exit, f.now)
		})
		if got := jobs[0]; *got.Outcome != c.want || !strings.HasSuffix(got.Detail, c.detail) {
			t.Errorf("%s: %s (%s), want %s (%s)", name, *got.Outcome, got.Detail, c.want, c.detail)
		}
		if ooms := slices.Contains(rec.kinds(), results.EventOOM); ooms != (name == "another allocation") {
			t.Errorf("%s: events %v", name, rec.kinds())
		}
	}
}

// A job that finds no memory although its device has some to grant is told apart from a job on a
// device that is oversubscribed: then a process may hold more than what was reserved for it.
func TestOutOfMemoryBesideFreeMemory(t *testing.T) {
	for scheduler, oversubscribed := range map[string]bool{"case-alg3": false, "zero": true} {
		jobs, _ := setup{scheduler: scheduler, jobs: probed(1)}.run(t, func(f *fake) {
			f.started(0)
			f.begin(0, 12)
			if oversubscribed {
				f.begin(0, 12)
			}
			f.batch.ReportOOM(0, 0, 4, "cudaMalloc", f.now)
			f.batch.JobEnded(0, runner.Exit{Status: new(2)}, f.now)
		})
		if told := strings.Contains(jobs[0].Detail, "declare more memory in the mix, or give a larger --context-reserve"); told == oversubscribed || *jobs[0].Outcome != results.OOM {
			t.Errorf("%s: %s (%s)", scheduler, *jobs[0].Outcome, jobs[0].Detail)
		}
	}
}

// What could be compared is said: no process was seen with more than it is charged.
func TestOutOfMemoryBesideFreeMemoryThatWasLookedAt(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
		f.started(0)
		f.begin(0, 12)
		f.see(2, 12)
		f.batch.ReportOOM(0, 0, 4, "cudaMalloc", f.now)
		f.batch.JobEnded(0, runner.Exit{Status: new(2)}, f.now)
	})
	if got := jobs[0].Detail; !strings.Contains(got, "no process was seen to hold more than was reserved for it") {
		t.Error(got)
	}
}

// Other memory than that of a device has its own remedy.
func TestRemedyOfOutOfMemory(t *testing.T) {
	for where, want := range map[string]string{
		"memory of the host (swap area), device 0: 0.05 of 0.06 GiB free, 0.00 GiB ours": "; the swap area is full: give a larger --swap",
		"cudaMallocHost": "; the host has too little memory that can be page-locked: end other programs, or run fewer jobs at once (--workers)",
		"cuMemHostAlloc": "; the host has too little memory that can be page-locked: end other programs, or run fewer jobs at once (--workers)",
	} {
		jobs, _ := setup{scheduler: "case-alg3", jobs: probed(1)}.run(t, func(f *fake) {
			f.started(0)
			f.begin(0, 12)
			f.batch.ReportOOM(0, 0, 4, where, f.now)
			f.batch.JobEnded(0, runner.Exit{Status: new(2)}, f.now)
		})
		if got := jobs[0].Detail; got != "out of memory: 4 bytes in "+where+want {
			t.Errorf("%s: %s", where, got)
		}
	}
}

func TestExitIsRecorded(t *testing.T) {
	jobs, _ := setup{scheduler: "sa", jobs: probed(1)}.run(t, func(f *fake) {
		f.at(1)
		f.started(0)
		f.at(5)
		f.batch.JobEnded(0, runner.Exit{Signal: new("SIGABRT"), UserS: new(1.5), SysS: new(0.5),
			MaxRSSBytes: new(int64(7)), StderrTail: "last words"}, f.now)
	})
	j := jobs[0]
	if *j.StartS != 1 || *j.EndS != 5 || j.ExitStatus != nil || *j.Signal != "SIGABRT" || *j.UserS != 1.5 ||
		*j.SysS != 0.5 || *j.MaxRSSBytes != 7 || j.StderrTail != "last words" {
		t.Errorf("job %+v", j)
	}
}

// Jobs that an executor could not start for a reason of its own have not crashed.
func TestExecutorThatFails(t *testing.T) {
	s := setup{scheduler: "case-alg3", jobs: probed(4), workers: 3}
	jobs, _ := s.run(t, func(f *fake) {
		f.started(0)
		f.calls = nil
		f.batch.Fail(errors.New("too many open files"), f.now)
		f.want("stop 0", "stop 1", "stop 2")
		f.ended(0)
		for _, j := range []int{1, 2} {
			f.batch.JobEnded(j, runner.Exit{Err: errors.New("too many open files"), NotStarted: true}, f.now)
		}
	})
	wantOutcomes(t, jobs, results.Cancelled, results.NotStarted, results.NotStarted, results.NotStarted)
}
