package lazytest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// A refused task is an out-of-memory error of the launch, and the program goes on.
func TestLazyRefused(t *testing.T) {
	p := startLazy(t, "13", "basic").finish(func(t *testing.T, e event) {
		if e.Kind == "begin" {
			if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
				t.Error(err)
			}
		}
	})
	p.mustSucceed()
	if len(p.of("begin")) != 1 { // what was refused is not asked for again
		t.Errorf("events %v", p.events)
	}
	if launches := strings.Count(strings.Join(p.lines, "\n"), "LAUNCH"); launches != 3 {
		t.Errorf("%d launches failed, want 3: %q", launches, p.lines)
	}
	p.wantLine("last error 2")
	p.wantLine("after: contexts 0 first -1 " + nothingLeft)
}

// A program that has cleared its environment is scheduled as any other.
func TestLazyKeepsTheEnvironmentOfItsStart(t *testing.T) {
	for _, env := range []string{"CASE_MOVABLE=0", movable} {
		p := runLazy(t, "13", "cleared", env)
		p.mustSucceed()
		if len(p.of("begin")) != 1 || len(p.of("free")) != 1 {
			t.Errorf("%s: events %v", env, p.events)
		}
		p.wantNothingLeft()
	}
}

// The first request of each kind has waited as long as it may; the others are granted.
func impatient() func(*testing.T, event) {
	seen := map[string]bool{}
	return func(t *testing.T, e event) {
		if seen[e.Kind] || e.Kind != "begin" && e.Kind != "grow" {
			grant(t, e)
			return
		}
		seen[e.Kind] = true
		if err := e.refuse(schedulers.TimedOut, 10<<20, 1<<20, "no device within the wait limit"); err != nil {
			t.Error(err)
		}
	}
}

// The end of a wait is cudaErrorNotReady, neither reported as missing memory nor as a fault. The
// program may try again once it has taken the error; one that looks at no error asks nobody.
func TestLazyWaitsEnd(t *testing.T) {
	for _, version := range []string{"11", "13"} {
		p := startLazy(t, version, "impatient").finish(impatient())
		p.mustSucceed()
		p.wantEvents("begin begin grow grow grow free gone") // the last is of what is read back
		if got, want := strings.Join(p.lines[:6], ", "), "launch 600, again 600, last 600, later 0, grow 600, last 600"; got != want {
			t.Errorf("output %q, want %q", got, want)
		}
		p.wantLine("grow 0")
		if after := p.lines[len(p.lines)-1]; !strings.HasSuffix(after, nothingLeft) {
			t.Errorf("left behind: %s", after)
		}
	}
}

// The same of the driver's initialization, where a static runtime is served.
func TestLazyWaitsEndInTheDriver(t *testing.T) {
	first := impatient()
	p := startStatic(t, "count static", "CUDA_VISIBLE_DEVICES="+bothDevices).finish(func(t *testing.T, e event) {
		if e.Kind == "grow" {
			grant(t, e)
			return
		}
		first(t, e)
	})
	p.mustSucceed()
	p.wantLine(`entry<CUresult(unsigned)>("cuInit")(0): error 600`)
	p.wantLine("static on 0 memory on 0 right 1")
	p.wantEvents("begin begin grow gone")
}

// A job's wait is that of its tasks and of their growth.
func TestLazyRequestsWaitAsTheJobDoes(t *testing.T) {
	for text, want := range map[string]*time.Duration{"": nil, "1500": new(1500 * time.Millisecond), "none": new(time.Duration(0))} {
		p := runLazy(t, "13", "grow", "CASE_WAIT="+text)
		for _, e := range append(p.of("begin"), p.of("grow")...) {
			if got := e.wait(); (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("CASE_WAIT=%s: %+v waits %v, want %v", text, e.Event, got, want)
			}
		}
		if len(p.of("grow")) == 0 {
			t.Errorf("events %v", p.events)
		}
	}
}

// A program whose scheduler is gone gets errors, no device.
func TestLazyLosesTheScheduler(t *testing.T) {
	p := startLazy(t, "13", "basic")
	p.r.next(t, "begin")
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	p.finish(grant)
	p.mustSucceed()
	p.wantLine("after: contexts 0 first -1 " + nothingLeft)
	if !strings.Contains(p.stderr.String(), "lost the scheduler") {
		t.Errorf("stderr %q", p.stderr.String())
	}
}

// A device that has less than was granted is an out-of-memory error, after which
// the task is over and the program may try again.
func TestLazyGivesBackWhatItCannotBind(t *testing.T) {
	p := runLazy(t, "13", "basic", "FAKE_CUDA_FAIL=cuMemCreate:2=2")
	p.wantEvents("begin oom free begin free gone")
	p.wantLine("LAUNCH(add, grid, block, 0, nullptr, x, n, 7): error 2")
	p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
}

// An MPS server that recovers from somebody's fault turns a new client away for a
// moment, which the client gets over.
func TestLazyWaitsForTheMPSServer(t *testing.T) {
	for _, fail := range []string{"cuInit:1=807,cuInit:2=807", "cuDevicePrimaryCtxRetain:1=807,cuDevicePrimaryCtxRetain:2=805",
		"cuInit:1=46,cuDevicePrimaryCtxRetain:1=46"} {
		p := runLazy(t, "13", "basic", "FAKE_CUDA_FAIL="+fail, "CUDA_MPS_PIPE_DIRECTORY=pipe")
		p.wantNative()
		p.wantEvents("begin free gone")
	}
}

// A server that does not recover is waited for once. The program, which does not look at
// errors, is told at every call that binds, and nobody is asked again.
func TestLazyGivesUpOnTheMPSServerOnce(t *testing.T) {
	var fail []string
	for n := range 20 {
		fail = append(fail, fmt.Sprintf("cuDevicePrimaryCtxRetain:%d=807", n+1))
	}
	p := runLazy(t, "13", "basic", "FAKE_CUDA_FAIL="+strings.Join(fail, ","), "CASE_MPS_GRACE_MS=200")
	p.wantEvents("begin fault free gone")
	p.wantLine("last error 807")
}

// Without MPS a device that is not available is another's, and stays so.
func TestLazyTellsOfAnUnavailableDevice(t *testing.T) {
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", "") // and back afterwards
	os.Unsetenv("CUDA_MPS_PIPE_DIRECTORY")
	p := runLazy(t, "13", "basic", "FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain:1=46")
	p.wantEvents("begin fault free begin free gone")
}

// Without a scheduler the program runs on the device it would have had.
func TestLazyUnscheduled(t *testing.T) {
	p := runLazy(t, "13", "basic", "CASE_SOCKET=", "CASE_REQUIRED=")
	p.wantNative()
	p.wantLine("after: contexts 1 first 0 " + nothingLeft)
	if !strings.Contains(p.stderr.String(), "running unscheduled") {
		t.Errorf("stderr %q", p.stderr.String())
	}
}

// Without a task to bind, the library only reports.
func TestLazyPassive(t *testing.T) {
	p := runLazy(t, "13", "two_devices", "CASE_BINDING=job")
	if got, want := strings.Join(p.lines, "\n"), strings.Join(native(t, "13", "two_devices"), "\n"); got != want {
		t.Errorf("output\n%s\nwant\n%s", got, want)
	}
	if len(p.of("begin"))+len(p.of("oom"))+len(p.of("fault")) != 0 {
		t.Errorf("events %v", p.events)
	}
	p = runLazy(t, "13", "too_much", "CASE_BINDING=job")
	p.wantLine("second 2 last 2")
	if ooms := p.of("oom"); len(ooms) != 1 || ooms[0].Bytes != 800<<20 {
		t.Errorf("oom %v", p.events)
	}
	p = runLazy(t, "13", "fault", "CASE_BINDING=job")
	if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 {
		t.Errorf("fault %v", p.events)
	}
}

// More than any device has fails where the program asked for it.
func TestLazyTooMuch(t *testing.T) {
	p := runLazy(t, "13", "too_much")
	p.wantLine("first 0")
	p.wantLine("second 2 last 2")
	if ooms := p.of("oom"); len(ooms) != 1 || ooms[0].Bytes != 800<<20 {
		t.Errorf("events %v", p.events)
	}
}

// The first lasting error is reported, wherever it shows, although the program
// exits 0.
func TestLazyFault(t *testing.T) {
	for program, where := range map[string]string{"fault": "cudaMemcpy", "fault_unseen": "end of the program"} {
		for _, version := range cudaVersions {
			p := runLazy(t, version, program)
			faults := p.of("fault")
			if len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 || !strings.Contains(faults[0].Text, where) {
				t.Errorf("%s: events %v\nstderr:\n%s", program, p.events, p.stderr.String())
			}
		}
	}
}

// An error that stays is the last one, whatever failed after it.
func TestLazyKeepsAFaultAsLastError(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "last_errors_after_a_fault")
		p.wantNative()
		p.wantLine("fault: 700 700 700 then 700")
	}
}

// A job that is bound as a whole reports it too, when a call that only asks came first.
func TestLazyFaultAfterAQuestion(t *testing.T) {
	for _, program := range []string{"fault_unseen", "fault_unseen_late"} {
		for _, env := range []string{"CASE_BINDING=job", "CASE_PIN=1"} {
			p := runLazy(t, "13", program, env)
			if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 {
				t.Errorf("%s, %s: events %v\nstderr:\n%s", program, env, p.events, p.stderr.String())
			}
		}
	}
}

// step is one call of CUDA's in a run, as the fake counts them.
type step struct {
	call string
	nth  int
}

// firstOfEach returns the elements whose key no earlier element has.
func firstOfEach[T any, K comparable](all []T, key func(T) K) []T {
	seen := map[K]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool {
		k := key(one)
		before := seen[k]
		seen[k] = true
		return before
	})
}

// firstCalls leaves the first call of each function.
func firstCalls(all []step) []step { return firstOfEach(all, func(s step) string { return s.call }) }

func allCalls(all []step) []step { return all }

// steps are the calls that a program makes between being granted its device and
// its first look at the result.
func steps(t *testing.T, program, until string) []step {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	runLazy(t, "13", program, "FAKE_CUDA_TRACE="+trace)
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count := map[string]int{}
	var all []step
	bound := false
	for in := bufio.NewScanner(f); in.Scan(); {
		call, _, _ := strings.Cut(in.Text(), " ")
		count[call]++
		bound = bound || call == "cuDevicePrimaryCtxRetain" || call == "cudaSetDevice"
		if bound {
			all = append(all, step{call, count[call]})
		}
		if bound && call == until {
			break
		}
	}
	if len(all) < 10 {
		t.Fatalf("%s: only %d calls: %v", program, len(all), all)
	}
	return all
}

const noMemoryLeft = "allocations 0 handles 0 mappings 0 reservations 0"

// gives: the call gives memory back, so its failure leaves some.
func gives(call string) bool {
	return call == "cuMemUnmap" || call == "cuMemRelease" || call == "cuMemAddressFree"
}

// Whatever function fails while the process is bound, the program lives, its errors
// are reported, and nothing is left.
func TestLazySurvivesFailures(t *testing.T) { survivesFailures(t, firstCalls) }

func survivesFailures(t *testing.T, of func([]step) []step) {
	t.Helper()
	for _, program := range []string{"basic", "order", "streams"} {
		want := strings.Join(results(native(t, "13", program)), "\n")
		for _, s := range of(steps(t, program, "__cudaLaunchKernel")) {
			for _, code := range []int{2, 999} {
				fail := fmt.Sprintf("%s:%d=%d", s.call, s.nth, code)
				p := startLazy(t, "13", program, "FAKE_CUDA_FAIL="+fail).finish(grant)
				if p.err != nil {
					t.Errorf("%s, %s: %v\nstderr:\n%s", program, fail, p.err, p.stderr.String())
					continue
				}
				reported := len(p.of("oom"))+len(p.of("fault")) > 0
				if got := strings.Join(results(p.lines), "\n"); got != want && !reported {
					t.Errorf("%s, %s: a wrong result and no report:\n%s", program, fail, got)
				}
				if begins, frees := len(p.of("begin")), len(p.of("free")); begins != frees {
					t.Errorf("%s, %s: %d tasks began, %d ended", program, fail, begins, frees)
				}
				for _, line := range p.lines {
					if strings.HasPrefix(line, "after: ") && !strings.Contains(line, noMemoryLeft) && !gives(s.call) {
						t.Errorf("%s, %s: left behind: %s", program, fail, line)
					}
				}
			}
		}
	}
}

// A lasting error of any function in a program's life is reported, and no result is
// wrong in silence.
func TestLazyReportsLastingErrors(t *testing.T) { reportsLastingErrors(t, firstCalls) }

func reportsLastingErrors(t *testing.T, of func([]step) []step) {
	t.Helper()
	for _, program := range []string{"basic", "streams", "tasks"} {
		want := strings.Join(results(native(t, "13", program)), "\n")
		for _, s := range of(steps(t, program, "")) {
			fail := fmt.Sprintf("%s:%d=719", s.call, s.nth)
			p := startLazy(t, "13", program, "FAKE_CUDA_FAIL="+fail).finish(grant)
			p.mustSucceed()
			faults := p.of("fault")
			if got := strings.Join(results(p.lines), "\n"); len(faults) == 0 && got != want {
				t.Errorf("%s, %s: no report of\n%s", program, fail, got)
			}
			if strings.HasPrefix(s.call, "cuda") && (len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 719) {
				t.Errorf("%s, %s: events %v", program, fail, p.events)
			}
		}
	}
}

// A process that is killed in any function gives back its task by its socket's end.
func TestLazyIsKilled(t *testing.T) { isKilled(t, firstCalls) }

func isKilled(t *testing.T, of func([]step) []step) {
	t.Helper()
	for _, s := range of(steps(t, "order", "")) {
		kill := fmt.Sprintf("%s:%d", s.call, s.nth)
		p := startLazy(t, "13", "order", "FAKE_CUDA_KILL="+kill).finish(grant)
		var exit *exec.ExitError
		if !errors.As(p.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v", kill, p.err)
		}
		if n := len(p.events); n < 2 || p.events[0].Kind != "begin" || p.events[n-1].Kind != "gone" {
			t.Errorf("%s: events %v", kill, p.events)
		}
		if len(p.of("oom"))+len(p.of("fault")) != 0 {
			t.Errorf("%s: events %v", kill, p.events)
		}
	}
}

// Errors of this kind stay in every version of CUDA that has them.
func TestLazyReportsEachLastingError(t *testing.T) {
	for _, code := range []int{214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999} {
		p := startLazy(t, "13", "basic", fmt.Sprintf("FAKE_CUDA_FAIL=cudaMemcpy:3=%d", code)).finish(grant)
		p.mustSucceed()
		if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != code {
			t.Errorf("error %d: events %v", code, p.events)
		}
	}
}

// A recorded call that CUDA refuses after all is reported, and costs the program nothing
// else of what it has done: its other results are right.
func TestLazyReplaysPastAnError(t *testing.T) {
	want := native(t, "13", "basic")
	p := runLazy(t, "13", "basic", "FAKE_CUDA_FAIL=cudaMemcpy:1=1")
	p.wantEvents("begin fault free gone")
	p.wantLine(want[slices.IndexFunc(want, func(l string) bool { return strings.HasPrefix(l, "y ") })])
	if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 1 || faults[0].Text != "cudaMemcpy" {
		t.Errorf("events %v", p.events)
	}
}

// A program whose CUDA runtime is linked statically has its errors reported by the driver's
// functions, whoever has chosen its device.
func TestLazyReportsErrorsOfAStaticRuntime(t *testing.T) {
	for _, binding := range []string{"task", "job"} {
		p := startStatic(t, "careless", "CASE_BINDING="+binding, "FAKE_CUDA_FAIL=cuCtxSynchronize:1=700").finish(grant)
		p.mustSucceed()
		p.wantLine("alloc 2")
		p.wantLine("launch 0")
		if oom := p.of("oom"); len(oom) != 1 || oom[0].Bytes != 1<<40 || !strings.HasPrefix(oom[0].Text, "cuMemAlloc_v2, device ") {
			t.Errorf("%s: events %v", binding, p.events)
		}
		if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 || faults[0].Text != "the end of the program" {
			t.Errorf("%s: events %v", binding, p.events)
		}
		for fail, want := range map[string]string{
			"cuMemcpyDtoH_v2:1=719":          "fault 719 cuMemcpyDtoH_v2",
			"cuDevicePrimaryCtxRetain:1=2":   "oom 0 the context",
			"cuCtxGetDevice:1=700":           "", // is not looked at
			"cuDevicePrimaryCtxRetain:1=999": "",
		} {
			p = startStatic(t, "static", "CASE_BINDING="+binding, "FAKE_CUDA_FAIL="+fail).finish(grant)
			p.mustSucceed()
			got := ""
			for _, e := range p.events {
				switch e.Kind {
				case "fault":
					got += fmt.Sprintf("fault %d %s", e.Posted.(runner.Fault).Code, e.Text)
				case "oom":
					where, _, _ := strings.Cut(e.Text, ",")
					got += fmt.Sprintf("oom %d %s", e.Bytes, where)
				}
			}
			if got != want {
				t.Errorf("%s, %s: %q, want %q", binding, fail, got, want)
			}
		}
		p = startStatic(t, "careless", "CASE_BINDING="+binding, "FAKE_CUDA_FAIL=cuLaunchKernel:1=701").finish(grant)
		if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 701 || faults[0].Text != "cuLaunchKernel" {
			t.Errorf("%s: events %v", binding, p.events)
		}
	}
}

// Missing memory is reported where no call that is looked at fails: by a call that is passed on, by the program's next
// question for the last error, and by the driver's call that makes the context. Once is enough.
func TestLazyReportsMissingMemoryOfPassedOnCalls(t *testing.T) {
	for _, c := range []struct{ program, fail, env, want string }{
		{"captured", "cudaGraphInstantiate:1=2", "", "cudaGraphInstantiate"},
		{"last_errors", "cudaFuncGetAttributes:1=2", "", "cudaGetLastError"},
		{"fault_unseen_late", "cuDevicePrimaryCtxRetain:1=2", "CASE_BINDING=job", "the context"},
		{"fault_unseen_late", "cuDevicePrimaryCtxRetain:1=2", "", "the context"},
	} {
		p := startLazy(t, "13", c.program, "FAKE_CUDA_FAIL="+c.fail, c.env).finish(grant)
		var told []string
		for _, e := range p.of("oom") {
			told = append(told, e.Text)
		}
		if got := strings.Join(told, ", "); got != c.want {
			t.Errorf("%s, %s %s: reported %q, want %q\n%q", c.program, c.fail, c.env, got, c.want, p.lines)
		}
	}
}
