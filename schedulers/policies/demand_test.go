package policies_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// A process starts where the least memory is in use, and stays there.
func TestDemandStartsOnTheLeastLoadedDevice(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small, enginetest.Small)
	n.Submit(movable(1, 3), "1@0")
	n.Submit(movable(2, 5), "2@1")
	n.Submit(movable(3, 3), "3@0")
	n.Submit(movable(4, 1), "4@1")
	n.Submit(schedulers.Task{ID: 5, Job: 4, Bytes: 1}, "5@1") // device 0 has less in use by one
	n.Submit(movable(6, 16), "")                              // all tasks run
	n.Finish(1, "")
	n.Finish(3, "6@0")
}

// The least recently active tasks that do not run lose as much as the burst lacks, and no more.
func TestDemandTakesFromTheLeastRecentlyActive(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 4), "1@0")
	n.Submit(movable(2, 4), "2@0")
	n.Submit(movable(3, 8), "3@0")
	n.Idle(2, ms)
	n.Idle(1, 2*ms)
	n.Submit(movable(4, 6), "yield(2,4) yield(1,2)") // task 3 runs
	n.Give(1, "")
	n.Give(2, "4@0")
	if got := n.Task(1); got.Resident != 2 || got.Permit {
		t.Errorf("task 1 has %+v", got)
	}
	n.Resume(1, 2, 4, "") // nobody is idle
	n.Idle(3, 3*ms)
	n.Tick(5*ms, "yield(3,2)")
	n.Give(3, "^1@0")
}

// What there is to take is taken at once. The task's own memory goes last.
func TestDemandTakesWhatThereIs(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	task := movable(1, 20)
	task.Need = new(int64(6))
	n.Submit(task, "1@0")
	n.Submit(movable(2, 5), "2@0")
	n.Submit(movable(3, 5), "3@0")
	n.Idle(2, ms)
	n.Resume(1, 10, 12, "yield(2,5) evict(1,4)") // 2 of its 6 bytes are referenced
	n.Give(2, "")
	n.Give(1, "") // it still lacks one
	n.Idle(3, 2*ms)
	n.Tick(5*ms, "yield(3,1)")
	n.Give(3, "^1@0")
}

// A task that was granted its device is not idle before a call of it has ended since.
func TestDemandLeavesEachBurstItsTurn(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Idle(1, ms)
	n.Submit(movable(2, 10), "yield(1,4)")
	n.Answer(1, schedulers.Done, 6, 2*ms, "2@0")
	ds, err := n.Engine.Resume(1, 4, 10, 3*ms)
	n.Want("resume task 1", "", ds, err)
	n.Idle(2, 2*ms) // as its page said before it was granted
	n.Tick(5*ms, "")
	n.Idle(2, 4*ms)
	n.Tick(10*ms, "yield(2,4)")
	n.Give(2, "^1@0")
}

// A task that gave less than it was asked for is not asked for the rest, however long it is idle, before it has launched or
// waits to.
func TestTasksThatGaveLessAreAskedOnceTheyHaveLaunched(t *testing.T) {
	for policy, asked := range map[string][2]string{"demand": {"yield(1,8)", "yield(1,6)"}, "vgpu:victims=0": {"yield(1,12)", "yield(1,10)"}} {
		for _, resumes := range []bool{false, true} {
			n := enginetest.NewNode(t, policy, enginetest.Small)
			n.Submit(movable(1, 12), "1@0")
			n.Idle(1, ms)
			n.Submit(movable(2, 12), asked[0])
			n.Answer(1, schedulers.Done, 10, 2*ms, "")
			for at := 5 * ms; at < time.Second; at += 5 * ms {
				n.Idle(1, ms)
				n.Tick(at, "")
			}
			if resumes {
				ds, err := n.Engine.Resume(1, 0, 2, time.Second)
				n.Want("resume", "^1@0", ds, err)
			}
			n.Idle(1, time.Second+ms)
			n.Tick(time.Second+5*ms, asked[1])
			n.Answer(1, schedulers.Done, 4, time.Second+6*ms, "2@0")
		}
	}
}

// A request that has waited too long gets memory of tasks that run, too, which give it once their kernels end. Its job may say how long
// that is.
func TestDemandEndsTurnsForWhoWaitsTooLong(t *testing.T) {
	n := enginetest.NewNode(t, "demand:wait=1s", enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	n.Submit(movable(2, 10), "")
	n.Tick(999*ms, "")
	n.Tick(1000*ms, "yield(1,4)")
	n.Give(1, "2@0")
	ds, err := n.Engine.Resume(1, 4, 10, 1000*ms)
	n.Want("resume task 1", "", ds, err) // it waits as long again
	n.Tick(1999*ms, "")
	n.Tick(2000*ms, "yield(2,4)")
	n.Give(2, "^1@0")
}
