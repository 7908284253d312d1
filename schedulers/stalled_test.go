package schedulers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// hog is small, on which job 1 holds 9 of 16 bytes and asks for 9 more.
func hog(t *testing.T, parameters string) node {
	t.Helper()
	n := newNode(t, "case-alg3:"+parameters, small)
	n.submit(schedulers.Task{ID: 1, Job: 1, Bytes: 9}, "1@0")
	n.submit(schedulers.Task{ID: 2, Job: 1, Bytes: 9}, "")
	return n
}

// A request that only its own job is in the way of holds back nobody.
func TestARequestThatItsOwnJobBlocksStopsNobody(t *testing.T) {
	for _, queue := range []string{"fifo", "mmu", "largest-first", "priority-fifo", "priority-mmu"} {
		t.Run(queue, func(t *testing.T) {
			n := hog(t, "age-limit=2,queue="+queue)
			for id := schedulers.TaskID(10); id < 20; id += 2 {
				n.submit(schedulers.Task{ID: id, Bytes: 4, Priority: -1}, fmt.Sprintf("%d@0", id))
				n.submit(schedulers.Task{ID: id + 1, Bytes: 3, Priority: -1}, fmt.Sprintf("%d@0", id+1))
				n.finish(id, "")
				n.finish(id+1, "")
			}
			ds, err := n.engine.Release(1, 0)
			n.want("release task 1", "2@0", ds, err)
			if ds[0].Passed != 0 {
				t.Errorf("task 2 was passed %d times, want 0", ds[0].Passed)
			}
		})
	}
}

// Nor does one of another job, as long as it waits for such a job; and one that waits for
// that.
func TestWhatWaitsForAWaitingJobStopsNobody(t *testing.T) {
	n := hog(t, "age-limit=1,queue=fifo")
	n.submit(schedulers.Task{ID: 3, Bytes: 10}, "")           // fits, once job 1 has ended
	n.submit(schedulers.Task{ID: 4, Job: 4, Bytes: 3}, "4@0") // 4 are left
	n.submit(schedulers.Task{ID: 5, Job: 4, Bytes: 5}, "")    // its own job has 3 of 7
	n.submit(schedulers.Task{ID: 6, Bytes: 6}, "")            // would fit beside job 1
	n.submit(schedulers.Task{ID: 7, Bytes: 4}, "7@0")
	n.finish(7, "")
	n.submit(schedulers.Task{ID: 8, Bytes: 4}, "8@0")
	n.finish(1, "") // nobody waits for it any more: job 3 is the head
	n.submit(schedulers.Task{ID: 9, Bytes: 1}, "")
	n.finish(8, "3@0")
	n.finish(3, "5@0 6@0 9@0")
}

// Two jobs that hold something and wait for each other stop only each other.
func TestJobsThatWaitForEachOtherStopNobody(t *testing.T) {
	n := newNode(t, "case-alg3:queue=fifo,age-limit=1,wait-limit=10s", small)
	n.submit(schedulers.Task{ID: 1, Job: 1, Bytes: 5}, "1@0")
	n.submit(schedulers.Task{ID: 2, Job: 2, Bytes: 5}, "2@0")
	n.submit(schedulers.Task{ID: 3, Job: 1, Bytes: 8}, "")
	n.submit(schedulers.Task{ID: 4, Bytes: 12}, "") // the head, until job 2 waits too
	n.submit(schedulers.Task{ID: 5, Job: 2, Bytes: 8}, "")
	n.submit(schedulers.Task{ID: 6, Bytes: 6}, "6@0")
	n.finish(6, "")
	n.expire(10*time.Second, "!3 !4 !5")
}

// A second task of a job does not wait behind one that waits for the job's first.
func TestAJobsNextTaskPassesWhatWaitsForTheJob(t *testing.T) {
	for _, queue := range []string{"fifo", "largest-first"} {
		n := newNode(t, "case-alg3:age-limit=1,queue="+queue, small)
		n.submit(schedulers.Task{ID: 1, Job: 1, Bytes: 6}, "1@0")
		n.submit(schedulers.Task{ID: 2, Bytes: 12}, "")
		n.submit(schedulers.Task{ID: 3, Job: 1, Bytes: 3}, "3@0")
		n.submit(schedulers.Task{ID: 4, Job: 1, Bytes: 3}, "4@0")
		n.finish(1, "2@0")
	}
	// It does where the head waits for others.
	n := newNode(t, "case-alg3:queue=fifo", small)
	n.submit(schedulers.Task{ID: 1, Job: 1, Bytes: 1}, "1@0")
	n.submit(schedulers.Task{ID: 2, Bytes: 6}, "2@0")
	n.submit(schedulers.Task{ID: 3, Bytes: 12}, "")
	n.submit(schedulers.Task{ID: 4, Job: 1, Bytes: 1}, "")
	n.finish(2, "3@0 4@0")
}

// Growth that only the job's own other task is in the way of leaves its device open.
func TestGrowthThatItsOwnJobBlocksLeavesTheDeviceOpen(t *testing.T) {
	n := newNode(t, "case-alg3", small)
	n.submit(schedulers.Task{ID: 1, Job: 1, Bytes: 6}, "1@0")
	n.submit(schedulers.Task{ID: 2, Job: 1, Bytes: 5}, "2@0")
	n.grow(1, 7, "")
	n.submit(schedulers.Task{ID: 3, Bytes: 2}, "3@0")
	n.submit(schedulers.Task{ID: 4, Job: 4, Bytes: 1}, "4@0")
	n.grow(4, 4, "") // 2 are left; it waits for job 3, and for that alone
	n.submit(schedulers.Task{ID: 5, Bytes: 2}, "")
	n.finish(3, "+4@0")
	n.release(2, "") // 5 bytes are free, and nobody may take them now
	n.submit(schedulers.Task{ID: 6, Bytes: 1}, "")
	n.finish(4, "+1@0 5@0 6@0")
}

func TestGrowthThatWaitsForAWaitingJobLeavesTheDeviceOpen(t *testing.T) {
	n := hog(t, "queue=mmu")
	n.submit(schedulers.Task{ID: 3, Job: 3, Bytes: 3}, "3@0")
	n.grow(3, 5, "")
	n.submit(schedulers.Task{ID: 4, Bytes: 4}, "4@0")
	n.finish(1, "+3@0")
}

// Where all of a job's tasks on the device wait to grow, the engine decides as before.
func TestGrowthOfAllTasksOfAJob(t *testing.T) {
	n := newNode(t, "case-alg3", small)
	n.submit(schedulers.Task{ID: 1, Job: 1, Bytes: 6}, "1@0")
	n.submit(schedulers.Task{ID: 2, Job: 1, Bytes: 5}, "2@0")
	n.grow(1, 7, "")
	n.grow(2, 7, "-2@0")
	n.release(2, "+1@0")
}

// What is in the way may be the SMs, or a task that the device is too small for.
func TestARequestThatItsOwnBlocksAreInTheWayOf(t *testing.T) {
	n := newNode(t, "case-alg2:queue=fifo", small) // 8 blocks of a warp
	n.submit(schedulers.Task{ID: 1, Job: 1, Blocks: 5, ThreadsPerBlock: 32}, "1@0")
	n.submit(schedulers.Task{ID: 2, Job: 1, Blocks: 4, ThreadsPerBlock: 32}, "")
	n.submit(schedulers.Task{ID: 3, Blocks: 3, ThreadsPerBlock: 32}, "3@0")
	n.finish(3, "")
	n.shape(1, 4, 64, 0, "2@0") // larger, and in fewer blocks

	n = newNode(t, "case-alg2:queue=fifo", small, small)
	n.submit(schedulers.Task{ID: 1, Job: 1, GridUnknown: true}, "1@0")
	n.submit(schedulers.Task{ID: 2, Job: 1, GridUnknown: true, OnDevice: new(0)}, "")
	n.submit(schedulers.Task{ID: 3, GridUnknown: true}, "3@1")
	n.shape(1, 1, 32, 0, "")
	n.submit(schedulers.Task{ID: 4, Blocks: 1, ThreadsPerBlock: 32}, "4@0")
	n.release(1, "")
	n.finish(4, "2@0")
}

// A job's processes count together.
func TestARequestThatAnotherProcessOfItsJobBlocks(t *testing.T) {
	d := small
	d.ContextBytes = 1
	n := newNode(t, "case-alg3:queue=fifo", d)
	n.submit(schedulers.Task{ID: 1, Job: 1, Serial: 1, Bytes: 8}, "1@0")
	n.submit(schedulers.Task{ID: 2, Job: 1, Serial: 2, Bytes: 9}, "") // 7 are free, 1 of them for its context
	n.submit(schedulers.Task{ID: 3, Bytes: 6}, "3@0")
	n.want("exit of process 1", "", n.engine.ProcessExit(schedulers.Process{Job: 1, Serial: 1}, 0), nil)
	n.submit(schedulers.Task{ID: 4, Bytes: 1}, "") // now task 2 waits for job 3
	n.finish(3, "2@0 4@0")
}
