package engine_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// memoryHard has the schedulers that admit a task only if its memory is free.
var memoryHard = []string{"case-alg2", "case-alg3", "schedgpu"}

// contextual is enginetest.Small with contexts of 2 bytes. Jobs 1 and 2 have each had a task
// there and still run.
func contextual(t *testing.T, scheduler string) enginetest.Node {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, scheduler, d)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 1}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 1}, "2@0")
	n.Release(1, "")
	n.Release(2, "")
	return n
}

func TestProcessesThatNeedEachOthersContexts(t *testing.T) {
	for _, scheduler := range memoryHard {
		n := contextual(t, scheduler)
		n.Submit(schedulers.Task{ID: 9, Job: 9}, "9@0")
		n.Release(9, "")
		n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 13}, "") // 10 are free, and 12 without job 9
		n.Submit(schedulers.Task{ID: 4, Job: 2, Bytes: 14}, "")
		n.Submit(schedulers.Task{ID: 5, Job: 5, Bytes: 13}, "") // has no context to give back
		ds := n.Engine.JobExit(9)
		n.Want("exit of job 9", "!4", ds, nil)
		if r := ds[0].Reason; r.Cause != schedulers.DeviceFull || r.NeedBytes != 16 || r.CapacityBytes != 16 || len(r.Why) > 119 {
			t.Errorf("%s: refusal %+v", scheduler, r)
		}
		n.Exit(2, "3@0")
		n.Release(3, "")
		n.Exit(1, "5@0")
	}
}

func TestTheLastRequestMayBeTheOneRefused(t *testing.T) {
	n := contextual(t, "case-alg3")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 13}, "")
	n.Submit(schedulers.Task{ID: 4, Job: 2, Bytes: 14}, "!4")
}

func TestATaskPassesOneThatWaitsForItsContext(t *testing.T) {
	n := contextual(t, "case-alg3:queue=fifo")
	n.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 13}, "") // the head
	n.Submit(schedulers.Task{ID: 4, Job: 1, Bytes: 2}, "")  // job 2 may still exit
	n.Submit(schedulers.Task{ID: 5, Job: 2, Bytes: 3}, "4@0")
	n.Release(4, "")
	n.Exit(1, "5@0") // the head still does not fit
	n.Release(5, "")
	n.Exit(2, "3@0")
}

// A job that waits to grow on another device may go on, so that the first device is not in deadlock.
func TestADeviceIsNotInDeadlockWhileAJobThereWaitsElsewhere(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 4, OnDevice: new(0)}, "1@0")
	n.Release(1, "") // its context stays
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 8, OnDevice: new(1)}, "2@1")
	n.Submit(schedulers.Task{ID: 3, Bytes: 8, OnDevice: new(1)}, "3@1")
	n.Submit(schedulers.Task{ID: 4, Bytes: 8, OnDevice: new(0)}, "4@0")
	n.Submit(schedulers.Task{ID: 5, Bytes: 8, OnDevice: new(0)}, "5@0")
	n.Grow(2, 2, "")
	n.Grow(4, 2, "")
	n.Grow(5, 2, "") // task 3 may end
	n.Release(3, "+2@1")
	n.Exit(1, "-5@0")
}
