package engine_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// restartable is a task of a job that may be started again.
func restartable(id schedulers.TaskID, bytes int64, times int) schedulers.Task {
	return schedulers.Task{ID: id, Bytes: bytes, Can: schedulers.Movable, Terms: &schedulers.Terms{Restarts: times}}
}

// In a deadlock on a device the job starts again that has had its device for the shortest time, of those that may. It needs what
// it had and what it asked for. What it had comes back when it exits.
func TestADeadlockStartsAJobAgain(t *testing.T) {
	for _, scheduler := range []string{"case-alg3", "case-alg2", "schedgpu", "vgpu:n=4", "demand"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small)
		fixed := func(id schedulers.TaskID, want string) {
			t.Helper()
			task := restartable(id, 4, 1)
			task.Can = 0
			n.Submit(task, want)
		}
		fixed(1, "1@0")
		fixed(2, "2@0")
		n.Submit(schedulers.Task{ID: 3, Bytes: 8}, "3@0") // has come last, and may not be started again
		n.Grow(3, 4, "")
		n.Grow(2, 3, "")
		n.Grow(1, 2, "restart(2,7)")
		n.Exit(2, "+3@0")
		n.Exit(3, "+1@0")
		again := restartable(4, 7, 0)
		again.Job = 2
		n.Submit(again, "4@0")
	}
}

// Nothing starts again where that would not help: a job that waits for nobody else, or for more than a device has. Nor a job that
// has no restart left. The refusal says that it ends a deadlock.
func TestARestartThatDoesNotHelpIsARefusal(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(restartable(1, 8, 2), "1@0")
	second := restartable(2, 8, 2)
	second.Job = 1
	n.Submit(second, "2@0")
	n.Grow(1, 2, "")
	n.Grow(2, 2, "-2@0") // its own job holds what it needs

	n = enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(restartable(1, 5, 2), "1@0")
	second.Bytes = 5
	n.Submit(second, "2@0")
	n.Submit(schedulers.Task{ID: 3, Bytes: 6}, "3@0")
	n.Grow(1, 8, "")
	n.Grow(2, 8, "")
	ds, err := n.Engine.Grow(3, 8, nil, 0)
	n.Want("grow task 3 by 8", "-3@0", ds, err) // job 1 would need 26
	if r := ds[0].Reason; !r.Deadlock {
		t.Errorf("refused with %+v", r)
	}

	n = enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(restartable(1, 8, 0), "1@0")
	n.Submit(restartable(2, 8, 0), "2@0")
	n.Grow(1, 2, "")
	n.Grow(2, 2, "-2@0")
	n.Grow(2, 9, "-2@0") // at once: it is larger than the device
}

// On the node, too, a job starts again: one that waits to grow, or else one whose context others wait for.
func TestADeadlockOfTheNodeStartsAJobAgain(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small, enginetest.Small)
	more := func(id schedulers.TaskID, job schedulers.JobID, want string) {
		t.Helper()
		task := restartable(id, 8, 1)
		task.Job = job
		n.Submit(task, want)
	}
	for device := range 2 {
		here := func(task schedulers.Task) schedulers.Task {
			task.OnDevice = &device
			return task
		}
		first := schedulers.TaskID(1 + 3*device)
		at := func(id schedulers.TaskID) string {
			return schedtest.Text([]schedulers.Decision{{Task: schedulers.Task{ID: id}, Device: device}})
		}
		n.Submit(here(restartable(first, 1, 1)), at(first))
		n.Release(first, "") // its context stays
		n.Submit(here(restartable(first+1, 8, 1)), at(first+1))
		n.Submit(here(schedulers.Task{ID: first + 2, Bytes: 8}), at(first+2))
	}
	more(7, 1, "") // may go to another device, as far as one device tells
	more(8, 4, "")
	n.Grow(2, 1, "")
	n.Grow(3, 1, "")
	n.Grow(5, 2, "")
	n.Grow(6, 1, "restart(5,10)")
	n.Exit(5, "+6@1")

	small := enginetest.Small
	small.ContextBytes = 6
	n = enginetest.NewNode(t, "case-alg3", small)
	for id := range schedulers.TaskID(2) {
		n.Submit(restartable(id+1, 1, 1), map[schedulers.TaskID]string{0: "1@0", 1: "2@0"}[id])
	}
	n.Release(1, "")
	n.Release(2, "")
	more(3, 1, "")
	more(4, 2, "restart(4,8)")
	n.Exit(2, "3@0")
}
