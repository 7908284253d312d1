package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// short is how long programs here wait for memory that they were granted: 20 times 1 ms.
const short = "CASE_ROOM_GRACE_MS=20"

// changes are what the task gave back and asked for, in MiB.
func (p *lazyRun) changes() (all []string) {
	for _, e := range p.events {
		if e.Kind == "shrink" || e.Kind == "grow" {
			all = append(all, fmt.Sprintf("%s %d", e.Kind, e.Bytes>>20))
		}
	}
	return all
}

// While the driver has no memory for what was granted, the task gives it back and asks for it again. The program sees nothing of it.
func TestLazyWaitsForWhatWasGranted(t *testing.T) {
	for _, c := range []struct{ version, env, fail, want string }{
		{"13", "CASE_MOVABLE=0", "cudaMalloc:1=2,cudaMalloc:2=2", "grow 64, shrink 64, grow 64, shrink 64, grow 64, grow 16, grow 2"},
		{"11", "CASE_MOVABLE=0", "cudaMalloc:1=2", "grow 64, shrink 64, grow 64, grow 16, grow 2"},
		{"13", "CASE_PIN=1", "cudaMalloc:2=2", "grow 64, shrink 64, grow 64, grow 16, grow 2"},
		{"13", "CASE_FOOTPRINT=1073741824,100,64", "cudaMalloc:1=2", "shrink 64, grow 64"},
		{"13", movable, "cuMemCreate:3=2", "grow 64, shrink 64, grow 64, grow 16, grow 2"},
	} {
		p := runLazy(t, c.version, "grow", short, c.env, "FAKE_CUDA_FAIL="+c.fail)
		p.wantNothingLeft()
		if c.env != "CASE_PIN=1" {
			p.wantLine("more 0 last 0 then 0")
			p.wantLine("again 0")
		}
		if got := strings.Join(p.changes(), ", "); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.env, c.fail, got, c.want)
		}
	}
}

// A program that calls the driver waits in the driver's call.
func TestLazyWaitsInTheDriverForWhatWasGranted(t *testing.T) {
	for _, env := range []string{"CASE_MOVABLE=0", movable} {
		p := startDriver(t, "in_turn", env, short, "FAKE_CUDA_FAIL=cuMemAlloc_v2:1=2,cuMemCreate:2=2").finish(grant)
		p.mustSucceed()
		if got := strings.Join(p.lines, ", "); got != "allocate 0, create 0, allocate 0, create 0" {
			t.Errorf("%s: output %q", env, got)
		}
		if got, want := strings.Join(p.changes(), ", "), "grow 20, shrink 20, grow 20, grow 40, grow 20, grow 40, shrink 40, grow 40"; got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
		if len(p.of("oom")) != 0 {
			t.Errorf("%s: events %v", env, p.events)
		}
	}
}

// Memory that stays away is missing in the end.
func TestLazyWaitsNoLongerThanItMay(t *testing.T) {
	for _, c := range []struct {
		env, call string
		first     int
	}{{"CASE_MOVABLE=0", "cudaMalloc", 1}, {movable, "cuMemCreate", 3}} {
		var fail []string
		for n := range 21 {
			fail = append(fail, fmt.Sprintf("%s:%d=2", c.call, c.first+n))
		}
		p := runLazy(t, "13", "grow", short, c.env, "FAKE_CUDA_FAIL="+strings.Join(fail, ","))
		p.wantLine("more 2 last 2 then 0")
		p.wantLine("again 0")
		want := append([]string{"grow 64"}, slices.Repeat([]string{"shrink 64", "grow 64"}, 20)...) // which is granted still
		if got := p.changes(); !slices.Equal(got, want) {
			t.Errorf("%s: %v", c.env, got)
		}
		if oom := p.of("oom"); len(oom) != 1 || strings.Contains(oom[0].Text, "refused") {
			t.Errorf("%s: reports %v", c.env, oom)
		}
	}
	p := startDriver(t, "in_turn", short, "FAKE_CUDA_FAIL=cuMemAlloc_v2:1+=2").finish(grant)
	p.mustSucceed()
	if got := strings.Join(p.lines, ", "); got != "allocate 2, create 0, allocate 2, create 0" || len(p.of("oom")) != 2 {
		t.Errorf("output %q, events %v", got, p.events)
	}
	p = runLazy(t, "13", "grow", short, "CASE_BINDING=job", "FAKE_CUDA_FAIL=cudaMalloc:2=2")
	p.wantLine("more 2 last 2 then 0")
}

// Then the scheduler refuses, or the wait ends: the program gets that, and what it had given back is not charged.
func TestLazyIsRefusedWhatItGaveBack(t *testing.T) {
	for _, c := range []struct {
		code schedulers.Cause
		want string
		ooms int
	}{{schedulers.DeviceFull, "more 2 last 2 then 0", 1}, {schedulers.TimedOut, "more 600 last 600 then 0", 0}} {
		for _, env := range []string{"CASE_MOVABLE=0", movable} {
			grown := 0
			p := startLazy(t, "13", "grow", short, env, "FAKE_CUDA_FAIL=cudaMalloc:1=2,cuMemCreate:3=2").finish(func(t *testing.T, e event) {
				if e.Kind == "grow" {
					grown++
				}
				if e.Kind != "grow" || grown != 2 {
					grant(t, e)
				} else if err := e.refuse(c.code, e.Bytes, 0, "device 1 is full"); err != nil {
					t.Error(err)
				}
			})
			p.mustSucceed()
			p.wantLine(c.want)
			p.wantLine("again 0")
			if oom := p.of("oom"); len(oom) != c.ooms || c.ooms > 0 && oom[0].Text != "cudaMalloc, which the scheduler refused" {
				t.Errorf("%v: events %v", c.code, p.events)
			}
			if got, want := strings.Join(p.changes(), ", "), "grow 64, shrink 64, grow 64, grow 16, grow 2"; got != want {
				t.Errorf("%v: %s, want %s", c.code, got, want)
			}
			p.wantUse()
		}
	}
}

// A task whose memory is not there when it is bound begins anew, and a context is made once there is room.
func TestLazyBindsOnceThereIsRoom(t *testing.T) {
	for fail, want := range map[string]string{
		"cuMemCreate:2=2,cuMemCreate:4=2":                           "begin free begin free begin free gone",
		"cuDevicePrimaryCtxRetain:1=2,cuDevicePrimaryCtxRetain:2=2": "begin free gone",
	} {
		p := runLazy(t, "13", "basic", short, "FAKE_CUDA_FAIL="+fail)
		p.wantNative()
		p.wantNothingLeft()
		p.wantEvents(want)
	}
	p := runLazy(t, "13", "basic", short, "FAKE_CUDA_FAIL=cuMemCreate:2+=2")
	if begins, ooms := len(p.of("begin")), len(p.of("oom")); begins != 21*ooms || ooms == 0 {
		t.Errorf("%d tasks, %d reports", begins, ooms)
	}
	p = startStatic(t, "static", short, "FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain:1=2").finish(grant)
	p.mustSucceed()
	if len(p.of("oom")) != 0 {
		t.Errorf("events %v", p.events)
	}
}

// A pool is charged for what it has, whatever becomes of an allocation.
func TestLazyWaitsForWhatAPoolWasGranted(t *testing.T) {
	for _, c := range []struct {
		refused int // this growth
		want    string
	}{{0, "grow 20, shrink 20, grow 20, grow 4, grow 6, shrink 18, grow 18"}, {2, "grow 20, shrink 20, grow 20, grow 4, grow 20, grow 6"}} {
		grown := 0
		p := startDriver(t, "pools", short, "FAKE_CUDA_FAIL=cuMemAllocAsync:1=2,cuMemAllocAsync:4=2").finish(func(t *testing.T, e event) {
			if e.Kind == "grow" {
				grown++
			}
			if e.Kind != "grow" || grown != c.refused {
				grant(t, e)
			} else if err := e.refuse(schedulers.DeviceFull, e.Bytes, 0, "device 1 is full"); err != nil {
				t.Error(err)
			}
		})
		p.mustSucceed()
		p.wantLine("none 0 MiB violations 0")
		if got := strings.Join(p.changes(), ", "); got != c.want {
			t.Errorf("%d refused: %s, want %s", c.refused, got, c.want)
		}
		if ooms := len(p.of("oom")); ooms != min(c.refused, 1) {
			t.Errorf("%d refused: %d reports", c.refused, ooms)
		}
		p.wantUse()
	}
}

// A launch, a graph or a module that CUDA has no memory for is tried again with memory that the scheduler grants for as long, each
// time for twice as much. The program sees nothing of it. A call that does not fail asks for nothing.
func TestLazyWaitsForMemoryThatNoCallShows(t *testing.T) {
	launch := map[string]string{"11": "cudaLaunchKernel", "13": "__cudaLaunchKernel"}
	for _, version := range cudaVersions {
		p := runLazy(t, version, "unseen", short, "CASE_MOVABLE=0", "FAKE_CUDA_FAIL="+strings.Join([]string{
			launch[version] + ":2=2", launch[version] + ":3=2", "cudaGraphInstantiate:1=2", "cudaGraphInstantiateWithParams:1=2",
			"cudaGraphLaunch:1=2", "cuModuleLoadData:1=2", "cuLaunchKernel:1=2"}, ","))
		p.mustSucceed()
		want := []string{"launch 0 last 0", "instantiate 0 last 0", "with parameters 0 last 0", "graph 0 last 0", "module 0", "driver 0", "value 4"}
		for _, line := range want {
			p.wantLine(line)
		}
		const once = ", grow 2, shrink 2"
		if got, want := strings.Join(p.changes(), ", "), "grow 2, shrink 2, grow 4, shrink 4"+strings.Repeat(once, 5); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
		if len(p.of("oom")) != 0 {
			t.Errorf("%s: events %v", version, p.events)
		}
	}
	p := runLazy(t, "13", "unseen", short, movable, "FAKE_CUDA_FAIL=__cudaLaunchKernel:1=2,__cudaLaunchKernel:3=2,cuModuleLoadData:1=2")
	p.mustSucceed()
	p.wantLine("value 4")
	if len(p.of("oom")) != 0 || len(p.of("grow")) == 0 {
		t.Errorf("memory that moves: events %v", p.events)
	}
	p = runLazy(t, "13", "unseen", short, "CASE_MOVABLE=0")
	p.mustSucceed()
	if got := p.changes(); len(got) != 0 {
		t.Errorf("without failures: %v", got)
	}
}

// Memory that stays away is missing in the end. So it is at once for a launch that is captured, because the error may have ended the
// capture, and for a process that has no task.
func TestLazyWaitsNoLongerForMemoryThatNoCallShows(t *testing.T) {
	for _, c := range []struct {
		program, env string
		first, grows int
		want         string
	}{
		{"unseen", "CASE_MOVABLE=0", 2, 21, "launch 2 last 2"},
		{"captures_unseen", "CASE_MOVABLE=0", 2, 0, "captured 2 last 2"},
		{"unseen", "CASE_BINDING=job", 2, 0, "launch 2 last 2"},
	} {
		var fail []string
		for n := range 21 + 1 {
			fail = append(fail, fmt.Sprintf("__cudaLaunchKernel:%d=2", c.first+n))
		}
		p := runLazy(t, "13", c.program, short, c.env, "FAKE_CUDA_FAIL="+strings.Join(fail, ","))
		p.wantLine(c.want)
		if got := len(p.of("grow")); got != c.grows {
			t.Errorf("%s, %s: %d growths, want %d: %v", c.program, c.env, got, c.grows, p.changes())
		}
	}
}

// What the scheduler refuses is said as such, and the launch has failed for memory.
func TestLazyIsRefusedMemoryThatNoCallShows(t *testing.T) {
	p := startLazy(t, "13", "unseen", short, "CASE_MOVABLE=0", "FAKE_CUDA_FAIL=__cudaLaunchKernel:2=2").finish(func(t *testing.T, e event) {
		if e.Kind != "grow" {
			grant(t, e)
		} else if err := e.refuse(schedulers.DeviceFull, e.Bytes, 0, "device 1 is full"); err != nil {
			t.Error(err)
		}
	})
	p.wantLine("launch 2 last 2")
	if oom := p.of("oom"); len(oom) != 1 || oom[0].Text != "__cudaLaunchKernel, which the scheduler refused" {
		t.Errorf("events %v", p.events)
	}
}
