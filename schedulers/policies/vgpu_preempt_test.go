package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

const preempt = "vgpu-preempt:n=1"

// nodeWith returns a node of so many devices with a context of one byte's memory for each of the ids, in this order: those that find
// a slot have it at the places that are given.
func nodeWith(t *testing.T, scheduler string, devices int, contexts int, places ...string) enginetest.Node {
	t.Helper()
	n := enginetest.NewNode(t, scheduler, slices.Repeat([]schedulers.Device{enginetest.Small}, devices)...)
	for i := range contexts {
		want := ""
		if i < len(places) {
			want = places[i]
		}
		n.Submit(movable(schedulers.TaskID(i+1), 1), want)
	}
	return n
}

// preempted has the task's call end at the time, so that it loses its slot 10 ms later. want is what follows.
func preempted(n enginetest.Node, id schedulers.TaskID, at time.Duration, want string) {
	n.Idle(id, at)
	n.Tick(at+9999*time.Microsecond, "")
	n.Tick(at+10*ms, fmt.Sprintf("yield(%d,0)", id))
	n.Give(id, want)
}

// Figure 3-6: contexts 11, 12 and 13 of one application, which meet, are tasks 1 to 3, and context 21 of another is task 4.
func TestPreemptionCycle(t *testing.T) {
	for scheduler, gives := range map[string]int64{"vgpu-preempt": 0, "vgpu-preempt:n=2,copy=needed,idle=10ms": 0, "vgpu-preempt:copy=always": 1} {
		n := nodeWith(t, scheduler, 1, 2, "1@0", "2@0") // steps 1 and 2
		n.Idle(1, ms)
		n.Idle(2, 2*ms)
		if next := n.Engine.NextTick(); next != schedulers.Never {
			t.Errorf("%s: nobody waits, and the next tick is at %v", scheduler, next)
		}
		n.Submit(movable(3, 1), "")
		n.Submit(movable(4, 1), "")
		if next := n.Engine.NextAct(); next != 11*ms {
			t.Errorf("%s: it acts at %v", scheduler, next)
		}
		n.Tick(11*ms, fmt.Sprintf("yield(1,%d)", gives)) // step 3
		if r := n.Revocation(1); r.For != schedulers.Nobody || r.Deadline != 100*ms {
			t.Errorf("%s: %+v", scheduler, r)
		}
		n.Tick(12*ms, fmt.Sprintf("yield(2,%d)", gives))
		n.Give(1, "3@0")
		n.Give(2, "4@0")
		n.Idle(4, 20*ms) // steps 4 and 5: the third is at the meeting point, and the first two have calls to issue
		n.Resume(1, gives, 1, "")
		n.Resume(2, gives, 1, "")
		n.Tick(30*ms, fmt.Sprintf("yield(4,%d)", gives))
		n.Give(4, "^1@0")
		n.Finish(3, "^2@0")
		n.Resume(4, gives, 1, "")
		n.Finish(1, "^4@0")
	}
}

// Figure 3-2: A1 to A4 are tasks 1 to 4, B1 and B2 5 and 6, C1 and C2 7 and 8.
func TestIntraApplicationImbalance(t *testing.T) {
	four := []string{"1@0", "2@1", "3@2", "4@3"}
	// (a) Batch: GPU0, GPU1 and GPU3 stay idle until A3 comes to the end of both of its phases.
	n := nodeWith(t, "vgpu:n=1", 4, 8, four...)
	for _, id := range []schedulers.TaskID{1, 2, 4} {
		n.Idle(id, ms)
	}
	n.Tick(time.Hour, "")
	for i, want := range []string{"5@0", "6@1", "7@2", "8@3"} {
		n.Finish(schedulers.TaskID(i+1), want)
	}
	// (b) Two-way sharing.
	nodeWith(t, "vgpu:n=2", 4, 8, append(four, "5@0", "6@1", "7@2", "8@3")...)
	// (c) Preemption: B2, C2 and B1 execute on GPU0, GPU1 and GPU3 while A1, A2 and A4 wait for A3, and then C1 on GPU3.
	n = nodeWith(t, preempt, 4, 8, four...)
	preempted(n, 4, ms, "5@3")
	preempted(n, 1, 20*ms, "6@0")
	preempted(n, 5, 40*ms, "7@3")
	preempted(n, 2, 60*ms, "8@1")
	n.Idle(3, 80*ms)
	n.Tick(100*ms, "") // nobody waits, so it keeps GPU2 and begins its second phase without asking
	for _, id := range []schedulers.TaskID{1, 2, 4} {
		n.Resume(id, 0, 1, "")
	}
	preempted(n, 6, 100*ms, "^1@0") // where it has been: to move it elsewhere is not built
	preempted(n, 7, 120*ms, "^4@3")
	n.Finish(8, "^2@1")
}

// moving is a task of a process of its own that can also go to another device.
func moving(id schedulers.TaskID, bytes int64) schedulers.Task {
	t := movable(id, bytes)
	t.Can |= 1 << schedulers.Move
	return t
}

// waiting is a node of two devices with a slot each: tasks 3 and 2 have them, and 1, which has lost its slot, waits for one.
func waiting(t *testing.T, first schedulers.Task) enginetest.Node {
	t.Helper()
	n := enginetest.NewNode(t, preempt, enginetest.Small, enginetest.Small)
	n.Submit(first, "1@0")
	n.Submit(moving(2, 5), "2@1")
	n.Submit(moving(3, 1), "")
	preempted(n, 1, ms, "3@0")
	n.Resume(1, 0, first.Bytes, "")
	return n
}

// A context that waits for a slot goes to a free one of any device (section 3.6.2), and has it from when it is asked to move.
func TestAContextThatWaitsGoesToAnyDevice(t *testing.T) {
	n := waiting(t, moving(1, 7))
	n.Finish(2, "move(1,7)")
	if r := n.Revocation(1); r.Device != 1 || r.For != schedulers.Nobody || r.Deadline != 100*ms {
		t.Errorf("%+v", r)
	}
	n.Submit(moving(4, 1), "") // no slot is free
	n.Finish(4, "")
	n.Idle(3, 20*ms)
	n.Tick(time.Second, "") // the only request has found a slot
	n.Give(1, "^1@1")
	n.Finish(3, "")
	n.Idle(1, 2*time.Second)
	n.Tick(time.Hour, "") // nobody waits
}

// Who is idle gives way to it on each device.
func TestAContextThatWaitsForASlotOfAnyDevice(t *testing.T) {
	n := waiting(t, moving(1, 7))
	preempted(n, 2, 20*ms, "move(1,7)")
	n.Resume(2, 0, 5, "")
	n.Give(1, "^1@1")
	n.Finish(3, "move(2,5)")
	n.Give(2, "^2@0")
}

// A context that cannot move, or not as a whole, waits for its own device.
func TestAContextThatCannotMoveStays(t *testing.T) {
	n := waiting(t, movable(1, 7))
	n.Finish(2, "")
	n.Finish(3, "^1@0")

	pinned := moving(1, 7)
	pinned.OnDevice = new(0)
	n = waiting(t, pinned)
	n.Finish(2, "")

	n = waiting(t, moving(1, 7))
	n.Finish(2, "move(1,7)")
	n.Answer(1, schedulers.Unable, 7, time.Second, "")
	n.Idle(3, 2*time.Second)
	n.Submit(moving(5, 1), "5@1")
	n.Idle(5, 2*time.Second)
	n.Tick(3*time.Second, "yield(3,0)") // but not of device 1
	n.Give(3, "^1@0")

	n = enginetest.NewNode(t, preempt, enginetest.Small, enginetest.Small)
	for id, want := range []string{"1@0", "2@0"} {
		task := moving(schedulers.TaskID(id+1), 1)
		task.Job = 1
		n.Submit(task, want)
	}
	n.Submit(moving(3, 1), "3@1")
	n.Submit(moving(4, 1), "")
	n.Idle(1, ms)
	n.Idle(2, ms)
	n.Tick(11*ms, "yield(1,0) yield(2,0)")
	n.Give(1, "4@0")
	n.Give(2, "")
	n.Resume(1, 0, 1, "")
	n.Finish(3, "")
}

// What others have without a slot makes room for a context that comes. If it does not fit beside that, its own memory goes to the host before. It
// stays if there will be no room.
func TestMemoryOfAContextThatMoves(t *testing.T) {
	for _, c := range []struct {
		others, fixed int64
		asks          []string // of task 1
		room          bool     // is made
	}{
		{4, 4, []string{"move(1,12)", "^1@1"}, false},
		{6, 0, []string{"yield(1,12)", "move(1,0)"}, true},
		{6, 2, []string{"yield(1,12)", "move(1,0)"}, true},
		{6, 6, []string{""}, false},
	} {
		n := enginetest.NewNode(t, preempt, enginetest.Small, enginetest.Small)
		n.Submit(moving(1, 12), "1@0")
		n.Submit(movable(2, c.others), "2@1")
		n.Submit(movable(3, 1), "")
		n.Idle(1, ms)
		n.Idle(2, ms)
		n.Tick(11*ms, "yield(1,0) yield(2,0)")
		n.Give(1, "3@0")
		n.Give(2, "")
		if err := n.Engine.Active(2, schedulers.Activity{Fixed: c.fixed}, 12*ms); err != nil {
			t.Fatal(err)
		}
		n.Resume(1, 0, 12, c.asks[0])
		for _, next := range c.asks[1:] {
			n.Give(1, next)
		}
		if c.room {
			n.Give(1, fmt.Sprintf("yield(2,%d)", c.others-c.fixed))
			n.Give(2, "^1@1")
		}
	}
}

// Figure 3-3: A1 to A3 are tasks 1 to 3, B1 to B3 4 to 6, and C1 to C3 7 to 9.
func TestInterApplicationImbalance(t *testing.T) {
	four := []string{"1@0", "2@1", "3@2", "4@3"}
	both := append(slices.Clone(four), "5@0", "6@1", "7@2", "8@3")
	// (b) Two-way sharing: GPU0 is shared by A1 and B2, GPU1 by A2 and B3. C3 waits for the end of a job.
	n := nodeWith(t, "vgpu:n=2", 4, 9, both...)
	for id := range schedulers.TaskID(8) {
		n.Idle(id+1, ms)
	}
	n.Tick(time.Hour, "")
	n.Finish(2, "9@1")
	// (c) Preemption: whoever waits at a meeting point gives way, until all have had their first phase.
	n = nodeWith(t, preempt, 4, 9, four...)
	for i, at := range []string{"5@0", "6@1", "7@2", "8@3", "9@0"} {
		preempted(n, schedulers.TaskID(i+1), time.Duration(20*i)*ms+ms, at)
	}
	n.Resume(1, 0, 1, "")
	preempted(n, 9, 101*ms, "^1@0")
	// (d) Both: C3 waits for no job's end. All that are idle give way while it waits, as in the dissertation.
	n = nodeWith(t, "vgpu-preempt", 4, 9, both...)
	n.Idle(1, ms)
	n.Idle(2, ms)
	n.Tick(11*ms, "yield(1,0) yield(2,0)")
	n.Give(1, "9@0")
	n.Resume(1, 0, 1, "")
	n.Give(2, "")
	n.Resume(2, 0, 1, "^2@1")
}

// Example of slots in section 3.3.2: those of vgpu.
func TestPreemptionTakesSlotsAsVirtualGPUs(t *testing.T) {
	nodeWith(t, "vgpu-preempt", 4, 9, "1@0", "2@1", "3@2", "4@3", "5@0", "6@1", "7@2", "8@3")
}

// Of a device that no request may have nobody loses a slot.
func TestPreemptionWhereItHelps(t *testing.T) {
	n := nodeWith(t, preempt, 2, 2, "1@0", "2@1")
	n.Submit(schedulers.Task{ID: 3, OnDevice: new(1), Bytes: 1, Can: schedulers.Movable}, "")
	n.Idle(1, ms)
	n.Idle(2, ms)
	n.Tick(11*ms, "yield(2,0)")
	n.Give(2, "3@1")
	n.Resume(2, 0, 1, "") // it comes back to its device, too
	n.Tick(100*ms, "")
	preempted(n, 3, 200*ms, "^2@1")
}

// The slot goes without the memory. Whoever needs the memory has it made free, by several contexts without a slot too.
func TestPreemptedMemoryGoesWhenItIsNeeded(t *testing.T) {
	n := enginetest.NewNode(t, preempt, enginetest.Small)
	n.Submit(movable(1, 5), "1@0")
	n.Submit(movable(2, 6), "")
	n.Submit(movable(3, 14), "")
	preempted(n, 1, ms, "2@0") // beside what the first has
	n.Idle(2, 20*ms)
	n.Tick(30*ms, "yield(2,0)")
	n.Give(2, "yield(1,5) yield(2,6)")
	n.Give(1, "")
	n.Give(2, "3@0")
	n.Resume(1, 5, 5, "")
	n.Idle(3, 40*ms)
	n.Tick(50*ms, "yield(3,0)")
	n.Give(3, "yield(3,14)")
	n.Give(3, "^1@0")
	n.Finish(1, "")
	n.Resume(2, 6, 6, "^2@0") // what it had lost
}

// A context is idle if all of its tasks are. A task that waits to grow is not idle.
func TestAContextIsIdleAsAWhole(t *testing.T) {
	n := enginetest.NewNode(t, preempt, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 4, Can: schedulers.Movable}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 4, Can: schedulers.Movable}, "2@0")
	n.Submit(movable(3, 8), "")
	n.Idle(1, ms)
	n.Tick(50*ms, "")
	n.Idle(2, 55*ms)
	n.Grow(1, 9, "evict(2,1)")
	n.Tick(time.Second, "")
	n.Give(2, "+1@0")
	n.Tick(1010*ms, "yield(1,0) yield(2,0)")
	n.Give(2, "")
	n.Give(1, "yield(1,13) yield(2,3)")
	n.Give(1, "3@0")
	if n.Task(1).Permit {
		t.Error("a task kept the permit that its context has lost")
	}
}

// A context whose last task has ended has nothing to give, and nobody waits for it.
func TestAContextWithoutATaskHasNoSlot(t *testing.T) {
	n := nodeWith(t, preempt, 1, 2, "1@0")
	n.Release(1, "2@0")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 1, Can: schedulers.Movable}, "")
	preempted(n, 2, ms, "3@0")
}

// A process that works when it is asked declines. One that cannot give way keeps its slot to its end.
func TestWhoDoesNotGiveWay(t *testing.T) {
	n := nodeWith(t, preempt, 1, 2, "1@0")
	n.Idle(1, ms)
	n.Tick(11*ms, "yield(1,0)")
	n.Answer(1, schedulers.Busy, 1, 20*ms, "")
	n.Tick(119*ms, "")
	n.Tick(120*ms, "yield(1,0)")
	n.Answer(1, schedulers.Unable, 1, 121*ms, "")
	n.Tick(time.Hour, "")
	n.Finish(1, "2@0")
}

// By a checkpoint contexts give way rarely, unless the user says otherwise, and have longer to end their work.
func TestCheckpointsAreRare(t *testing.T) {
	for text, idle := range map[string]string{"vgpu-preempt:via=checkpoint": "10s", "vgpu-preempt:via=checkpoint,idle=10ms": "10ms", "vgpu-preempt": "10ms"} {
		s, err := policies.Parse(text, 1)
		if err != nil || s.Checkpoints == (text == "vgpu-preempt") || s.Swaps() == s.Checkpoints || !strings.Contains(s.Parameters(), "idle="+idle+",") {
			t.Errorf("%s: %s, checkpoints %v (%v)", text, s.Parameters(), s.Checkpoints, err)
		}
	}
	n := nodeWith(t, "vgpu-preempt:n=1,via=checkpoint", 1, 1, "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 1), "")
	n.Tick(10*time.Second, "")
	n.Tick(10*time.Second+ms, "yield(1,0)")
	if r := n.Revocation(1); r.Deadline != 10*time.Second {
		t.Errorf("%+v", r)
	}
}
