package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// hog is enginetest.Small, on which job 1 holds 9 of 16 bytes and asks for 9 more.
func hog(t *testing.T, parameters string) enginetest.Node {
	t.Helper()
	n := enginetest.NewNode(t, "case-alg3:"+parameters, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 9}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 9}, "")
	return n
}

// A request that only its own job blocks does not hold back other requests.
func TestARequestThatItsOwnJobBlocksStopsNobody(t *testing.T) {
	for _, queue := range []string{"fifo", "mmu", "largest-first", "priority-fifo", "priority-mmu"} {
		t.Run(queue, func(t *testing.T) {
			n := hog(t, "age-limit=2,queue="+queue)
			for id := schedulers.TaskID(10); id < 20; id += 2 {
				n.Submit(schedulers.Task{ID: id, Bytes: 4, Priority: -1}, fmt.Sprintf("%d@0", id))
				n.Submit(schedulers.Task{ID: id + 1, Bytes: 3, Priority: -1}, fmt.Sprintf("%d@0", id+1))
				n.Finish(id, "")
				n.Finish(id+1, "")
			}
			ds, err := n.Engine.Release(1)
			n.Want("release task 1", "2@0", ds, err)
			if ds[0].Passed != 0 {
				t.Errorf("task 2 was passed %d times, want 0", ds[0].Passed)
			}
		})
	}
}

// A request of another job does not hold back others either, as long as it waits for a job
// that waits, directly or through another request.
func TestWhatWaitsForAWaitingJobStopsNobody(t *testing.T) {
	n := hog(t, "age-limit=1,queue=fifo")
	n.Submit(schedulers.Task{ID: 3, Bytes: 10}, "")           // fits once job 1 has ended
	n.Submit(schedulers.Task{ID: 4, Job: 4, Bytes: 3}, "4@0") // 4 are left
	n.Submit(schedulers.Task{ID: 5, Job: 4, Bytes: 5}, "")    // its own job has 3 of 7
	n.Submit(schedulers.Task{ID: 6, Bytes: 6}, "")            // would fit beside job 1
	n.Submit(schedulers.Task{ID: 7, Bytes: 4}, "7@0")
	n.Finish(7, "")
	n.Submit(schedulers.Task{ID: 8, Bytes: 4}, "8@0")
	n.Finish(1, "") // no request waits for job 1 any more: task 3 is the head
	n.Submit(schedulers.Task{ID: 9, Bytes: 1}, "")
	n.Finish(8, "3@0")
	n.Finish(3, "5@0 6@0 9@0")
}

// Two jobs that hold something and wait for each other stop only each other.
func TestJobsThatWaitForEachOtherStopNobody(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=fifo,age-limit=1,wait-limit=10s", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 5}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 5}, "2@0")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 8}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 12}, "") // the head, until job 2 waits too
	n.Submit(schedulers.Task{ID: 5, Job: 2, Bytes: 8}, "")
	n.Submit(schedulers.Task{ID: 6, Bytes: 6}, "6@0")
	n.Finish(6, "")
	n.Expire(10*time.Second, "!3 !4 !5")
}

// A second task of a job does not wait behind a task that waits for the job's first task.
func TestAJobsNextTaskPassesWhatWaitsForTheJob(t *testing.T) {
	for _, queue := range []string{"fifo", "largest-first"} {
		n := enginetest.NewNode(t, "case-alg3:age-limit=1,queue="+queue, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 6}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 12}, "")
		n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 3}, "3@0")
		n.Submit(schedulers.Task{ID: 4, Job: 1, Bytes: 3}, "4@0")
		n.Finish(1, "2@0")
	}
	// The second task waits if the head waits for another job.
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 1}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 6}, "2@0")
	n.Submit(schedulers.Task{ID: 3, Bytes: 12}, "")
	n.Submit(schedulers.Task{ID: 4, Job: 1, Bytes: 1}, "")
	n.Finish(2, "3@0 4@0")
}

// Growth that only another task of the same job blocks leaves the device open.
func TestGrowthThatItsOwnJobBlocksLeavesTheDeviceOpen(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 6}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 5}, "2@0")
	n.Grow(1, 7, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 2}, "3@0")
	n.Submit(schedulers.Task{ID: 4, Job: 4, Bytes: 1}, "4@0")
	n.Grow(4, 4, "") // 2 are left; task 4 waits only for job 3
	n.Submit(schedulers.Task{ID: 5, Bytes: 2}, "")
	n.Finish(3, "+4@0")
	n.Release(2, "") // 5 bytes are free, but no task may take them now
	n.Submit(schedulers.Task{ID: 6, Bytes: 1}, "")
	n.Finish(4, "+1@0 5@0 6@0")
}

func TestGrowthThatWaitsForAWaitingJobLeavesTheDeviceOpen(t *testing.T) {
	n := hog(t, "queue=mmu")
	n.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 3}, "3@0")
	n.Grow(3, 5, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 4}, "4@0")
	n.Finish(1, "+3@0")
}

// If all of a job's tasks on the device wait to grow, the engine refuses the latest growth.
func TestGrowthOfAllTasksOfAJob(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 6}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 5}, "2@0")
	n.Grow(1, 7, "")
	n.Grow(2, 7, "-2@0")
	n.Release(2, "+1@0")
}

// The job may block itself by SMs, or by a task that is larger than the device.
func TestARequestThatItsOwnBlocksAreInTheWayOf(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg2:queue=fifo", enginetest.Small) // 8 blocks of a warp
	n.Submit(schedulers.Task{ID: 1, Job: 1, Blocks: 5, ThreadsPerBlock: 32}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Blocks: 4, ThreadsPerBlock: 32}, "")
	n.Submit(schedulers.Task{ID: 3, Blocks: 3, ThreadsPerBlock: 32}, "3@0")
	n.Finish(3, "")
	n.Shape(1, 4, 64, 0, "2@0") // larger, and in fewer blocks

	n = enginetest.NewNode(t, "case-alg2:queue=fifo", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Job: 1, GridUnknown: true}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, GridUnknown: true, OnDevice: new(0)}, "")
	n.Submit(schedulers.Task{ID: 3, GridUnknown: true}, "3@1")
	n.Shape(1, 1, 32, 0, "")
	n.Submit(schedulers.Task{ID: 4, Blocks: 1, ThreadsPerBlock: 32}, "4@0")
	n.Release(1, "")
	n.Finish(4, "2@0")
}

// A job's processes count together.
func TestARequestThatAnotherProcessOfItsJobBlocks(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 1
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", d)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Serial: 1, Bytes: 8}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Serial: 2, Bytes: 9}, "") // 7 are free, 1 of them for its context
	n.Submit(schedulers.Task{ID: 3, Bytes: 6}, "3@0")
	n.Want("exit of process 1", "", n.Engine.ProcessExit(schedulers.Process{Job: 1, Serial: 1}), nil)
	n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "") // now task 2 waits for job 3
	n.Finish(3, "2@0 4@0")
}
