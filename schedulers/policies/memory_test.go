package policies_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

var memoryHard = []string{"case-alg2", "case-alg3", "schedgpu"}

func TestRoomIsLeftForGrowth(t *testing.T) {
	for _, scheduler := range memoryHard {
		n := enginetest.NewNode(t, scheduler+":queue=mmu,room=0.25", enginetest.Small) // 4 of 16
		n.Submit(schedulers.Task{ID: 1, Bytes: 14}, "1@0")                             // an idle device
		n.Finish(1, "")
		n.Submit(schedulers.Task{ID: 2, Bytes: 4}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Bytes: 9}, "")
		n.Submit(schedulers.Task{ID: 4, Bytes: 8}, "4@0")
		n.Submit(schedulers.Task{ID: 5}, "5@0")
		n.Submit(schedulers.Task{ID: 6, Bytes: 1}, "")
		n.Grow(2, 3, "+2@0")                                   // what it was left for
		n.Submit(schedulers.Task{ID: 7, Job: 2, Bytes: 1}, "") // there are others here still
		n.Finish(4, "6@0 7@0")
		n.Finish(5, "")
		n.Finish(6, "")
		n.Submit(schedulers.Task{ID: 8, Job: 2, Bytes: 8}, "8@0") // alone, a job may have all
	}
}

func TestManagedMemoryMustFit(t *testing.T) {
	for _, scheduler := range memoryHard {
		n := enginetest.NewNode(t, scheduler, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 17, Managed: true}, "!1")
		n.Submit(schedulers.Task{ID: 2, Bytes: 8, Managed: true}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Bytes: 9, Managed: true}, "")
	}
}

func TestManagedMemoryMayExceedADeviceOfItsOwn(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	for _, scheduler := range memoryHard {
		n := enginetest.NewNode(t, scheduler+":managed=exceed,queue=mmu", d)
		used := func(want int64) {
			t.Helper()
			if got := n.Device(0).UsedBytes(); got != want {
				t.Fatalf("%s: %d bytes in use, want %d", scheduler, got, want)
			}
		}
		n.Submit(schedulers.Task{ID: 1, Bytes: 14, Managed: true}, "1@0") // fits: like any other
		n.Submit(schedulers.Task{ID: 2, Bytes: 15}, "!2")
		n.Submit(schedulers.Task{ID: 3, Bytes: 40, Managed: true, Blocks: 1, ThreadsPerBlock: 32}, "")
		n.Submit(schedulers.Task{ID: 4, Bytes: 40, Managed: true}, "")
		n.Release(1, "3@0") // beside the context of job 1
		used(16)
		n.Grow(3, 100, "+3@0") // the driver makes room
		n.Shape(3, 2, 32, 0, "")
		used(16)
		ds, err := n.Engine.Shrink(3, 30)
		n.Want("shrink", "", ds, err) // it has no less of the device
		used(16)
		n.Submit(schedulers.Task{ID: 5, Job: 3}, "") // not even its own job's
		n.Exit(1, "")
		used(14)
		n.Submit(schedulers.Task{ID: 6}, "")
		n.Release(3, "4@0")
		n.Finish(4, "5@0 6@0")
		n.Finish(3, "")
		n.Finish(6, "")
		used(0)
		n.WantFreeBlocks(0, 4, 4)
	}
}
