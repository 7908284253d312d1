package engine_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

func limit(t *testing.T, n enginetest.Node, job schedulers.JobID, devices int, want string) {
	t.Helper()
	n.Want("limit", want, n.Engine.Limit(job, devices, 0), nil)
}

// A job that may use no device gets nothing, and holds back nobody. Once the limit is lifted it is served in its turn.
func TestALimitWithholdsGrants(t *testing.T) {
	for _, scheduler := range []string{"case-alg3:queue=fifo", "schedgpu:queue=fifo", "case-alg2:queue=mmu", "demand:queue=fifo", "vgpu:queue=fifo"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small)
		limit(t, n, 2, 0, "")
		n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 8}, "")
		n.Submit(schedulers.Task{ID: 3, Bytes: 8}, "")
		n.Submit(schedulers.Task{ID: 4, Bytes: 8, Wait: new(time.Duration(0)), Job: 2}, "!4")
		if n.Engine.Waiting() != 1 {
			t.Errorf("%s: %d requests are in the queue, want one", scheduler, n.Engine.Waiting())
		}
		n.Finish(1, "3@0")
		n.Submit(schedulers.Task{ID: 5, Bytes: 8}, "5@0")
		n.Submit(schedulers.Task{ID: 6, Bytes: 8}, "")
		limit(t, n, 2, engine.NoLimit, "")
		n.Finish(3, "2@0") // before task 6
		n.Finish(5, "6@0")
	}
}

// A withheld request does not age.
func TestAWithheldRequestDoesNotAge(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=mmu,age-limit=2", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 16}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "3@0") // it passes task 2
	limit(t, n, 2, 0, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "4@0")
	n.Submit(schedulers.Task{ID: 5, Bytes: 1}, "5@0")
	limit(t, n, 2, engine.NoLimit, "")
	n.Submit(schedulers.Task{ID: 6, Bytes: 1}, "6@0") // and so does this
	n.Submit(schedulers.Task{ID: 7, Bytes: 1}, "")
	for _, id := range []schedulers.TaskID{1, 3, 4, 5} {
		n.Finish(id, "")
	}
	limit(t, n, 2, 0, "7@0") // it would hold back others no more
	limit(t, n, 2, engine.NoLimit, "")
	n.Finish(7, "")
	n.Finish(6, "2@0")
}

// The wait limit of a withheld request goes on.
func TestAWithheldRequestExpires(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:wait-limit=10s", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 4}, "1@0")
	limit(t, n, 1, 0, "")
	n.Grow(1, 4, "")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 1}, "")
	if at := n.Engine.NextExpiry(); at != 10*time.Second {
		t.Errorf("the next wait is over at %v", at)
	}
	n.Expire(10*time.Second, "!2 -1@0")
}

// Growth is withheld too, and does not close the device. What waits for memory of a job with a limit is not in deadlock.
func TestALimitWithholdsGrowth(t *testing.T) {
	for _, scheduler := range []string{"case-alg3", "demand"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 6}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 6}, "2@0")
		n.Grow(1, 6, "")
		n.Submit(schedulers.Task{ID: 3, Bytes: 2}, "") // task 1 waits for it
		limit(t, n, 1, 0, "3@0")
		n.Grow(2, 6, "") // no deadlock
		n.Grow(3, 6, "")
		limit(t, n, 1, engine.NoLimit, "-3@0")
		n.Exit(3, "-2@0")
		n.Exit(2, "+1@0")
	}
}

// A job that may use one device gets what it asks for there alone, until it leaves it.
func TestALimitOfDevices(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", enginetest.Small, enginetest.Small)
	one := func(id schedulers.TaskID, bytes int64, device *int) schedulers.Task {
		return schedulers.Task{ID: id, Job: 1, Bytes: bytes, OnDevice: device}
	}
	limit(t, n, 1, 1, "")
	n.Submit(one(1, 8, nil), "1@0")
	n.Submit(one(2, 8, nil), "2@0")
	n.Submit(one(3, 1, new(1)), "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 8}, "4@1") // task 3 holds it back no more than
	n.Submit(one(5, 8, nil), "")                      // this one does, which its own job withholds from it
	n.Submit(schedulers.Task{ID: 6, Bytes: 4}, "6@1")
	n.Release(1, "5@0")
	limit(t, n, 1, 2, "3@1")
	limit(t, n, 1, 1, "")
	n.Grow(3, 1, "")
	n.Grow(5, 1, "")
	n.Release(2, "+5@0")
	n.Release(5, "+3@1") // what it came to last is its only device now
	n.Submit(one(7, 1, nil), "7@1")
	n.Exit(1, "")
	n.Submit(one(8, 16, new(0)), "8@0")
	n.Submit(one(9, 1, new(1)), "9@1") // the limit has gone with the job
}

// Under a Preempter a job gives up what it may not use, once it can. It resumes in its turn.
func TestALimitTakesBack(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=1", enginetest.Small, enginetest.Small)
	n.Submit(movable(1, 10), "1@0")
	task := movable(2, 12)
	task.Job, task.OnDevice = 1, new(1)
	n.Submit(task, "2@1")
	limit(t, n, 1, 1, "yield(2,12)")
	if r := n.Revocation(2); r.For != schedulers.Nobody || r.Deadline != time.Second {
		t.Errorf("revocation %+v", r)
	}
	n.Answer(2, schedulers.Busy, 0, 0, "")
	if next := n.Engine.NextTick(); next != time.Second {
		t.Errorf("a busy task is asked again at %v", next)
	}
	n.Tick(time.Second, "yield(2,12)")
	n.Give(2, "")
	n.Resume(2, 12, 12, "")
	n.Submit(movable(3, 10), "3@1")
	limit(t, n, 1, 0, "yield(1,10)")
	n.Give(1, "")
	n.Resume(1, 10, 10, "")
	n.Exit(3, "")
	if next := n.Engine.NextTick(); next != schedulers.Never {
		t.Errorf("nothing waits, and the next tick is at %v", next)
	}
	limit(t, n, 1, 1, "^2@1") // it asked first, and uses no device
	limit(t, n, 1, engine.NoLimit, "^1@0")
}

// A task that keeps what it has is not asked for ever.
func TestALimitOfATaskThatGivesNothing(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 4}, "1@0") // nothing of it can move
	limit(t, n, 1, 0, "")
	n.Submit(movable(2, 4), "2@0")
	limit(t, n, 2, 0, "yield(2,4)")
	n.Answer(2, schedulers.Unable, 0, 0, "")
	n.Submit(movable(3, 4), "3@0")
	limit(t, n, 3, 0, "yield(3,4)")
	n.Answer(3, schedulers.Done, 4, 0, "")
	if n.Task(3).Permit || !n.Task(2).Permit {
		t.Errorf("task 2 has %+v, task 3 %+v", n.Task(2), n.Task(3))
	}
}
