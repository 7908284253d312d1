package schedulers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
)

func TestQueueOrders(t *testing.T) {
	// Task 1 has the device. Waiting, by arrival: 2 needs 10, 3 needs 4,
	// 4 needs 8, 5 needs 2; 3 and 5 have priority 1. Task 6 takes 8 of the 16
	// bytes first, so that 8 are left when 1 goes.
	for _, c := range []struct{ order, afterRelease, afterSix string }{
		{"fifo", "", "2@0 3@0"},
		{"mmu", "3@0 5@0", "2@0"},
		{"largest-first", "4@0", "3@0 5@0"},
		{"priority-fifo", "3@0 5@0", "2@0"},
		{"priority-mmu", "3@0 5@0", "2@0"},
	} {
		t.Run(c.order, func(t *testing.T) {
			n := newNode(t, "schedgpu:queue="+c.order, small)
			n.submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
			n.submit(schedulers.Task{ID: 6, Bytes: 8}, "6@0")
			n.submit(schedulers.Task{ID: 2, Bytes: 10}, "")
			n.submit(schedulers.Task{ID: 3, Bytes: 4, Priority: 1}, "")
			n.submit(schedulers.Task{ID: 4, Bytes: 8}, "")
			n.submit(schedulers.Task{ID: 5, Bytes: 2, Priority: 1}, "")
			n.finish(1, c.afterRelease)
			n.finish(6, c.afterSix)
		})
	}
}

func TestPriorityVariantsDifferInWhatAMisfitBlocks(t *testing.T) {
	// Task 1 holds 10 of 16. Task 2 (priority 2, 8 bytes) does not fit; 3
	// (priority 2) and 4 (priority 1) would.
	for _, c := range []struct{ order, third, fourth string }{
		{"priority-fifo", "", ""},
		{"priority-mmu", "3@0", ""},
		{"mmu", "3@0", "4@0"},
	} {
		n := newNode(t, "schedgpu:queue="+c.order, small)
		n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
		n.submit(schedulers.Task{ID: 2, Bytes: 8, Priority: 2}, "")
		n.submit(schedulers.Task{ID: 3, Bytes: 2, Priority: 2}, c.third)
		n.submit(schedulers.Task{ID: 4, Bytes: 2, Priority: 1}, c.fourth)
	}
}

func TestAgingBoundsHowOftenATaskIsPassed(t *testing.T) {
	n := newNode(t, "case-alg3:queue=largest-first,age-limit=3", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 8}, "")
	n.submit(schedulers.Task{ID: 3, Bytes: 1}, "3@0")
	n.submit(schedulers.Task{ID: 4, Bytes: 1}, "4@0")
	n.submit(schedulers.Task{ID: 5, Bytes: 1}, "5@0")
	n.submit(schedulers.Task{ID: 6, Bytes: 1}, "") // 2 was passed three times: it blocks now
	n.submit(schedulers.Task{ID: 7, Bytes: 9}, "") // larger, but 2 goes first
	n.finish(3, "")
	ds := n.engine.JobExit(1, 0)
	if got := read(ds); got != "2@0 6@0" { // 14 bytes are free: without aging the larger 7 would have gone first
		t.Fatalf("decided %q, want 2@0 6@0", got)
	}
	if ds[0].Passed != 3 {
		t.Fatalf("task 2 says that it was passed %d times, want 3", ds[0].Passed)
	}
}

func TestAgedTasksGoByArrival(t *testing.T) {
	n := newNode(t, "case-alg3:queue=largest-first,age-limit=1", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 12}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 6}, "")
	n.submit(schedulers.Task{ID: 3, Bytes: 8}, "")
	n.submit(schedulers.Task{ID: 4, Bytes: 4}, "4@0") // passes 2 and 3
	n.submit(schedulers.Task{ID: 5, Bytes: 16}, "")
	n.finish(1, "2@0") // 12 are free; 2 before the larger 3, and 3 does not fit beside 2 and 4
	n.finish(4, "3@0")
	n.finish(2, "")
	n.finish(3, "5@0")
}

func TestLargestFirstTakesEqualTasksByArrival(t *testing.T) {
	n := newNode(t, "case-alg3", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.submit(schedulers.Task{ID: 9, Bytes: 4}, "")
	n.submit(schedulers.Task{ID: 7, Bytes: 4}, "")
	n.submit(schedulers.Task{ID: 8, Bytes: 5}, "")
	n.finish(1, "8@0 9@0 7@0")
}

func TestWaitLimit(t *testing.T) {
	n := newNode(t, "schedgpu:wait-limit=10s", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 7}, "")
	if got := n.engine.NextExpiry(); got != 10*time.Second {
		t.Fatalf("next expiry %v, want 10s", got)
	}
	n.expire(10*time.Second-1, "")
	ds := n.engine.Expire(10 * time.Second)
	if read(ds) != "!2" || ds[0].Reason.NeedBytes != 7 || ds[0].Reason.CapacityBytes != 16 ||
		!strings.Contains(ds[0].Reason.Error(), "wait limit of 10s") {
		t.Fatalf("decided %q (%v), want a refusal of task 2 that names limit, need and capacity", read(ds), ds[0].Reason)
	}
	if got := n.engine.NextExpiry(); got != schedulers.Never {
		t.Fatalf("next expiry %v with nothing waiting", got)
	}
	n.finish(1, "")
}

func TestAnExpiredHeadLetsTheNextOneIn(t *testing.T) {
	n := newNode(t, "schedgpu:queue=fifo,wait-limit=10s", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 16}, "")
	ds, err := n.engine.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 4}, 5*time.Second)
	n.want("submit task 3 behind the head", "", ds, err)
	n.expire(10*time.Second, "!2 3@0")
}

func TestWithdrawingTheHeadLetsTheNextOneIn(t *testing.T) {
	n := newNode(t, "schedgpu:queue=fifo", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 16}, "")
	n.submit(schedulers.Task{ID: 3, Bytes: 4}, "")
	n.release(2, "3@0")
}
