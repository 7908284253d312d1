package lazytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// Programs of native/lazy/tests/programs/ends.cc: what outlives a task, and its end.

// What a task has left can be looked at and destroyed without another task, for which
// the program would wait behind others, and which could be refused.
func TestLazyCleansUpWithoutATask(t *testing.T) {
	for _, way := range []string{"clocks", "late_clocks", "host", "graphs", "textures", "memory", "reset"} {
		for _, version := range cudaVersions {
			runLazy(t, version, "after "+way).wantNative().wantEvents("begin free gone")
		}
	}
}

// Between tasks with page-locked memory nothing asks for one either.
func TestLazyTakesATaskForEachRound(t *testing.T) {
	for _, way := range []string{"stream", "copy"} {
		p := runLazy(t, "13", "waits "+way)
		if begins := p.of("begin"); len(begins) != 2 || begins[1].Asks().Blocks == 0 {
			t.Errorf("%s: events %v", way, p.events)
		}
	}
}

// What is set in a context holds the process on its device; a preference does not.
func TestLazyKeepsSettings(t *testing.T) {
	for way, stays := range map[string]bool{"attribute": true, "large_attribute": true, "limit": true, "preference": false} {
		for _, version := range cudaVersions {
			p := startLazy(t, version, "set "+way).finish(grantInTurn(1, 0))
			p.mustSucceed()
			p.wantNothingLeft()
			if got, want := p.lines, native(t, version, "set "+way); !slices.Equal(got, want) {
				t.Errorf("%s, CUDA %s: output %q, want %q", way, version, got, want)
			}
			for i, e := range p.of("begin") {
				if asks := e.Asks().OnDevice != nil; i > 0 && asks != stays {
					t.Errorf("%s, CUDA %s: request %d %+v", way, version, i, e.Asks())
				}
			}
		}
	}
}

// The reset of a device waits for what it does, and a fault of that is reported.
func TestLazyResetsAnIdleDevice(t *testing.T) {
	for mode, env := range map[string]string{"task": "CASE_PIN=0", "pinned": "CASE_PIN=1", "passive": "CASE_BINDING=job"} {
		for _, version := range cudaVersions {
			p := runLazy(t, version, "reset_after work", env)
			p.wantLine("ran 1")
			p.wantNothingLeft()
			p = runLazy(t, version, "reset_after fault", env)
			p.wantNative()
			if faults := p.of("fault"); len(faults) != 1 || faults[0].Posted.(runner.Fault).Code != 700 || faults[0].Text != "cudaDeviceReset" {
				t.Errorf("%s, CUDA %s: events %v", mode, version, p.events)
			}
		}
	}
}

// Host memory that one task page-locked is on the program's device 0 for the next task on another device, and a
// reset ends it on every device.
func TestLazyResetsFormerDevices(t *testing.T) {
	for _, version := range cudaVersions {
		for _, arm := range []string{"CASE_MOVABLE=0", movable} {
			p := startLazy(t, version, "page_locked_beside", arm).finish(grantByTurns())
			p.wantNative()
			p.wantNothingLeft()
			p.wantEvents(map[string]string{
				"CASE_MOVABLE=0": "begin grow free begin grow free begin grow free gone",
				movable:          "begin free begin free begin free gone",
			}[arm])
		}
	}
}

// A task ends when all its kernels have, whatever their stream.
func TestLazyEndsWhenTheDeviceIsIdle(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "ordered_frees")
		p.wantLine("ran 1")
		p.wantEvents("begin grow free gone")
	}
}

// A free in the order of a stream does not wait, because another stream may wait for the thread that frees. The task ends
// with a later wait.
func TestLazyFreesBehindTheHost(t *testing.T) {
	for _, arm := range []string{"CASE_MOVABLE=0", movable} {
		for _, version := range cudaVersions {
			p := runLazy(t, version, "frees_behind_the_host", arm, "FAKE_CUDA_KERNEL_US=30")
			p.wantNative()
			p.wantNothingLeft()
			if begins, frees := len(p.of("begin")), len(p.of("free")); begins != 1 || frees != 1 {
				t.Errorf("CUDA %s, %s: events %v", version, arm, p.events)
			}
		}
	}
}

// Also that of a pinned program which has gone on to another device.
func TestLazyEndsADeviceThatTheProgramHasLeft(t *testing.T) {
	p := runLazy(t, "13", "frees_from_afar", "CASE_PIN=1")
	p.wantLine("ran 1")
	p.wantLine("at 0")
	p.wantEvents("begin free gone")
}

// A task that takes memory in vain goes on: it may have kernels that nobody waited for.
func TestLazyGoesOnWithoutMemory(t *testing.T) {
	for _, fail := range []string{"", "cudaMalloc:1=2"} {
		p := startLazy(t, "13", "late_memory", "FAKE_CUDA_FAIL="+fail).finish(func(t *testing.T, e event) {
			if e.Kind == "grow" && e.Bytes == 64<<20 && fail == "" {
				if err := e.refuse(schedulers.DeviceFull, 64<<20, 32<<20, "device 1 is full"); err != nil {
					t.Error(err)
				}
				return
			}
			grant(t, e)
		})
		p.mustSucceed()
		p.wantLine("first 2")
		p.wantLine("second 0")
		if fail == "" {
			p.wantEvents("begin grow oom grow free gone")
		} else { // the 64 MiB are the task's already
			p.wantEvents("begin grow oom free gone")
		}
	}
}

// The device heap is the task's memory too, from when it is set.
func TestLazyGrowsForTheHeap(t *testing.T) {
	for _, refused := range []bool{false, true} {
		p := startLazy(t, "13", "heap_later").finish(func(t *testing.T, e event) {
			if e.Kind == "grow" && refused {
				if err := e.refuse(schedulers.DeviceFull, e.Bytes, 0, "device 1 is full"); err != nil {
					t.Error(err)
				}
				return
			}
			grant(t, e)
		})
		p.mustSucceed()
		grows := p.of("grow")
		if len(grows) == 0 || grows[0].Bytes != 56<<20 {
			t.Fatalf("refused %v: events %v", refused, p.events)
		}
		for _, begin := range p.of("begin") {
			if begin.heap() != 8<<20 {
				t.Errorf("refused %v: begin %+v", refused, begin.Asks())
			}
		}
		if refused {
			p.wantLine("set 2")
			p.wantLine("heap 8")
			p.wantEvents("begin grow oom grow oom free begin free gone")
		} else { // the context keeps the heap until the end, and so does the task
			p.wantLine("set 0")
			p.wantLine("heap 64")
			p.wantEvents("begin grow gone")
			if strings.Contains(strings.Join(p.lines, "\n"), "error") {
				t.Errorf("output %q", p.lines)
			}
		}
	}
}

// A heap that CUDA refuses is none of the task's.
func TestLazyForgetsARefusedHeap(t *testing.T) {
	p := runLazy(t, "13", "heap_later", "FAKE_CUDA_FAIL=cudaDeviceSetLimit:1=1")
	p.wantLine("set 1")
	p.wantLine("heap 8")
	p.wantEvents("begin grow grow gone")
	if grows := p.of("grow"); len(grows) != 2 || grows[1].Bytes != 8<<20 {
		t.Errorf("grows %v", grows)
	}
}

// What was granted for a heap that CUDA refuses is there for what the program allocates next.
func TestLazyUsesWhatARefusedHeapWasGranted(t *testing.T) {
	p := runLazy(t, "13", "heap_refused", "FAKE_CUDA_FAIL=cudaDeviceSetLimit:1=1")
	p.mustSucceed()
	p.wantLine("set 1")
	p.wantEvents("begin grow free gone")
	if grows := p.of("grow"); len(grows) != 1 || grows[0].Bytes != 56<<20 {
		t.Errorf("grows %v", grows)
	}
}

// A task whose last object is freed while it waits for more ends when that is refused.
func TestLazyEndsAfterARefusalWithNothingLeft(t *testing.T) {
	for _, what := range []string{"memory", "heap", "reserve"} {
		p := startLazy(t, "13", "frees_while_growing "+what)
		grant(t, p.r.next(t, "begin"))
		p.hear("growing")
		growing := p.r.next(t, "grow")
		p.goOn()
		p.hear("freed")
		if err := growing.refuse(schedulers.DeviceFull, growing.Bytes, 0, "device 1 is full"); err != nil {
			t.Error(err)
		}
		p.finish(grant)
		p.mustSucceed()
		p.wantLine("more 2")
		if what == "reserve" { // nothing was allocated, so nothing is out of memory
			p.wantEvents("free gone")
		} else {
			p.wantEvents("free oom gone")
		}
	}
}
