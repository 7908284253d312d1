package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/schedtest"
)

func TestQueueOrders(t *testing.T) {
	// Task 1 has the device. Waiting, by arrival: 2 needs 10, 3 needs 4,
	// 4 needs 8, 5 needs 2; 3 and 5 have priority 1, 5 is due first, then 2; 4 is shortest, then 3. Task 6 takes 8 of the 16
	// bytes first, so that 8 are left when 1 goes.
	for _, c := range []struct{ order, afterRelease, afterSix string }{
		{"fifo", "", "2@0 3@0"},
		{"mmu", "3@0 5@0", "2@0"},
		{"largest-first", "4@0", "3@0 5@0"},
		{"priority-fifo", "3@0 5@0", "2@0"},
		{"priority-mmu", "3@0 5@0", "2@0"},
		{"sjf", "4@0", "3@0 5@0"},
		{"deadline", "5@0 3@0", "2@0"},
	} {
		t.Run(c.order, func(t *testing.T) {
			n := enginetest.NewNode(t, "schedgpu:queue="+c.order, enginetest.Small)
			n.Submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
			n.Submit(schedulers.Task{ID: 6, Bytes: 8}, "6@0")
			n.Submit(schedulers.Task{ID: 2, Bytes: 10, Terms: &schedulers.Terms{Due: time.Hour}}, "")
			n.Submit(schedulers.Task{ID: 3, Bytes: 4, Priority: 1, Terms: &schedulers.Terms{Expected: new(time.Minute)}}, "")
			n.Submit(schedulers.Task{ID: 4, Bytes: 8, Terms: &schedulers.Terms{Expected: new(time.Second)}}, "")
			n.Submit(schedulers.Task{ID: 5, Bytes: 2, Priority: 1, Terms: &schedulers.Terms{Due: time.Minute}}, "")
			n.Finish(1, c.afterRelease)
			n.Finish(6, c.afterSix)
		})
	}
}

// Policies 3 and 4 of schedGPU let tasks of the same priority pass a task that does not fit, but
// no task of a lower priority.
func TestAMisfitLetsItsEqualsPassAndNoLowerPriority(t *testing.T) {
	// Task 1 holds 10 of 16. Task 2 (priority 2, 8 bytes) does not fit. Tasks 3 (priority 2)
	// and 4 (priority 1) would fit.
	for _, c := range []struct{ order, third, fourth string }{
		{"priority-fifo", "3@0", ""},
		{"priority-mmu", "3@0", ""},
		{"mmu", "3@0", "4@0"},
		{"fifo", "", ""},
	} {
		n := enginetest.NewNode(t, "schedgpu:queue="+c.order, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 8, Priority: 2}, "")
		n.Submit(schedulers.Task{ID: 3, Bytes: 2, Priority: 2}, c.third)
		n.Submit(schedulers.Task{ID: 4, Bytes: 2, Priority: 1}, c.fourth)
	}
}

// Under schedGPU's priorities a lower priority waits, however many tasks of a higher priority come.
func TestSchedGPUDoesNotAge(t *testing.T) {
	for _, order := range []string{"priority-fifo", "priority-mmu"} {
		n := enginetest.NewNode(t, "schedgpu:queue="+order, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 8, Priority: 1}, "")
		n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "")
		for id := schedulers.TaskID(4); id < 204; id++ {
			n.Submit(schedulers.Task{ID: id, Bytes: 1, Priority: 1}, fmt.Sprintf("%d@0", id))
			n.Finish(id, "")
		}
		n.Finish(1, "2@0 3@0")
	}
}

// Growth goes before waiting tasks, whatever their priority, because a task releases its memory
// only after it has grown. Under the priority orders the growth of the higher
// priority goes first.
func TestGrowthGoesByPriority(t *testing.T) {
	for order, want := range map[string]string{"priority-fifo": "+2@0", "priority-mmu": "+2@0", "fifo": "+1@0", "mmu": "+1@0"} {
		n := enginetest.NewNode(t, "schedgpu:queue="+order, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 4}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 4, Priority: 1}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Bytes: 8}, "3@0")
		n.Submit(schedulers.Task{ID: 4, Bytes: 1, Priority: 2}, "")
		n.Grow(1, 5, "")
		n.Grow(2, 5, "")
		n.Finish(3, want)
	}
}

func TestAgingBoundsHowOftenATaskIsPassed(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=largest-first,age-limit=3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "3@0")
	n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "4@0")
	n.Submit(schedulers.Task{ID: 5, Bytes: 1}, "5@0")
	n.Submit(schedulers.Task{ID: 6, Bytes: 1}, "") // 2 was passed three times: it blocks now
	n.Submit(schedulers.Task{ID: 7, Bytes: 9}, "") // larger, but 2 goes first
	n.Finish(3, "")
	ds := n.Engine.JobExit(1)
	if got := schedtest.Text(ds); got != "2@0 6@0" { // 14 bytes are free: without aging the larger 7 would have gone first
		t.Fatalf("decided %q, want 2@0 6@0", got)
	}
	if ds[0].Passed != 3 {
		t.Fatalf("task 2 says that it was passed %d times, want 3", ds[0].Passed)
	}
}

func TestAgedTasksGoByArrival(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=largest-first,age-limit=1", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 12}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 6}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 8}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 4}, "4@0") // passes 2 and 3
	n.Submit(schedulers.Task{ID: 5, Bytes: 16}, "")
	n.Finish(1, "2@0") // 12 are free; 2 before the larger 3, and 3 does not fit beside 2 and 4
	n.Finish(4, "3@0")
	n.Finish(2, "")
	n.Finish(3, "5@0")
}

func TestLargestFirstTakesEqualTasksByArrival(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 9, Bytes: 4}, "")
	n.Submit(schedulers.Task{ID: 7, Bytes: 4}, "")
	n.Submit(schedulers.Task{ID: 8, Bytes: 5}, "")
	n.Finish(1, "8@0 9@0 7@0")
}

// The earliest deadline goes first, equal ones by arrival, and tasks without one last, by arrival.
func TestTheEarliestDeadlineGoesFirst(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=deadline", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 2}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 2, Terms: &schedulers.Terms{Due: 9 * time.Second}}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 2}, "")
	n.Submit(schedulers.Task{ID: 5, Bytes: 2, Terms: &schedulers.Terms{Due: 7 * time.Second}}, "")
	n.Submit(schedulers.Task{ID: 6, Bytes: 2, Terms: &schedulers.Terms{Due: 9 * time.Second}}, "")
	n.Finish(1, "5@0 3@0 6@0 2@0 4@0")
}

// The shortest goes first, equal ones by arrival, and tasks of which nothing is known last, by arrival. A job that is expected
// to take no time is known.
func TestTheShortestGoesFirst(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=sjf", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 2}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 2, Terms: &schedulers.Terms{Expected: new(9 * time.Second)}}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 2}, "")
	n.Submit(schedulers.Task{ID: 5, Bytes: 2, Terms: &schedulers.Terms{Expected: new(7 * time.Second)}}, "")
	n.Submit(schedulers.Task{ID: 6, Bytes: 2, Terms: &schedulers.Terms{Expected: new(9 * time.Second)}}, "")
	n.Submit(schedulers.Task{ID: 7, Bytes: 2, Terms: &schedulers.Terms{Expected: new(time.Duration(0))}}, "")
	n.Finish(1, "7@0 5@0 3@0 6@0 2@0 4@0")
}

// A request to resume has its job's place: before a longer job that came earlier, and after a shorter one.
func TestResumingKeepsTheJobsPlace(t *testing.T) {
	for _, order := range []string{"sjf", "deadline"} {
		n := enginetest.NewNode(t, "vgpu:n=1,queue="+order, enginetest.Small)
		submit := func(id schedulers.TaskID, seconds time.Duration, want string) {
			t.Helper()
			n.Submit(schedulers.Task{ID: id, Bytes: 4, Terms: &schedulers.Terms{Expected: new(seconds * time.Second), Due: seconds * time.Second}}, want)
		}
		submit(1, 2, "1@0")
		n.Yielded(1, 0, "")
		submit(4, 9, "4@0")
		submit(2, 3, "")
		n.Resume(1, 0, 4, "")
		submit(3, 1, "")
		n.Finish(4, "3@0")
		n.Finish(3, "^1@0")
		n.Finish(1, "2@0")
	}
}

// A task of which nothing is known, and a task without a deadline, age, so that they do not starve.
func TestTheLastInOrderDoesNotStarve(t *testing.T) {
	for _, order := range []string{"sjf", "deadline"} {
		n := enginetest.NewNode(t, "case-alg3:queue="+order+",age-limit=3", enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 16}, "")
		for id := schedulers.TaskID(3); id < 8; id++ {
			n.Submit(schedulers.Task{ID: id, Bytes: 16, Terms: &schedulers.Terms{Due: time.Duration(id), Expected: new(time.Duration(id))}}, "")
		}
		n.Finish(1, "3@0")
		n.Finish(3, "4@0")
		n.Finish(4, "5@0")
		n.Finish(5, "2@0")
		n.Finish(2, "6@0")
	}
}

func TestWaitLimit(t *testing.T) {
	n := enginetest.NewNode(t, "schedgpu:wait-limit=10s", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 7}, "")
	if got := n.Engine.NextExpiry(); got != 10*time.Second {
		t.Fatalf("next expiry %v, want 10s", got)
	}
	n.Expire(10*time.Second-1, "")
	ds := n.Engine.Expire(10 * time.Second)
	if schedtest.Text(ds) != "!2" || ds[0].Reason.NeedBytes != 7 || ds[0].Reason.CapacityBytes != 16 ||
		!strings.Contains(ds[0].Reason.Error(), "wait limit of 10s") {
		t.Fatalf("decided %q (%v), want a refusal of task 2 that names limit, need and capacity", schedtest.Text(ds), ds[0].Reason)
	}
	if got := n.Engine.NextExpiry(); got != schedulers.Never {
		t.Fatalf("next expiry %v with nothing waiting", got)
	}
	n.Finish(1, "")
}

func TestAnExpiredHeadLetsTheNextOneIn(t *testing.T) {
	n := enginetest.NewNode(t, "schedgpu:queue=fifo,wait-limit=10s", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 16}, "")
	ds, err := n.Engine.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 4}, 5*time.Second)
	n.Want("submit task 3 behind the head", "", ds, err)
	n.Expire(10*time.Second, "!2 3@0")
}

// A request waits as long as it says, or else as long as the scheduler's wait limit.
func TestRequestsWaitAsLongAsTheySay(t *testing.T) {
	n := enginetest.NewNode(t, "schedgpu:wait-limit=10s", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 1, Wait: new(20 * time.Second)}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 2}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 3, Wait: new(3 * time.Second)}, "")
	ds, err := n.Engine.Grow(1, 0, new(time.Duration(0)), 0)
	n.Want("grow by nothing", "+1@0", ds, err)
	for _, c := range []struct {
		at  time.Duration
		who string
	}{{3 * time.Second, "!4"}, {10 * time.Second, "!3"}, {20 * time.Second, "!2"}} {
		if next := n.Engine.NextExpiry(); next != c.at {
			t.Fatalf("next expiry %v, want %v", next, c.at)
		}
		n.Expire(c.at-1, "")
		ds := n.Engine.Expire(c.at)
		if want := fmt.Sprintf("wait limit of %v", c.at); schedtest.Text(ds) != c.who || ds[0].Reason.Cause != schedulers.TimedOut ||
			!strings.Contains(ds[0].Reason.Why, want) {
			t.Fatalf("at %v: decided %q: %v; want %s and %q", c.at, schedtest.Text(ds), ds[0].Reason, c.who, want)
		}
	}
	if next := n.Engine.NextExpiry(); next != schedulers.Never {
		t.Errorf("next expiry %v with nothing waiting", next)
	}
}

func TestARequestOfItsOwnWaitNeedsNoLimit(t *testing.T) {
	n := enginetest.NewNode(t, "schedgpu", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	ds, err := n.Engine.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 1, Wait: new(5 * time.Second)}, 7*time.Second)
	n.Want("submit", "", ds, err)
	ds, err = n.Engine.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 1, Wait: new(schedulers.Never)}, 7*time.Second)
	n.Want("submit", "", ds, err)
	ds, err = n.Engine.Grow(1, 0, new(schedulers.Never), 7*time.Second)
	n.Want("grow", "+1@0", ds, err)
	if next := n.Engine.NextExpiry(); next != 12*time.Second {
		t.Errorf("next expiry %v, want 12s", next)
	}
}

// A request that does not wait is granted if it is its turn, and otherwise refused, as if it had
// not been made.
func TestARequestThatDoesNotWait(t *testing.T) {
	now := new(time.Duration(0))
	for _, c := range []struct{ order, passes string }{{"fifo", "!3"}, {"mmu", "3@0"}, {"priority-fifo", "!3"}, {"priority-mmu", "!3"}} {
		n := enginetest.NewNode(t, "schedgpu:age-limit=1,queue="+c.order, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 10, Wait: now}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 8, Priority: 1}, "")
		ds, err := n.Engine.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 2, Wait: now}, 0)
		n.Want("submit task 3 under "+c.order, c.passes, ds, err)
		if r := ds[0].Reason; r != nil && (r.Cause != schedulers.TimedOut || r.NeedBytes != 2 || r.CapacityBytes != 16 || !strings.Contains(r.Why, "does not wait")) {
			t.Errorf("%s: refusal %+v", c.order, r)
		}
		n.Submit(schedulers.Task{ID: 4, Bytes: 17, Wait: now}, "!4")
		ds, err = n.Engine.Grow(1, 9, now, 0)
		n.Want("grow task 1", "-1@0", ds, err)
		if ds[0].Reason.Cause != schedulers.DeviceFull && ds[0].Reason.Cause != schedulers.TimedOut {
			t.Errorf("refusal of growth %+v", ds[0].Reason)
		}
		if n.Engine.Waiting() != 1 || n.Engine.NextExpiry() != schedulers.Never {
			t.Errorf("%s: %d tasks wait until %v, want task 2 alone", c.order, n.Engine.Waiting(), n.Engine.NextExpiry())
		}
	}
}

func TestGrowthThatDoesNotWait(t *testing.T) {
	now := new(time.Duration(0))
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 7}, "2@0")
	ds, err := n.Engine.Grow(1, 2, now, 0)
	n.Want("grow by more than is free", "-1@0", ds, err)
	if r := ds[0].Reason; r.Cause != schedulers.TimedOut || r.NeedBytes != 10 || !strings.Contains(r.Why, "does not wait") {
		t.Errorf("refusal %+v", r)
	}
	n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "3@0") // the device stays open
	n.Finish(3, "")
	ds, err = n.Engine.Grow(1, 1, now, 0)
	n.Want("grow by what is free", "+1@0", ds, err)
	ds, err = n.Engine.Grow(2, 1, new(4*time.Second), 0)
	n.Want("grow for 4s", "", ds, err)
	n.Expire(4*time.Second-1, "")
	n.Expire(4*time.Second, "-2@0")
}

// Memory that a task gives back goes to waiting requests.
func TestShrink(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 4}, "3@0")
	n.Grow(3, 2, "+3@0")
	n.Grow(3, 1, "")
	shrink := func(id schedulers.TaskID, bytes int64, want string) {
		t.Helper()
		ds, err := n.Engine.Shrink(id, bytes)
		n.Want(fmt.Sprintf("shrink task %d by %d", id, bytes), want, ds, err)
	}
	shrink(1, 1, "+3@0")
	shrink(3, 7, "")
	shrink(1, 1, "2@0")
	shrink(1, 0, "")
	if used := n.Device(0).UsedBytes(); used != 16 {
		t.Errorf("%d bytes in use, want all 16", used)
	}
	shrink(1, 8, "")
	n.Grow(1, 3, "+1@0")
	n.Release(1, "")
	n.Release(2, "")
	n.Release(3, "")
	if d := n.Device(0); d.UsedBytes() != 0 || d.Tasks() != 0 {
		t.Errorf("%d bytes of %d tasks are left", d.UsedBytes(), d.Tasks())
	}
}

func TestWithdrawingTheHeadLetsTheNextOneIn(t *testing.T) {
	n := enginetest.NewNode(t, "schedgpu:queue=fifo", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 16}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 4}, "")
	n.Release(2, "3@0")
}
