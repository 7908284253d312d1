package lazytest

import (
	"slices"
	"strings"
	"testing"
)

// Programs of native/lazy/tests/programs/handles.cc, and others: streams and events, which are virtual handles in a
// self-contained program.

// Their number has no bound, and one that was destroyed is refused while thousands of others are made.
func TestLazyMakesManyHandles(t *testing.T) {
	for _, version := range cudaVersions {
		runLazy(t, version, "many_handles 12000", movable).wantNative().wantNothingLeft()
	}
}

// What is made when a process that may be moved has a device is a virtual handle too, in structures and in what CUDA tells.
func TestLazyTranslatesHandlesOfABoundProcess(t *testing.T) {
	for n, program := range []string{"launch_events", "launch_list", "graph_nodes", "streams", "callback", "captured", "waits behind",
		"tasks_with_stream", "gone twice", "gone reset", "kinds_of_handles"} {
		p := runLazy(t, cudaVersions[n%2], program, "LAUNCHES_FIRST=1", movable).wantNative()
		for _, line := range p.lines {
			if strings.HasPrefix(line, "after: ") && !strings.HasSuffix(line, " violations 0") {
				t.Errorf("%s: %s", program, line)
			}
		}
	}
}

// Flags and priorities of what is made before the device are CUDA's later.
func TestLazyKeepsFlagsOfHandles(t *testing.T) {
	p := runLazy(t, "13", "kinds_of_handles", movable).wantNative()
	p.wantLine("bound 0: flags 1 0 priorities 0 -3")
	p.wantLine("bound 1: flags 1 0 priorities 0 -3")
}

func TestLazyHasHandlesInThreads(t *testing.T) {
	runLazy(t, "13", "handles_in_threads", movable).wantNative().wantNothingLeft()
}

// A child of fork has the handles of its parent, and makes them on its own device.
func TestLazyHasHandlesInAChild(t *testing.T) {
	p := runLazy(t, "13", "handles_forked")
	p.wantLine("child 0 parent 2")
	if n := len(p.of("begin")); n != 2 {
		t.Errorf("%d tasks, want 2: %v", n, p.events)
	}
}

// Without addresses for handles a program gets CUDA's error, and handles once there are.
func TestLazyHasNoMemoryForHandles(t *testing.T) {
	p := runLazy(t, "13", "handles_without_memory")
	if want := []string{"refused 2 2: 2"}; !slices.Equal(results(p.lines), want) {
		t.Errorf("output %q, want %q", p.lines, want)
	}
}
