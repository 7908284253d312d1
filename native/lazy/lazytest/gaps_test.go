package lazytest

import (
	"testing"
)

// Programs of native/lazy/tests/programs/gaps.cc: in each gap between two locks of a call, another thread does something.

// inTurn grants each task the device that the task before did not have, unless the task names its device.
func inTurn() func(*testing.T, event) {
	next, homes := 0, map[uint64]int{}
	return func(t *testing.T, e event) {
		if e.Kind == "begin" && e.Asks().OnDevice != nil {
			homes[e.Task] = *e.Asks().OnDevice
		} else if e.Kind == "begin" {
			next = 1 - next
			homes[e.Task] = next
		} else if e.Kind != "grow" {
			return
		}
		if err := e.grant(homes[e.Task], fakeUUID(homes[e.Task])); err != nil {
			t.Error(err)
		}
	}
}

// Wherever in a call the task ends or begins, each task is asked for once and ends, and results stay the same.
func TestLazyTasksEndInEachGap(t *testing.T) {
	tasksEndInEachGap(t, "CASE_MOVABLE=0", "ends", "moves", "binds")
}

// tasksEndInEachGap has the other thread do each of these.
func tasksEndInEachGap(t *testing.T, arm string, others ...string) {
	t.Helper()
	for _, call := range []string{"allocate", "grow", "managed", "array", "ordered", "launch", "synchronize", "stream", "event", "host",
		"reserve", "questions"} {
		for _, other := range others {
			t.Run(call+"/"+other+"/"+arm, func(t *testing.T) {
				t.Parallel()
				p := startLazy(t, "13", "gaps "+call+","+other, arm).finish(inTurn())
				p.mustSucceed()
				p.wantNothingLeft()
				if got := results(p.lines); len(got) != 1 || got[0] != "right 1" {
					t.Errorf("output %q", got)
				}
				if begins, frees := len(p.of("begin")), len(p.of("free")); begins != frees {
					t.Errorf("%d tasks began, %d ended", begins, frees)
				}
			})
		}
	}
}

// A wait for another device than the task's says nothing of the task's kernels.
func TestLazyWaitsForTheDeviceOfTheTask(t *testing.T) {
	p := startLazy(t, "13", "rests_beside", "FAKE_CUDA_KERNEL_US=10000").finish(inTurn())
	p.mustSucceed()
	p.wantNothingLeft()
	p.wantLine("early 0")
}

// Flags are the context's even if another thread makes the context meanwhile.
func TestLazyKeepsFlagsBesideALaunch(t *testing.T) {
	contexts := len(traced(t, "13", "flags_beside", "cudaDeviceReset"))
	if flags := len(traced(t, "13", "flags_beside", "cudaSetDeviceFlags 4")); contexts < 2 || flags < contexts {
		t.Errorf("%d contexts, %d of them with the flags", contexts, flags)
	}
}
