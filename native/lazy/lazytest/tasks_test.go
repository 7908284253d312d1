package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// When the last object is freed the task ends; the next may go elsewhere.
func TestLazyTasksMove(t *testing.T) {
	next := 0
	p := startLazy(t, "13", "tasks").finish(func(t *testing.T, e event) {
		if e.Kind == "begin" {
			next = 1 - next
			if e.Asks().OnDevice != nil || e.Asks().Managed || e.Bytes != 2<<20 {
				t.Errorf("begin %+v", e.Asks())
			}
		}
		if e.Kind == "begin" || e.Kind == "grow" {
			if err := e.grant(next, fakeUUID(next)); err != nil {
				t.Error(err)
			}
		}
	})
	p.mustSucceed()
	p.wantEvents("begin grow free begin grow free begin grow free gone") // each allocates once more when bound
	p.wantLine("first: contexts 1 first 1 " + nothingLeft)
	p.wantLine("second: contexts 2 first 1 " + nothingLeft)
	p.wantLine("third: contexts 2 first 1 " + nothingLeft)
	p.wantNative()
}

// What lives on a device holds the process there.
func TestLazyTasksStayWithTheirState(t *testing.T) {
	for _, program := range []string{"tasks_with_stream", "tasks_with_variable"} {
		p := runLazy(t, "13", program)
		begins := p.of("begin")
		if len(begins) < 2 {
			t.Fatalf("%s: %v", program, p.events)
		}
		for i, e := range begins {
			if pinned := e.Asks().OnDevice != nil; pinned != (i > 0) || pinned && *e.Asks().OnDevice != grantedDevice {
				t.Errorf("%s: request %d %+v", program, i, e.Asks())
			}
		}
	}
}

func TestLazyGrows(t *testing.T) {
	refusals := 0
	p := startLazy(t, "13", "grow").finish(func(t *testing.T, e event) {
		if e.Kind == "grow" && e.Bytes == 64<<20 {
			refusals++
			if err := e.refuse(schedulers.DeviceFull, 64<<20, 32<<20, "device 1 is full"); err != nil {
				t.Error(err)
			}
			return
		}
		grant(t, e)
	})
	p.mustSucceed()
	if refusals != 1 {
		t.Errorf("events %v, want a grow of 64 MiB", p.events)
	}
	p.wantLine("more 2 last 2 then 0")
	p.wantLine("again 0")
	p.wantLine("sum -1830198248188830464")
	grows := p.of("grow")
	if len(grows) < 2 || grows[1].Bytes != 16<<20 {
		t.Errorf("grows %v", grows)
	}
	if ooms := p.of("oom"); len(ooms) != 1 || ooms[0].Bytes != 64<<20 || ooms[0].Text != "cudaMalloc, which the scheduler refused" {
		t.Errorf("oom %v", ooms)
	}
	shapes := p.of("shape")
	if len(shapes) == 0 || shapes[len(shapes)-1].Posted.(runner.TaskShape).Blocks != 4000 || shapes[len(shapes)-1].Posted.(runner.TaskShape).ThreadsPerBlock != 1024 || shapes[len(shapes)-1].Posted.(runner.TaskShape).BlocksPerSM != 2 {
		t.Errorf("shapes %v", shapes)
	}
	p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
}

func TestLazyGrowthHoldsNobodyUp(t *testing.T) {
	p := startLazy(t, "13", "grow_waits")
	grant(t, p.r.next(t, "begin"))
	p.hear("bound")
	p.goOn()
	p.hear("asked")
	waiting := p.r.next(t, "grow")
	p.goOn()
	p.hear("meanwhile 2")
	grant(t, waiting)
	p.hear("grown 1")
	p.finish(grant)
	p.mustSucceed()
	p.wantLine(fmt.Sprintf("after: contexts 1 first %d %s", grantedDevice, nothingLeft))
}

// Threads whose tasks move: each must follow.
func TestLazyTasksMoveUnderThreads(t *testing.T) {
	for _, program := range []string{"tasks_in_threads", "churn"} {
		next := 0
		home := map[uint64]int{}
		p := startLazy(t, "13", program).finish(func(t *testing.T, e event) {
			switch e.Kind {
			case "begin":
				next = 1 - next
				home[e.Task] = next
				if e.Asks().OnDevice != nil || e.Asks().Managed {
					t.Errorf("%s: begin %+v: nothing holds it", program, e.Asks())
				}
			case "grow":
			default:
				return
			}
			if err := e.grant(home[e.Task], fakeUUID(home[e.Task])); err != nil {
				t.Error(err)
			}
		})
		p.mustSucceed()
		p.wantNative()
		if last := p.lines[len(p.lines)-1]; !strings.HasSuffix(last, nothingLeft) {
			t.Errorf("%s: left behind: %s", program, last)
		}
	}
}

func TestLazyThreadsBindOnce(t *testing.T) {
	p := runLazy(t, "13", "threads")
	p.wantLine("right 32")
	for i, e := range p.of("begin") {
		if i > 0 && (e.Asks().OnDevice == nil || *e.Asks().OnDevice != grantedDevice) {
			t.Errorf("request %d %+v: streams hold the process on device %d", i, e.Asks(), grantedDevice)
		}
	}
}

// A pinned job chooses its devices; each task says which.
func TestLazyPinned(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "two_devices", "CASE_PIN=1")
		if got, want := p.lines, native(t, version, "two_devices"); !slices.Equal(got, want) {
			t.Errorf("output %q, want %q", got, want)
		}
		for i, e := range p.of("begin") {
			if e.Asks().OnDevice == nil || *e.Asks().OnDevice != i {
				t.Errorf("request %d %+v", i, e.Asks())
			}
		}
		if len(p.of("begin")) != 2 || len(p.of("free")) != 2 {
			t.Errorf("events %v", p.events)
		}
	}
}

// A child that inherits a task neither ends it nor reports for it.
func TestLazyChildLeavesTheTaskAlone(t *testing.T) {
	p := runLazy(t, "13", "forks_bound")
	p.wantEvents("begin grow free gone")
}

// A process may end while one of its threads waits for a device.
func TestLazyExitsWhileWaiting(t *testing.T) {
	p := startLazy(t, "13", "exit_while_waiting")
	p.hear("started")
	p.r.next(t, "begin")
	p.goOn()
	p.finish(func(*testing.T, event) {})
	p.mustSucceed()
}

// A thread frees the last object while another gives work to the device: the work is done where the
// thread waits for it. The task goes on while the call is under way. A call that has returned may
// be waited for, and the task then ends.
func TestLazyKeepsTheTaskOfACallUnderWay(t *testing.T) {
	for way, tasks := range map[string]int{"launch": 1, "callback": 1, "host_function": 1, "set": 1, "after_wait": 2,
		"after_wait_recorded": 1} {
		for _, version := range cudaVersions {
			t.Run(way+"/"+version, func(t *testing.T) {
				p := startLazy(t, version, "in_flight "+way).finish(grantByTurns())
				p.mustSucceed()
				p.wantNative()
				p.wantNothingLeft()
				if begins, frees := len(p.of("begin")), len(p.of("free")); begins != tasks || frees != tasks {
					t.Errorf("%d tasks began, %d ended, want %d: %v", begins, frees, tasks, p.events)
				}
			})
		}
	}
}

// The next wait for the device ends a task that nothing was left of while a call was under way.
func TestLazyEndsTheTaskOfACallUnderWayLater(t *testing.T) {
	p := startLazy(t, "13", "over_later")
	grant(t, p.r.next(t, "begin"))
	p.hear("done 1")
	p.hear("over")
	p.goOn()
	p.r.next(t, "free")
	p.hear("rested")
	p.goOn()
	p.finish(grant)
	p.mustSucceed()
}
