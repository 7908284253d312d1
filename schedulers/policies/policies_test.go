package policies_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

func TestSingleAssignmentIsFIFOOverWholeDevices(t *testing.T) {
	n := enginetest.NewNode(t, "sa", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 1}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 99}, "2@1") // more than there is: the driver's business
	n.Submit(schedulers.Task{ID: 3, Bytes: 9}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "")
	n.Finish(2, "3@1")
	n.Finish(3, "4@1")
	n.Submit(schedulers.Task{ID: 5}, "")
	n.Release(4, "") // the process lives on, and the device is its own for its lifetime
	n.Finish(4, "5@1")
}

func TestCoreToGPUSpreadsItsWorkersRoundRobin(t *testing.T) {
	n := enginetest.NewNode(t, "cg:workers=5", enginetest.Small, enginetest.Small, enginetest.Small, enginetest.Small) // a share of two each, five in all
	n.Submit(schedulers.Task{ID: 1, Bytes: 99}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 99}, "2@1")
	n.Submit(schedulers.Task{ID: 3}, "3@2")
	n.Submit(schedulers.Task{ID: 4}, "4@3")
	n.Submit(schedulers.Task{ID: 5}, "5@0")
	n.Submit(schedulers.Task{ID: 6}, "")
	n.Submit(schedulers.Task{ID: 7}, "")
	n.Submit(schedulers.Task{ID: 8}, "")
	n.Finish(3, "6@1") // goes on from the latest grant, not to the freed device
	n.Finish(4, "7@2")
	n.Finish(5, "8@3")
	n.Finish(8, "")
	n.Submit(schedulers.Task{ID: 9}, "9@0")
	n.Submit(schedulers.Task{ID: 10}, "")
	n.Finish(7, "10@2") // device 1 has its share already
}

func TestCoreToGPUDefaultsToTwoJobsPerDevice(t *testing.T) {
	n := enginetest.NewNode(t, "cg", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1}, "1@0")
	n.Submit(schedulers.Task{ID: 2}, "2@0")
	n.Submit(schedulers.Task{ID: 3}, "")
}

func TestZeroGrantsAtOnceRoundRobin(t *testing.T) {
	n := enginetest.NewNode(t, "zero", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 99, Blocks: 1 << 40, ThreadsPerBlock: 1024}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 99}, "2@1")
	n.Submit(schedulers.Task{ID: 3, Bytes: 99}, "3@0")
}

func TestSchedGPUUsesOneDeviceByMemoryAlone(t *testing.T) {
	n := enginetest.NewNode(t, "schedgpu:device=1", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 8, Blocks: 1 << 40, ThreadsPerBlock: 1024}, "1@1")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8, Blocks: 1 << 40, ThreadsPerBlock: 1024}, "2@1")
	n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "")
	n.Finish(1, "3@1")
}

func TestAlg2PlacesBlocksFromAPersistentCursor(t *testing.T) {
	d := enginetest.Small
	d.SMs = 3
	n := enginetest.NewNode(t, "case-alg2", d)
	n.Submit(schedulers.Task{ID: 1, Blocks: 4, ThreadsPerBlock: 32}, "1@0")
	n.WantFreeBlocks(0, 2, 3, 3) // SMs 0, 1, 2, 0
	n.Submit(schedulers.Task{ID: 2, Blocks: 1, ThreadsPerBlock: 32}, "2@0")
	n.WantFreeBlocks(0, 2, 2, 3) // SM 1, where the first task stopped
	n.Finish(1, "")
	n.Submit(schedulers.Task{ID: 3, Blocks: 2, ThreadsPerBlock: 32}, "3@0")
	n.WantFreeBlocks(0, 3, 3, 3) // SMs 2 and 0: a release does not move the cursor
}

func TestAlg2SkipsFullSMs(t *testing.T) {
	// Blocks of 5 warps: one fits an SM of 8. The 3 warps left on each take
	// three blocks of one warp.
	n := enginetest.NewNode(t, "case-alg2", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Blocks: 1, ThreadsPerBlock: 160}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Blocks: 2, ThreadsPerBlock: 160}, "") // the other SM has room for one
	n.Submit(schedulers.Task{ID: 3, Blocks: 7, ThreadsPerBlock: 32}, "3@0")
	n.WantFreeBlocks(0, 0, 0)
	if a, b := n.Device(0).SM(0), n.Device(0).SM(1); a.FreeSlots != 0 || b.FreeSlots != 4*schedulers.SlotsPerWarp {
		t.Fatalf("free SM slots %+v and %+v, want 0 and 4 warps", a, b)
	}
}

func TestAlg2PutsNoBlockOnAnSMThatIsFull(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg2", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Blocks: 1, ThreadsPerBlock: 160}, "1@0") // leaves 3 and 8 warps
	n.Submit(schedulers.Task{ID: 2, Blocks: 4, ThreadsPerBlock: 64}, "2@0")  // rooms for 1 and 4
	n.WantFreeBlocks(0, 2, 1)
	n.Finish(1, "")
	n.Finish(2, "")
	n.WantFreeBlocks(0, 4, 4)
}

func TestAlg2AdmitsAnOversizedTaskAlone(t *testing.T) {
	big := schedulers.Task{ID: 2, Blocks: 9, ThreadsPerBlock: 32} // 8 blocks fit the empty device
	n := enginetest.NewNode(t, "case-alg2:queue=mmu", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Blocks: 1, ThreadsPerBlock: 32}, "1@0")
	n.Submit(big, "")
	n.Finish(1, "2@0")
	if !n.Device(0).Saturated() {
		t.Fatal("an oversized task does not saturate its device")
	}
	n.Submit(schedulers.Task{ID: 3}, "")
	n.Submit(schedulers.Task{ID: 4, Blocks: 99, ThreadsPerBlock: 32}, "")
	n.Finish(2, "3@0")
	if n.Device(0).Saturated() {
		t.Fatal("the device stays saturated after the release")
	}
	n.Finish(3, "4@0")
	n.Finish(4, "")
	// A block with more warps than an SM has is oversized, however few there are.
	n.Submit(schedulers.Task{ID: 5, Blocks: 1, ThreadsPerBlock: 288}, "5@0")
	n.Submit(schedulers.Task{ID: 6, Bytes: 1}, "")
}

func TestAlg3TakesTheDeviceWithFewestWarpsInUse(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.V100, enginetest.V100, enginetest.V100)
	n.Submit(schedulers.Task{ID: 1, Blocks: 100, ThreadsPerBlock: 64, Bytes: 1}, "1@0")     // 200 warps
	n.Submit(schedulers.Task{ID: 2, Blocks: 1 << 20, ThreadsPerBlock: 32, Bytes: 1}, "2@1") // uncapped: 2^20
	n.Submit(schedulers.Task{ID: 3, Blocks: 1 << 21, ThreadsPerBlock: 32, Bytes: 15}, "3@2")
	n.Submit(schedulers.Task{ID: 4, Blocks: 1 << 20, ThreadsPerBlock: 32, Bytes: 1}, "4@0")
	// Device 1 has 2^20 warps, 0 has 200 more. Capped to what a device holds,
	// all would look alike and 0 would be taken.
	n.Submit(schedulers.Task{ID: 5, Blocks: 1, ThreadsPerBlock: 32, Bytes: 1}, "5@1")
	n.Submit(schedulers.Task{ID: 6, Bytes: 14}, "6@1") // 14 bytes are free on 0 and on 1
	n.Submit(schedulers.Task{ID: 7, Bytes: 14}, "7@0")
	n.Submit(schedulers.Task{ID: 8, Bytes: 2}, "") // memory is hard
}

func TestAlg3TiesGoByDeviceOrder(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.V100, enginetest.V100)
	n.Submit(schedulers.Task{ID: 1, Blocks: 2, ThreadsPerBlock: 32}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Blocks: 1, ThreadsPerBlock: 64}, "2@1")
	n.Submit(schedulers.Task{ID: 3, Blocks: 1, ThreadsPerBlock: 32}, "3@0")
}

func TestIsolatedJobsShareWithNobody(t *testing.T) {
	for _, scheduler := range []string{"cg", "schedgpu", "case-alg2", "case-alg3", "zero"} {
		t.Run(scheduler, func(t *testing.T) {
			n := enginetest.NewNode(t, scheduler, enginetest.Small)
			n.Submit(schedulers.Task{ID: 1, Job: 1, Isolate: true}, "1@0")
			n.Submit(schedulers.Task{ID: 2, Job: 2}, "")
			n.Release(1, "") // its process is still there
			n.Exit(1, "2@0")
			n.Submit(schedulers.Task{ID: 3, Job: 3, Isolate: true}, "")
			n.Exit(2, "3@0")
			n.Exit(3, "")
			n.Submit(schedulers.Task{ID: 4, Job: 4}, "4@0") // the device is shared again
			n.Submit(schedulers.Task{ID: 5, Job: 5}, "5@0")
		})
	}
}
