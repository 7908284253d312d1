package policies_test

import (
	"fmt"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// One test for each trap that CASE's published prototype fell into.

func TestWarpsPerBlockAreNotRoundedDown(t *testing.T) {
	for _, c := range []struct {
		blocks  uint64
		threads uint32
		want    uint64
	}{
		{1, 1, 1}, {1, 16, 1}, {1, 31, 1}, {1, 32, 1}, {1, 33, 2}, {1, 1024, 32},
		{2003, 16, 2003}, {0, 256, 0}, {256, 0, 0},
		{1 << 40, 33, 1 << 41}, {1 << 60, 1024, 1 << 48}, // saturated, so that sums cannot wrap
	} {
		if got := (schedulers.Task{Blocks: c.blocks, ThreadsPerBlock: c.threads}).Warps(); got != c.want {
			t.Errorf("%d blocks of %d threads are %d warps, want %d", c.blocks, c.threads, got, c.want)
		}
	}

	// needle's blocks have 16 threads. If they cost nothing, every task would
	// look as light as none, and alg3 would pile them up on device 0.
	n := enginetest.NewNode(t, "case-alg3", enginetest.V100, enginetest.V100)
	n.Submit(schedulers.Task{ID: 1, Blocks: 2003, ThreadsPerBlock: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Blocks: 10, ThreadsPerBlock: 16}, "2@1")
	n.Submit(schedulers.Task{ID: 3, Blocks: 10, ThreadsPerBlock: 16}, "3@1")
}

func TestAlg2SeesItsOwnTentativePlacements(t *testing.T) {
	// 5 blocks of 2 warps: each SM has warps for 4. Tested one by one against
	// the SMs as they were, all 5 would fit on the first.
	n := enginetest.NewNode(t, "case-alg2", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Blocks: 5, ThreadsPerBlock: 64}, "1@0")
	n.WantFreeBlocks(0, 1, 2)
	n.Submit(schedulers.Task{ID: 2, Blocks: 4, ThreadsPerBlock: 64}, "")
	n.WantFreeBlocks(0, 1, 2) // a misfit leaves nothing behind
	n.Submit(schedulers.Task{ID: 3, Blocks: 3, ThreadsPerBlock: 64}, "3@0")
	n.WantFreeBlocks(0, 0, 0)
}

func TestSMAssignmentsAreKeptByTask(t *testing.T) {
	// Job 1 has two tasks at once. Keyed by process, the second assignment
	// would overwrite the first, which then could never be given back.
	n := enginetest.NewNode(t, "case-alg2", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Blocks: 3, ThreadsPerBlock: 32}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Blocks: 2, ThreadsPerBlock: 32}, "2@0")
	n.WantFreeBlocks(0, 1, 2)
	n.Release(1, "")
	n.WantFreeBlocks(0, 3, 3)
	n.Release(2, "")
	n.WantFreeBlocks(0, 4, 4)
}

func TestMisfitOnOneDeviceDoesNotStopTheSearch(t *testing.T) {
	memory := schedulers.Task{ID: 1, Bytes: 12}
	compute := schedulers.Task{ID: 1, Blocks: 6, ThreadsPerBlock: 32}
	for _, c := range []struct {
		scheduler string
		first     schedulers.Task
		second    schedulers.Task
	}{
		{"case-alg2", memory, schedulers.Task{ID: 2, Bytes: 12}},
		{"case-alg2", compute, schedulers.Task{ID: 2, Blocks: 6, ThreadsPerBlock: 32}},
		{"case-alg2", schedulers.Task{ID: 1, Blocks: 999, ThreadsPerBlock: 32}, schedulers.Task{ID: 2, Blocks: 999, ThreadsPerBlock: 32}},
		{"case-alg2", schedulers.Task{ID: 1, Blocks: 1, ThreadsPerBlock: 32}, schedulers.Task{ID: 2, Blocks: 999, ThreadsPerBlock: 32}},
		{"case-alg3", memory, schedulers.Task{ID: 2, Bytes: 12}},
		{"sa", memory, schedulers.Task{ID: 2, Bytes: 12}},
	} {
		n := enginetest.NewNode(t, c.scheduler, enginetest.Small, enginetest.Small)
		n.Submit(c.first, "1@0")
		n.Submit(c.second, "2@1")
	}
}

func TestEveryDecisionIsInTheAnswerOfItsCause(t *testing.T) {
	// The prototype decided every 100 ms. Here the call that makes a grant
	// possible returns it, and a call that makes none possible returns none.
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 6}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 5}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 5}, "")
	n.Release(1, "2@0 3@0 4@0")
	n.Submit(schedulers.Task{ID: 5, Bytes: 2}, "")
	n.Submit(schedulers.Task{ID: 6, Bytes: 17}, "!6")
	n.Grow(3, 1, "")
	n.Exit(2, "+3@0 5@0")
}

func TestAllocationsAfterTheFirstLaunchAreAccounted(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 4}, "1@0")
	n.Grow(1, 8, "+1@0")
	if got := n.Device(0).UsedBytes(); got != 12 {
		t.Fatalf("%d bytes in use after 4 + 8, want 12", got)
	}
	n.Submit(schedulers.Task{ID: 2, Bytes: 5}, "")
	n.Release(1, "2@0")
	if got := n.Device(0).UsedBytes(); got != 5 {
		t.Fatalf("%d bytes in use, want 5: the growth was not given back", got)
	}
}

func TestContextsHaveAReserve(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, "case-alg3", d)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 6}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 7}, "") // 8 are free, 2 of them for job 2's context
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 7}, "3@0")
	n.Release(1, "")
	n.Release(3, "2@0") // job 1's context stays with its process: 2 + 2 + 7
	if got := n.Device(0).UsedBytes(); got != 11 {
		t.Fatalf("%d bytes in use, want 11", got)
	}
	n.Exit(1, "")
	if got := n.Device(0).UsedBytes(); got != 9 {
		t.Fatalf("%d bytes in use after job 1, want 9", got)
	}
	n.Submit(schedulers.Task{ID: 4, Bytes: 15}, "!4")
}

func TestDeathOfAJobReclaimsEverything(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 1
	n := enginetest.NewNode(t, "case-alg2:queue=fifo", d)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 3, Blocks: 2, ThreadsPerBlock: 32}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 3, Blocks: 2, ThreadsPerBlock: 32}, "2@0")
	n.Grow(1, 2, "+1@0")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 12}, "") // waits, and blocks the queue
	n.Submit(schedulers.Task{ID: 4, Job: 4, Bytes: 15, Blocks: 8, ThreadsPerBlock: 32}, "")
	n.Exit(1, "4@0")
	if d := n.Device(0); d.UsedBytes() != 16 || d.Tasks() != 1 || d.Jobs() != 1 || d.UsedWarps() != 8 {
		t.Fatalf("device after the death: %d bytes, %d tasks, %d jobs, %d warps, want 16, 1, 1, 8",
			d.UsedBytes(), d.Tasks(), d.Jobs(), d.UsedWarps())
	}
	if n.Engine.Waiting() != 0 {
		t.Fatalf("%d tasks wait, want none", n.Engine.Waiting())
	}
}

func TestMoreRequestsThanARingOf4096Slots(t *testing.T) {
	t.Run("in sequence", func(t *testing.T) {
		n := enginetest.NewNode(t, "case-alg2", enginetest.Small)
		for i := range 20_000 {
			id := schedulers.TaskID(i + 1)
			ds, err := n.Engine.Submit(schedulers.Task{ID: id, Job: 1, Bytes: 16, Blocks: 8, ThreadsPerBlock: 32}, 0)
			if err != nil || len(ds) != 1 || ds[0].Kind != schedulers.Granted {
				t.Fatalf("submit %d: %v, %v", id, ds, err)
			}
			if _, err := n.Engine.Release(id); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("at once", func(t *testing.T) {
		const waiting = 10_000
		n := enginetest.NewNode(t, "case-alg3:queue=largest-first", enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
		for i := range waiting {
			n.Submit(schedulers.Task{ID: schedulers.TaskID(i + 2), Bytes: 16}, "")
		}
		if got := n.Engine.Waiting(); got != waiting {
			t.Fatalf("%d tasks wait, want %d", got, waiting)
		}
		const released = 200
		for i := range released {
			n.Release(schedulers.TaskID(i+1), fmt.Sprintf("%d@0", i+2))
		}
		if got := n.Engine.Waiting(); got != waiting-released {
			t.Fatalf("%d tasks wait, want %d", got, waiting-released)
		}
	})
}

func TestZeroByteTasks(t *testing.T) {
	for _, info := range enginetest.Policies() {
		n := enginetest.NewNode(t, info.Name, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1}, "1@0")
		n.Grow(1, 0, "+1@0")
		n.Finish(1, "")
		n.Submit(schedulers.Task{ID: 2, Bytes: 4}, "2@0")
	}
}
