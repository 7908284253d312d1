package policies_test

import (
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/schedtest"
)

const ms = time.Millisecond

// movable is a task of a process of its own, all of whose memory can move.
func movable(id schedulers.TaskID, bytes int64) schedulers.Task {
	return schedulers.Task{ID: id, Bytes: bytes, Can: schedulers.Movable}
}

// The seed's example: four GPUs with two slots each. A1 to A4 are tasks 1 to 4, B1 and B2 5 and 6,
// C1 and C2 7 and 8.
func TestVirtualGPUsAreTakenAsInTheSeedsExample(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=2", slices.Repeat([]schedulers.Device{enginetest.Small}, 4)...)
	for i, want := range []string{"1@0", "2@1", "3@2", "4@3", "5@0", "6@1", "7@2", "8@3"} {
		n.Submit(movable(schedulers.TaskID(i+1), 1), want)
	}
	n.Submit(movable(9, 1), "") // no slot is free
	n.Finish(6, "9@1")
}

// A device on which no context has a slot goes first, wherever the latest grant was.
func TestVirtualGPUsOfIdleDevicesGoFirst(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=2", enginetest.Small, enginetest.Small, enginetest.Small)
	n.Submit(movable(1, 1), "1@0")
	n.Submit(movable(2, 1), "2@1")
	n.Submit(movable(3, 1), "3@2")
	n.Finish(2, "")
	n.Submit(movable(4, 1), "4@1") // not device 0, which is next after the latest grant
	n.Submit(movable(5, 1), "5@2") // next after device 1
}

// With one slot this is the seed's batch scheduling.
func TestOneVirtualGPUIsBatchScheduling(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=1", enginetest.Small, enginetest.Small)
	n.Submit(movable(1, 1), "1@0")
	n.Submit(movable(2, 1), "2@1")
	n.Submit(movable(3, 1), "")
	n.Submit(movable(4, 1), "")
	n.Idle(1, ms) // it keeps its slot, and there is memory enough
	n.Tick(5*ms, "")
	n.Finish(2, "3@1")
	n.Finish(1, "4@0")
}

func TestAContextKeepsItsSlotToItsEnd(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=1", enginetest.Small)
	n.Submit(movable(1, 1), "1@0")
	n.Submit(movable(2, 1), "")
	n.Release(1, "")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 1}, "3@0") // the same process, which has the slot
	n.Exit(1, "2@0")
}

// Tasks of a process go where it has its context, as long as they can.
func TestAProcessStaysOnItsDevice(t *testing.T) {
	large := enginetest.Small
	large.CapacityBytes = 32
	n := enginetest.NewNode(t, "vgpu:n=2", enginetest.Small, large)
	n.Submit(movable(1, 1), "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 1}, "2@0")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 20}, "3@1")                  // more than device 0 has
	n.Submit(schedulers.Task{ID: 4, Job: 1, Bytes: 1, OnDevice: new(1)}, "4@1") // it must
	n.Submit(schedulers.Task{ID: 5, Job: 1, Serial: 1, Bytes: 1}, "5@0")        // another process
	n.Submit(schedulers.Task{ID: 6, Job: 2, Serial: 1, Bytes: 1}, "6@1")        // another slot of device 1
	n.Submit(schedulers.Task{ID: 7, Job: 3, Serial: 1, Bytes: 1}, "")           // no slot is left
	n.Submit(schedulers.Task{ID: 8, Job: 2, Serial: 1, Bytes: 1, Managed: true}, "8@1")
}

// Table 3-1, step 1: what is free suffices.
func TestALaunchThatFindsMemoryGoesOn(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	task := movable(1, 40) // more than the device has, and 6 of it for the first kernel
	task.Need = new(int64(6))
	n.Submit(task, "1@0")
	n.Resume(1, 4, 8, "^1@0")
	if got := n.Task(1); got.Resident != 10 || got.Allocated != 40 || got.Allocated-got.Resident != 30 || got.Referenced != 8 || !got.Permit || !got.Running {
		t.Errorf("%+v", got)
	}
	if used := n.Device(0).UsedBytes(); used != 10 {
		t.Errorf("%d bytes in use, want 10", used)
	}
}

// Step 2: a process gives up what its next kernel does not reference, before any neighbour is asked.
func TestRoomIsMadeWithinTheApplicationFirst(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	n.Submit(movable(1, 8), "1@0") // a neighbour
	n.Idle(1, ms)
	task := movable(2, 40)
	task.Need = new(int64(8))
	n.Submit(task, "2@0")
	n.Resume(2, 5, 7, "evict(2,5)") // 2 of its 8 bytes there are referenced, so that 6 may go
	if r := n.Revocation(2); r.For != 2 || r.Deadline != 100*ms {
		t.Errorf("%+v", r)
	}
	if used := n.Device(0).UsedBytes(); used != 16 {
		t.Errorf("%d bytes in use before the answer, want 16", used)
	}
	n.Give(2, "^2@0")
	n.Idle(2, ms)
	n.Resume(2, 7, 10, "evict(2,5)") // all that it does not reference
	n.Give(2, "yield(1,8)")          // and a neighbour for the other 2, with all that it has
	n.Give(1, "^2@0")
}

// Several tasks of a process are one application.
func TestRoomIsMadeByTheProcessesOtherTasks(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 10, Can: schedulers.Movable}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 10, Can: schedulers.Movable}, "") // task 1 runs
	n.Idle(1, ms)
	n.Tick(5*ms, "evict(1,4)")
	n.Give(1, "2@0")
	if !n.Task(1).Permit || n.Device(0).Permits() != 1 {
		t.Errorf("the process lost its slot to itself: %+v", n.Task(1))
	}
}

// Step 3: one neighbour in a host phase whose memory suffices, the longest idle first.
func TestOneIdleNeighbourIsSwappedOut(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	n.Submit(movable(1, 3), "1@0")
	n.Submit(movable(2, 5), "2@0")
	n.Submit(movable(3, 5), "3@0")
	n.Submit(movable(4, 7), "") // 3 are free, and all neighbours run
	n.Tick(5*ms, "")
	n.Idle(1, 6*ms) // the longest idle, but too small
	n.Idle(3, 7*ms)
	n.Idle(2, 8*ms)
	n.Tick(10*ms, "yield(3,5)")
	n.Tick(15*ms, "") // asked once
	n.Give(3, "4@0")
	if got := n.Task(3); got.Permit || got.Resident != 0 || got.Allocated-got.Resident != 5 {
		t.Errorf("the victim has %+v", got)
	}
	n.Idle(4, 20*ms)
	n.Resume(3, 5, 5, "yield(2,5)") // back in order of arrival; tasks 2 and 4 are idle, 2 longer
	n.Give(2, "^3@0")
}

// A context is as long idle as the latest active one of its tasks.
func TestAContextIsActiveIfAnyTaskIs(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 4, Can: schedulers.Movable}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 4, Can: schedulers.Movable}, "2@0")
	n.Submit(schedulers.Task{ID: 3, Job: 2, Bytes: 4, Can: schedulers.Movable}, "3@0")
	n.Idle(2, 2*ms)
	n.Idle(3, 5*ms)
	n.Idle(1, 8*ms)
	n.Submit(schedulers.Task{ID: 4, Job: 3, Bytes: 6, Can: schedulers.Movable}, "yield(3,4)")
}

// A victim may decline. The next one is asked, and the first not again before its deadline's length
// has passed. If nobody accepts, others may pass.
func TestAVictimMayDecline(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	n.Submit(movable(1, 7), "1@0")
	n.Submit(movable(2, 7), "2@0")
	n.Idle(1, ms)
	n.Idle(2, 2*ms)
	n.Submit(movable(3, 8), "yield(1,7)")
	n.Submit(movable(4, 1), "") // would fit: room is being made
	n.Answer(1, schedulers.Busy, 7, 10*ms, "yield(2,7)")
	if !n.Task(1).Permit {
		t.Error("a busy task lost its permit")
	}
	n.Answer(2, schedulers.Busy, 7, 20*ms, "4@0")
	n.Tick(109*ms, "")
	if next := n.Engine.NextTick(); next != 110*ms {
		t.Errorf("next tick at %v", next)
	}
	n.Tick(110*ms, "yield(1,7)")
	n.Answer(1, schedulers.Unable, 7, 111*ms, "")
	n.Tick(119*ms, "")
	n.Tick(120*ms, "yield(2,7)") // task 1 is never asked again
	n.Give(2, "3@0")
}

// One victim must suffice, unless victims=0.
func TestSeveralVictimsOnlyIfAllowed(t *testing.T) {
	for victims, want := range map[string]string{"1": "", "0": "yield(2,6) yield(1,6)"} {
		n := enginetest.NewNode(t, "vgpu:victims="+victims, enginetest.Small)
		n.Submit(movable(1, 6), "1@0")
		n.Submit(movable(2, 6), "2@0")
		n.Idle(2, ms)
		n.Idle(1, 2*ms)
		n.Submit(movable(3, 12), want)
		if want == "" {
			n.Finish(1, "yield(2,6)")
			n.Give(2, "3@0")
			continue
		}
		n.Give(2, "") // not enough yet, and kept for task 3
		n.Submit(movable(4, 1), "")
		n.Give(1, "3@0 4@0")
	}
}

// A victim leaves its slot, and a context that waits for memory has none.
func TestASwappedContextsSlotIsFree(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=2", enginetest.Small)
	n.Submit(movable(1, 8), "1@0")
	n.Submit(movable(2, 8), "2@0")
	n.Idle(1, ms)
	n.Submit(movable(3, 8), "") // both slots are taken: nobody is swapped out for it
	n.Tick(5*ms, "")
	n.Finish(2, "3@0")
	n.Submit(movable(4, 1), "") // slots again, though memory could be had
	n.Finish(3, "4@0")
	if got := n.Device(0).Permits(); got != 2 {
		t.Errorf("%d slots in use", got)
	}
}

// Two tasks that have half of the device each and need more would wait for each other: the
// later gives way.
func TestTasksThatWaitForEachOther(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	for id := range schedulers.TaskID(2) {
		task := movable(id+1, 12)
		task.Need = new(int64(8))
		n.Submit(task, schedtest.Text([]schedulers.Decision{{Task: schedulers.Task{ID: id + 1}}}))
	}
	n.Resume(1, 2, 10, "")           // task 2 runs
	n.Resume(2, 2, 10, "yield(2,8)") // it waits behind task 1
	n.Give(2, "^1@0")
	if w := n.Engine.Waiting(); w != 1 {
		t.Fatalf("%d wait", w)
	}
	n.Idle(1, ms)
	n.Tick(5*ms, "yield(1,10)") // task 2 needs all that it references by now
	n.Give(1, "^2@0")
	if got := n.Task(2).Resident; got != 10 {
		t.Errorf("task 2 has %d bytes there, want 10", got)
	}
}

// One victim is the limit for contexts in a host phase. Those that wait behind the request are
// stopped anyway: without them nobody could go on here.
func TestSeveralThatWaitGiveWay(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	for i, have := range []int64{6, 5, 5} {
		id := schedulers.TaskID(i + 1)
		task := movable(id, 14)
		task.Need = &have
		n.Submit(task, schedtest.Text([]schedulers.Decision{{Task: schedulers.Task{ID: id}}}))
	}
	n.Resume(1, 8, 14, "")
	n.Resume(2, 1, 6, "") // task 3 runs
	n.Resume(3, 1, 6, "yield(2,5) yield(3,5)")
	n.Give(2, "")
	n.Give(3, "^1@0")
	n.Idle(1, ms)
	n.Tick(5*ms, "yield(1,14)")
	n.Give(1, "^2@0 ^3@0")
}

// A kernel that references more than the device has is refused; the sum of allocations does not
// matter.
func TestTheLargestKernelDecidesAndNotTheSum(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, "vgpu", d)
	n.Submit(movable(1, 15), "!1")
	task := movable(2, 100)
	task.Need = new(int64(14))
	n.Submit(task, "2@0")
	n.Idle(2, ms)
	n.Resume(2, 7, 14, "evict(2,7)")
	n.Give(2, "^2@0")
	ds, err := n.Engine.Resume(2, 1, 15, 0)
	n.Want("a kernel of 15", "_2@0", ds, err)
	if r := ds[0].Reason; r.Cause != schedulers.TooLarge || r.NeedBytes != 17 || r.CapacityBytes != 16 {
		t.Errorf("refusal %+v, want 17 (15 and a context of 2) of 16", r)
	}
}

// Fixed bytes and contexts always count.
func TestFixedBytesStay(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, "vgpu", d)
	n.Submit(schedulers.Task{ID: 1, Bytes: 6}, "1@0") // of a process that can do nothing
	if got := n.Task(1); got.Fixed != 6 || got.Movable != 0 {
		t.Errorf("%+v", got)
	}
	n.Submit(movable(2, 6), "2@0")
	n.Idle(1, ms)
	if err := n.Engine.Active(2, schedulers.Activity{Last: ms, Fixed: 4}, ms); err != nil {
		t.Fatal(err)
	}
	n.Submit(movable(3, 3), "") // 2 of task 2 could go, and its context stays
	n.Finish(2, "3@0")
}

// Growth needs bytes on the device, and others are asked for them.
func TestGrowthAsksOthers(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small)
	n.Submit(movable(1, 8), "1@0")
	n.Submit(movable(2, 8), "2@0")
	n.Idle(1, ms)
	n.Grow(2, 6, "yield(1,8)")
	n.Give(1, "+2@0")
	n.Resume(1, 8, 8, "") // 2 are free
	n.Idle(2, ms)
	n.Tick(5*ms, "yield(2,14)")
	n.Grow(2, 5, "") // a task that grows may be asked, and gets nothing before it answers
	n.Give(2, "+2@0 ^1@0")
	if got := n.Device(0).UsedBytes(); got != 5+8 {
		t.Errorf("%d bytes in use, want 5 that grew and 8 that came back", got)
	}
}

// rank is a task of a process of its own, one of several ranks of a job.
func rank(id schedulers.TaskID, job schedulers.JobID, ranks int) schedulers.Task {
	t := movable(id, 1)
	t.Job, t.Serial, t.Terms = job, int(id), &schedulers.Terms{Ranks: ranks}
	return t
}

// Two jobs of two ranks begin by turns: the second job waits, because both would have one slot of two. Other jobs do not wait for them.
func TestJobsOfRanksDoNotTakeEachOthersSlots(t *testing.T) {
	for _, policy := range []string{"vgpu:n=1", "vgpu:n=1,queue=largest-first"} {
		n := enginetest.NewNode(t, policy, enginetest.Small, enginetest.Small)
		n.Submit(rank(1, 1, 2), "1@0")
		n.Submit(rank(2, 2, 2), "")
		n.Submit(movable(3, 1), "3@1")
		n.Submit(rank(4, 1, 2), "")
		n.Exit(3, "4@1")
		n.Exit(1, "2@0")
		n.Submit(rank(5, 2, 2), "5@1")
	}
}

// A job with more ranks than there are slots takes what it gets, and nothing is kept for it.
func TestTooManyRanksTakeWhatTheyGet(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=1", enginetest.Small, enginetest.Small)
	n.Submit(rank(1, 1, 3), "1@0")
	n.Submit(movable(2, 1), "2@1")
}

// Slots of a device that is closed do not count: with one device left, two jobs of two ranks do not begin by turns.
func TestSlotsOfClosedDevicesDoNotCount(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=2", enginetest.Small, enginetest.Small)
	n.Engine.DeviceLost(1, false, 0)
	n.Submit(rank(1, 1, 2), "1@0")
	n.Submit(rank(2, 2, 2), "")
	n.Submit(rank(3, 1, 2), "3@0")
}
