package policies_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

func TestTheLargerKernel(t *testing.T) {
	known := schedulers.Task{Blocks: 10, ThreadsPerBlock: 64, BlocksPerSM: 4}
	for _, c := range []struct {
		name           string
		task           schedulers.Task
		blocks         uint64
		threads, perSM uint32
		larger         bool
	}{
		{"more warps", known, 21, 32, 32, true},
		{"fewer warps, more blocks", known, 19, 32, 32, false},
		{"as many warps, less room", known, 20, 32, 3, true},
		{"as many warps, as much room", known, 20, 32, 4, false},
		{"as many warps, room unknown", known, 20, 32, 0, false},
		{"room learned", schedulers.Task{Blocks: 10, ThreadsPerBlock: 64}, 10, 64, 4, true},
		{"any, where the grid was unknown", schedulers.Task{GridUnknown: true}, 1, 0, 0, true},
		{"no grid", schedulers.Task{GridUnknown: true}, 0, 1024, 1, false},
		{"more than warps can count", schedulers.Task{Blocks: 1 << 62, ThreadsPerBlock: 1}, 1 << 63, 1024, 0, false},
	} {
		want := c.task
		if c.larger {
			want.Blocks, want.ThreadsPerBlock, want.BlocksPerSM, want.GridUnknown = c.blocks, c.threads, c.perSM, false
		}
		if got, larger := c.task.WithKernel(c.blocks, c.threads, c.perSM); got != want || larger != c.larger {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.name, got, larger, want, c.larger)
		}
	}
}

func TestAlg3CountsTheLargestKernel(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.V100, enginetest.V100)
	n.Submit(schedulers.Task{ID: 1, GridUnknown: true}, "1@0")
	n.Shape(1, 100, 64, 0, "")
	n.Submit(schedulers.Task{ID: 2, Blocks: 150, ThreadsPerBlock: 32}, "2@1") // 200 warps on 0
	n.Shape(1, 1, 32, 0, "")                                                  // a smaller one changes nothing
	n.Submit(schedulers.Task{ID: 3, Blocks: 60, ThreadsPerBlock: 32}, "3@1")
	n.Shape(1, 1000, 64, 0, "")
	if got := n.Device(0).UsedWarps(); got != 2000 {
		t.Fatalf("%d warps in use on device 0, want 2000", got)
	}
	n.Submit(schedulers.Task{ID: 4, Blocks: 1, ThreadsPerBlock: 32}, "4@1")
	n.Release(1, "")
	if got := n.Device(0).UsedWarps(); got != 0 {
		t.Fatalf("%d warps in use on an empty device", got)
	}
}

func TestAlg2KeepsATaskWithoutAGridAlone(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg2:queue=fifo", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Blocks: 1, ThreadsPerBlock: 32}, "1@0")
	n.Submit(schedulers.Task{ID: 2, GridUnknown: true}, "2@1")
	n.Submit(schedulers.Task{ID: 3, GridUnknown: true}, "")
	n.Submit(schedulers.Task{ID: 4, Blocks: 5, ThreadsPerBlock: 32}, "")
	n.Finish(1, "3@0")
	n.Shape(2, 3, 32, 0, "4@1") // 8 blocks fit: its neighbour may come
	n.WantFreeBlocks(1, 0, 0)
	if n.Device(1).Saturated() || !n.Device(0).Saturated() {
		t.Fatal("device 0 must be saturated and device 1 no longer")
	}
	n.Shape(3, 9, 32, 0, "") // larger than the device: as before
	n.Submit(schedulers.Task{ID: 5, Blocks: 1, ThreadsPerBlock: 32}, "")
	n.Finish(3, "5@0")
}

func TestAlg2MakesRoomForALargerKernel(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg2:queue=mmu", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Blocks: 3, ThreadsPerBlock: 32}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Blocks: 1, ThreadsPerBlock: 32}, "2@0")
	n.WantFreeBlocks(0, 2, 2)
	n.Shape(1, 6, 32, 0, "") // in place of its 3
	n.WantFreeBlocks(0, 1, 0)
	n.Submit(schedulers.Task{ID: 3, Blocks: 1, ThreadsPerBlock: 32}, "3@0")
	n.Shape(1, 7, 32, 0, "") // 6 are left beside the others: it saturates the device
	n.WantFreeBlocks(0, 3, 3)
	n.Submit(schedulers.Task{ID: 4, Blocks: 1, ThreadsPerBlock: 32}, "")
	n.Shape(2, 99, 32, 0, "") // so does another
	n.Finish(3, "")
	n.Finish(1, "")
	n.Finish(2, "4@0")
	n.Finish(4, "")
	n.WantFreeBlocks(0, 4, 4)
}

func TestAlg2CountsOccupancy(t *testing.T) {
	// An SM of small has room for 8 warps and 4 blocks.
	const warp = schedulers.SlotsPerWarp
	for _, c := range []struct {
		perSM             uint32
		blocks            uint64 // of one warp
		freeBlocks, slots int    // of SM 0 afterwards
		exclusive         bool
	}{
		{0, 8, 0, 4 * warp, false},
		{4, 8, 0, 0, false},             // a share of 2 warps each
		{3, 4, 2, 8*warp - 5460, false}, // of 2730 slots, a third of an SM's
		{3, 6, 1, 2, false},             // three to an SM
		{3, 7, 4, 8 * warp, true},       // which a seventh exceeds
		{1, 2, 3, 0, false},             // registers for one
		{1, 3, 4, 8 * warp, true},       //
		{99, 8, 0, 4 * warp, false},     // more than the device takes
	} {
		n := enginetest.NewNode(t, "case-alg2", enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Blocks: c.blocks, ThreadsPerBlock: 32, BlocksPerSM: c.perSM}, "1@0")
		want := schedulers.SM{FreeBlocks: c.freeBlocks, FreeSlots: c.slots}
		if d := n.Device(0); d.SM(0) != want || d.Saturated() != c.exclusive {
			t.Errorf("%d blocks, %d to an SM: %+v free, saturated %v, want %+v, %v", c.blocks, c.perSM, d.SM(0), d.Saturated(), want, c.exclusive)
		}
		n.Finish(1, "")
		n.WantFreeBlocks(0, 4, 4)
		if got := n.Device(0).SM(1).FreeSlots; got != 8*warp {
			t.Errorf("%d blocks, %d to an SM: %d slots free in the end, want %d", c.blocks, c.perSM, got, 8*warp)
		}
	}

	n := enginetest.NewNode(t, "case-alg2", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Blocks: 2, ThreadsPerBlock: 32, BlocksPerSM: 1}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Blocks: 1, ThreadsPerBlock: 32}, "") // by warps alone there were room for 6
	n.Finish(1, "2@0")
}
