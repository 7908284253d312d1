package schedulers_test

import (
	"fmt"
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

// Policies 3 and 4 of schedGPU let those of the same priority pass one that does not fit, and
// nobody of a lower one.
func TestAMisfitLetsItsEqualsPassAndNoLowerPriority(t *testing.T) {
	// Task 1 holds 10 of 16. Task 2 (priority 2, 8 bytes) does not fit; 3
	// (priority 2) and 4 (priority 1) would.
	for _, c := range []struct{ order, third, fourth string }{
		{"priority-fifo", "3@0", ""},
		{"priority-mmu", "3@0", ""},
		{"mmu", "3@0", "4@0"},
		{"fifo", "", ""},
	} {
		n := newNode(t, "schedgpu:queue="+c.order, small)
		n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
		n.submit(schedulers.Task{ID: 2, Bytes: 8, Priority: 2}, "")
		n.submit(schedulers.Task{ID: 3, Bytes: 2, Priority: 2}, c.third)
		n.submit(schedulers.Task{ID: 4, Bytes: 2, Priority: 1}, c.fourth)
	}
}

// Under schedGPU's priorities no number of equals that pass makes a lower priority's turn come.
func TestSchedGPUDoesNotAge(t *testing.T) {
	for _, order := range []string{"priority-fifo", "priority-mmu"} {
		n := newNode(t, "schedgpu:queue="+order, small)
		n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
		n.submit(schedulers.Task{ID: 2, Bytes: 8, Priority: 1}, "")
		n.submit(schedulers.Task{ID: 3, Bytes: 1}, "")
		for id := schedulers.TaskID(4); id < 204; id++ {
			n.submit(schedulers.Task{ID: id, Bytes: 1, Priority: 1}, fmt.Sprintf("%d@0", id))
			n.finish(id, "")
		}
		n.finish(1, "2@0 3@0")
	}
}

// A task that has its device gives memory back only when it has gone on, whatever its priority.
func TestGrowthGoesByPriority(t *testing.T) {
	for order, want := range map[string]string{"priority-fifo": "+2@0", "priority-mmu": "+2@0", "fifo": "+1@0", "mmu": "+1@0"} {
		n := newNode(t, "schedgpu:queue="+order, small)
		n.submit(schedulers.Task{ID: 1, Bytes: 4}, "1@0")
		n.submit(schedulers.Task{ID: 2, Bytes: 4, Priority: 1}, "2@0")
		n.submit(schedulers.Task{ID: 3, Bytes: 8}, "3@0")
		n.submit(schedulers.Task{ID: 4, Bytes: 1, Priority: 2}, "")
		n.grow(1, 5, "")
		n.grow(2, 5, "")
		n.finish(3, want)
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

// A request has the wait that it says, and the scheduler's where it says none.
func TestRequestsWaitAsLongAsTheySay(t *testing.T) {
	n := newNode(t, "schedgpu:wait-limit=10s", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 1, Wait: new(20 * time.Second)}, "")
	n.submit(schedulers.Task{ID: 3, Bytes: 2}, "")
	n.submit(schedulers.Task{ID: 4, Bytes: 3, Wait: new(3 * time.Second)}, "")
	ds, err := n.engine.Grow(1, 0, new(time.Duration(0)), 0)
	n.want("grow by nothing", "+1@0", ds, err)
	for _, c := range []struct {
		at  time.Duration
		who string
	}{{3 * time.Second, "!4"}, {10 * time.Second, "!3"}, {20 * time.Second, "!2"}} {
		if next := n.engine.NextExpiry(); next != c.at {
			t.Fatalf("next expiry %v, want %v", next, c.at)
		}
		n.expire(c.at-1, "")
		ds := n.engine.Expire(c.at)
		if want := fmt.Sprintf("wait limit of %v", c.at); read(ds) != c.who || ds[0].Reason.Cause != schedulers.TimedOut ||
			!strings.Contains(ds[0].Reason.Why, want) {
			t.Fatalf("at %v: decided %q: %v; want %s and %q", c.at, read(ds), ds[0].Reason, c.who, want)
		}
	}
	if next := n.engine.NextExpiry(); next != schedulers.Never {
		t.Errorf("next expiry %v with nothing waiting", next)
	}
}

func TestARequestOfItsOwnWaitNeedsNoLimit(t *testing.T) {
	n := newNode(t, "schedgpu", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	ds, err := n.engine.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 1, Wait: new(5 * time.Second)}, 7*time.Second)
	n.want("submit", "", ds, err)
	ds, err = n.engine.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 1, Wait: new(schedulers.Never)}, 7*time.Second)
	n.want("submit", "", ds, err)
	ds, err = n.engine.Grow(1, 0, new(schedulers.Never), 7*time.Second)
	n.want("grow", "+1@0", ds, err)
	if next := n.engine.NextExpiry(); next != 12*time.Second {
		t.Errorf("next expiry %v, want 12s", next)
	}
}

// A request that does not wait is granted where it is its turn, and else refused, as if it had
// not come.
func TestARequestThatDoesNotWait(t *testing.T) {
	now := new(time.Duration(0))
	for _, c := range []struct{ order, passes string }{{"fifo", "!3"}, {"mmu", "3@0"}, {"priority-fifo", "!3"}, {"priority-mmu", "!3"}} {
		n := newNode(t, "schedgpu:age-limit=1,queue="+c.order, small)
		n.submit(schedulers.Task{ID: 1, Bytes: 10, Wait: now}, "1@0")
		n.submit(schedulers.Task{ID: 2, Bytes: 8, Priority: 1}, "")
		ds, err := n.engine.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 2, Wait: now}, 0)
		n.want("submit task 3 under "+c.order, c.passes, ds, err)
		if r := ds[0].Reason; r != nil && (r.Cause != schedulers.TimedOut || r.NeedBytes != 2 || r.CapacityBytes != 16 || !strings.Contains(r.Why, "does not wait")) {
			t.Errorf("%s: refusal %+v", c.order, r)
		}
		n.submit(schedulers.Task{ID: 4, Bytes: 17, Wait: now}, "!4")
		ds, err = n.engine.Grow(1, 9, now, 0)
		n.want("grow task 1", "-1@0", ds, err)
		if ds[0].Reason.Cause != schedulers.DeviceFull && ds[0].Reason.Cause != schedulers.TimedOut {
			t.Errorf("refusal of growth %+v", ds[0].Reason)
		}
		if n.engine.Waiting() != 1 || n.engine.NextExpiry() != schedulers.Never {
			t.Errorf("%s: %d tasks wait until %v, want task 2 alone", c.order, n.engine.Waiting(), n.engine.NextExpiry())
		}
	}
}

func TestGrowthThatDoesNotWait(t *testing.T) {
	now := new(time.Duration(0))
	n := newNode(t, "case-alg3", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 7}, "2@0")
	ds, err := n.engine.Grow(1, 2, now, 0)
	n.want("grow by more than is free", "-1@0", ds, err)
	if r := ds[0].Reason; r.Cause != schedulers.TimedOut || r.NeedBytes != 10 || !strings.Contains(r.Why, "does not wait") {
		t.Errorf("refusal %+v", r)
	}
	n.submit(schedulers.Task{ID: 3, Bytes: 1}, "3@0") // the device stays open
	n.finish(3, "")
	ds, err = n.engine.Grow(1, 1, now, 0)
	n.want("grow by what is free", "+1@0", ds, err)
	ds, err = n.engine.Grow(2, 1, new(4*time.Second), 0)
	n.want("grow for 4s", "", ds, err)
	n.expire(4*time.Second-1, "")
	n.expire(4*time.Second, "-2@0")
}

// What a task gives back goes to those that wait.
func TestShrink(t *testing.T) {
	n := newNode(t, "case-alg3", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 8}, "")
	n.submit(schedulers.Task{ID: 3, Bytes: 4}, "3@0")
	n.grow(3, 2, "+3@0")
	n.grow(3, 1, "")
	shrink := func(id schedulers.TaskID, bytes int64, want string) {
		t.Helper()
		ds, err := n.engine.Shrink(id, bytes, 0)
		n.want(fmt.Sprintf("shrink task %d by %d", id, bytes), want, ds, err)
	}
	shrink(1, 1, "+3@0")
	shrink(3, 7, "")
	shrink(1, 1, "2@0")
	shrink(1, 0, "")
	if used := n.device(0).UsedBytes; used != 16 {
		t.Errorf("%d bytes in use, want all 16", used)
	}
	shrink(1, 8, "")
	n.grow(1, 3, "+1@0")
	n.release(1, "")
	n.release(2, "")
	n.release(3, "")
	if d := n.device(0); d.UsedBytes != 0 || d.Tasks != 0 {
		t.Errorf("%d bytes of %d tasks are left", d.UsedBytes, d.Tasks)
	}
}

func TestWithdrawingTheHeadLetsTheNextOneIn(t *testing.T) {
	n := newNode(t, "schedgpu:queue=fifo", small)
	n.submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 16}, "")
	n.submit(schedulers.Task{ID: 3, Bytes: 4}, "")
	n.release(2, "3@0")
}
