package lazytest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// The local memory of kernels and the stack are the task's memory: bytes of a thread beyond the default of 1 KiB, times the
// 270,336 threads that the fake device can have at once. They stay with the context until the process ends, and so does the task.
func TestLazyChargesLocalMemory(t *testing.T) {
	const heap, of2k, of4k = 8, 264, 792 // MiB
	for way, want := range map[string]struct {
		events string
		heap   int64
		grows  []int64 // MiB
		says   string
	}{
		"first":           {"begin gone", heap + of4k, nil, "deep: used 804 MiB"},
		"silent":          {"begin grow gone", heap, []int64{of4k}, "silent: used 804 MiB"},
		"grows":           {"begin grow grow gone", heap, []int64{of2k, of4k - of2k}, "deep: used 804 MiB"},
		"node":            {"begin grow gone", heap, []int64{of4k}, "instance: used 804 MiB"},
		"captured":        {"begin grow gone", heap, []int64{of4k}, "instance: used 804 MiB"},
		"driver":          {"begin grow gone", heap, []int64{of4k}, "add_4k: used 804 MiB"},
		"stack":           {"begin gone", heap + of4k, nil, "shallow: used 804 MiB"},
		"small_stack":     {"begin grow gone", heap, []int64{of4k}, "deep: used 804 MiB"},
		"stack_later":     {"begin grow gone", heap, []int64{of2k}, "deep: used 276 MiB"},
		"stack_of_driver": {"begin grow gone", heap, []int64{of2k}, "deep: used 276 MiB"},
	} {
		for _, version := range cudaVersions {
			t.Run(way+" "+version, func(t *testing.T) {
				t.Parallel()
				p := runLazy(t, version, "deep "+way)
				p.mustSucceed()
				p.wantEvents(want.events)
				p.wantLine(want.says)
				var grows []int64
				for _, e := range p.of("grow") {
					grows = append(grows, e.Bytes>>20)
				}
				if got := p.of("begin")[0].heap() >> 20; got != want.heap || !slices.Equal(grows, want.grows) {
					t.Errorf("asked for %d MiB for the context, and grew by %d: want %d and %d", got, grows, want.heap, want.grows)
				}
			})
		}
	}
}

// A process without such kernels asks for nothing more.
func TestLazyAsksForNoLocalMemoryOfShallowKernels(t *testing.T) {
	p := runLazy(t, "13", "deep shallow")
	p.wantEvents("begin free begin free gone")
	for _, e := range p.of("begin") {
		if e.heap() != 8<<20 {
			t.Errorf("asked for %d bytes for the context", e.heap())
		}
	}
}

// A launch whose local memory the scheduler refuses fails as if the device had too little memory, and is reported. The
// scheduler is not asked again, and a kernel that needs less is launched.
func TestLazyRefusesALaunchWithoutLocalMemory(t *testing.T) {
	p := startLazy(t, "13", "deep refused").finish(func(t *testing.T, e event) {
		if e.Kind != "grow" || e.Bytes < 792<<20 {
			grant(t, e)
			return
		}
		if err := e.refuse(schedulers.DeviceFull, e.Bytes, 0, "device 1 is full"); err != nil {
			t.Error(err)
		}
	})
	p.mustSucceed()
	p.wantEvents("begin grow oom oom oom grow gone")
	p.wantLine("deeper 2, then 2")
	p.wantLine("deep: used 276 MiB")
}

// A first launch that is refused as a whole leaves nothing of its kernel in the next request.
func TestLazyForgetsTheLocalMemoryOfARefusedLaunch(t *testing.T) {
	refused := false
	p := startLazy(t, "13", "deep first").finish(func(t *testing.T, e event) {
		if e.Kind != "begin" || refused {
			grant(t, e)
			return
		}
		refused = true
		if err := e.refuse(schedulers.DeviceFull, e.Asks().Bytes, 0, "device 1 is full"); err != nil {
			t.Error(err)
		}
	})
	var asked []string
	for _, e := range p.of("begin") {
		asked = append(asked, fmt.Sprint(e.heap()>>20))
	}
	if want := []string{"800", "8", "8"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q MiB for the context, want %q", asked, want)
	}
}

// In a process that chooses its devices each device has a pool of its own.
func TestLazyChargesLocalMemoryOfEachDevice(t *testing.T) {
	p := runLazy(t, "13", "deep first", "CASE_PIN=1")
	p.mustSucceed()
	p.wantEvents("begin grow gone")
	if got := p.of("grow")[0].Bytes >> 20; got != 792 {
		t.Errorf("grew by %d MiB", got)
	}
}
