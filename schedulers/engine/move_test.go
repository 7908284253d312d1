package engine_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// all is what a process can do that can do all.
const all = schedulers.Movable | 1<<schedulers.Advise | 1<<schedulers.Move | 1<<schedulers.Stop

func able(id schedulers.TaskID, bytes int64) schedulers.Task {
	return schedulers.Task{ID: id, Bytes: bytes, Can: all}
}

func to(device int, task schedulers.TaskID) schedulers.Revocation {
	return schedulers.Revocation{Task: task, Action: schedulers.Move, Device: device, Deadline: 100 * ms, For: schedulers.Nobody}
}

// two is a node of two devices, each with 16 bytes, of which a context takes 1.
func two(t *testing.T, scheduler string) enginetest.Node {
	t.Helper()
	d := enginetest.Small
	d.ContextBytes = 1
	return enginetest.NewAskingNode(t, scheduler, d, d)
}

// wantUse compares what is in use on each device: bytes, tasks, permits.
func wantUse(t *testing.T, n enginetest.Node, want ...[3]int64) {
	t.Helper()
	for i, w := range want {
		d := n.Device(i)
		if got := [3]int64{d.UsedBytes(), int64(d.Tasks()), int64(d.Permits())}; got != w {
			t.Errorf("device %d: bytes, tasks and permits %v, want %v", i, got, w)
		}
	}
}

// A task that moves is charged on both devices until its process has answered. Its permit goes along.
func TestAMoveIsChargedOnBothDevices(t *testing.T) {
	for _, c := range []struct {
		outcome  schedulers.Outcome
		from, to [3]int64
	}{
		{schedulers.Done, [3]int64{1, 0, 0}, [3]int64{9, 1, 1}},
		{schedulers.Busy, [3]int64{9, 1, 1}, [3]int64{}},
		{schedulers.Unable, [3]int64{9, 1, 1}, [3]int64{}},
	} {
		n := two(t, "demand")
		n.Submit(able(1, 8), "1@0")
		n.Ask(ms, "move(1,8)", to(1, 1))
		wantUse(t, n, [3]int64{9, 1, 1}, [3]int64{9, 1, 1})
		if n.Task(1).CanAsk(schedulers.Yield) || !n.Device(1).Open(schedulers.Task{ID: 9, Job: 9}) {
			t.Error("the task may be asked for more, or its new device is closed")
		}
		n.Answer(1, c.outcome, 8, 2*ms, "")
		wantUse(t, n, c.from, c.to)
		if n.Task(1).Can.Has(schedulers.Move) != (c.outcome != schedulers.Unable) {
			t.Errorf("%s: task 1 has %+v", c.outcome, n.Task(1))
		}
		n.Exit(1, "")
		wantUse(t, n, [3]int64{}, [3]int64{})
	}
}

// What ends in the middle of a move gives back both.
func TestTheEndOfAMovingTask(t *testing.T) {
	for end, want := range map[string][2][3]int64{"release": {{1, 0, 1}, {}}, "process": {}, "job": {}} {
		n := two(t, "demand")
		n.Submit(able(1, 8), "1@0")
		n.Ask(ms, "move(1,8)", to(1, 1))
		switch end {
		case "release":
			n.Release(1, "")
		case "process":
			n.Want(end, "", n.Engine.ProcessExit(schedulers.Process{Job: 1}), nil)
		case "job":
			n.Exit(1, "")
		}
		wantUse(t, n, want[:]...)
		if _, err := n.Engine.Revoked(1, schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Resident: 8}, 2*ms); err == nil {
			t.Errorf("%s: an answer after the end counts", end)
		}
	}
}

// A late answer counts whenever it comes, and until then both devices are charged.
func TestALateMove(t *testing.T) {
	for _, o := range []schedulers.Outcome{schedulers.Done, schedulers.Busy} {
		n := enginetest.NewAskingNode(t, "demand", enginetest.Small, enginetest.Small)
		n.Submit(able(1, 8), "1@0")
		n.Ask(ms, "move(1,8)", to(1, 1))
		n.Expire(time.Hour, "")
		wantUse(t, n, [3]int64{8, 1, 1}, [3]int64{8, 1, 1})
		n.Answer(1, o, 6, time.Hour, "")
		if o == schedulers.Done {
			wantUse(t, n, [3]int64{0, 0, 0}, [3]int64{6, 1, 1})
		} else {
			wantUse(t, n, [3]int64{8, 1, 1}, [3]int64{})
		}
	}
}

// A move to where the task cannot go is not asked for.
func TestMovesThatCannotBe(t *testing.T) {
	d := enginetest.Small
	small := d
	small.CapacityBytes = 7
	n := enginetest.NewAskingNode(t, "demand", d, d, small, d, d)
	pin := func(task schedulers.Task, device int) schedulers.Task { task.OnDevice = &device; return task }
	n.Submit(able(1, 8), "1@0")
	n.Submit(pin(movable(2, 9), 1), "2@1")
	n.Submit(pin(schedulers.Task{ID: 3, Bytes: 1, Isolate: true}, 4), "3@4")
	n.Submit(pin(able(4, 1), 0), "4@0")
	n.Want("lose device 3", "", n.Engine.DeviceLost(3, true, 0), nil)
	n.Ask(ms, "", to(0, 1), to(1, 1), to(2, 1), to(3, 1), to(4, 1), to(5, 1), to(-1, 1), to(2, 2), to(2, 4), to(2, 9))
	n.Exit(2, "")
	n.Ask(2*ms, "move(1,8)", to(1, 1), to(1, 1))
	if r := n.Revocation(1); r.Device != 1 || r.Bytes != 8 || r.For != schedulers.Nobody {
		t.Errorf("revocation %+v", r)
	}
}

// What a task waits for goes with it, and is served there.
func TestWhatAMovingTaskWaitsFor(t *testing.T) {
	n := two(t, "demand")
	n.Submit(able(1, 6), "1@0")
	n.Submit(movable(2, 1), "2@1")
	n.Submit(schedulers.Task{ID: 3, Bytes: 9, OnDevice: new(0)}, "")
	n.Idle(1, ms)
	n.Tick(ms, "yield(1,1)") // 2 of 16 bytes are the contexts'
	n.Give(1, "3@0")
	n.Resume(1, 1, 6, "")
	n.Grow(1, 2, "")
	n.Ask(2*ms, "move(1,5)", to(1, 1))
	wantUse(t, n, [3]int64{16, 2, 1}, [3]int64{8, 2, 2}) // it waits for a permit
	n.Give(1, "+1@1 ^1@1")
}

// A task that waits for a permit has that of its new device from when it is asked to move, and loses it if it does not go there.
func TestATaskThatWaitsHasItsPermitWhereItGoes(t *testing.T) {
	for _, o := range []schedulers.Outcome{schedulers.Done, schedulers.Busy} {
		n := two(t, "vgpu:n=1")
		n.Submit(able(1, 4), "1@0")
		n.Submit(able(2, 4), "2@1")
		n.Yielded(1, 0, "")
		n.Submit(able(3, 4), "3@0")
		n.Resume(1, 0, 4, "")
		n.Finish(2, "")
		n.Ask(ms, "move(1,4)", to(1, 1))
		wantUse(t, n, [3]int64{10, 2, 1}, [3]int64{5, 1, 1})
		n.Submit(able(4, 1), "")
		if o == schedulers.Done {
			n.Answer(1, o, 4, 2*ms, "^1@1")
		} else {
			n.Answer(1, o, 4, 2*ms, "4@1")
		}
	}
}

// Without room for what it waits for a task does not move. If it asks while it moves, it is refused there.
func TestAMoveToASmallerDevice(t *testing.T) {
	small := enginetest.Small
	small.CapacityBytes = 8
	n := enginetest.NewAskingNode(t, "demand", enginetest.Small, small)
	task := able(1, 14)
	task.Need = new(int64(4))
	n.Submit(task, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 12}, "2@0")
	n.Resume(1, 8, 12, "")
	n.Ask(ms, "", to(1, 1))
	n.Exit(2, "^1@0")
	n.Ask(2*ms, "", to(1, 1)) // 12 bytes
	n.Ask(3*ms, "evict(1,8)", schedulers.Revocation{Task: 1, Action: schedulers.Evict, Bytes: 8, Deadline: ms, For: schedulers.Nobody})
	n.Give(1, "")
	n.Ask(4*ms, "move(1,4)", to(1, 1))
	n.Grow(1, 9, "")
	n.Resume(1, 8, 12, "")
	n.Answer(1, schedulers.Done, 4, 5*ms, "_1@1 -1@1")
	wantUse(t, n, [3]int64{}, [3]int64{4, 1, 0})
}

// Tasks of one process move one by one. Its context leaves a device that it was lent once no move needs it.
func TestTasksOfAProcessMove(t *testing.T) {
	n := two(t, "demand")
	for id := range schedulers.TaskID(2) {
		task := able(id+1, 4)
		task.Job = 1
		n.Submit(task, []string{"1@0", "2@0"}[id])
	}
	n.Ask(ms, "move(1,4) move(2,4)", to(1, 1), to(1, 2))
	wantUse(t, n, [3]int64{9, 2, 1}, [3]int64{9, 2, 1})
	n.Answer(1, schedulers.Busy, 0, 2*ms, "")
	wantUse(t, n, [3]int64{9, 2, 1}, [3]int64{5, 1, 1})
	n.Answer(2, schedulers.Busy, 0, 2*ms, "")
	wantUse(t, n, [3]int64{9, 2, 1}, [3]int64{})
	n.Ask(time.Second, "move(1,4) move(2,4)", to(1, 1), to(1, 2))
	n.Give(1, "")
	wantUse(t, n, [3]int64{5, 1, 1}, [3]int64{9, 2, 1})
	n.Answer(2, schedulers.Unable, 0, time.Second, "")
	wantUse(t, n, [3]int64{5, 1, 1}, [3]int64{5, 1, 1})
	n.Exit(1, "")
	wantUse(t, n, [3]int64{}, [3]int64{})
}

// A context that got a task of its own where a move would take another stays, with its permit, whatever becomes of the move.
func TestAContextThatAMoveWasNotNeededFor(t *testing.T) {
	n := two(t, "demand")
	n.Submit(able(1, 4), "1@0")
	n.Ask(ms, "move(1,4)", to(1, 1))
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 4, OnDevice: new(1)}, "2@1")
	wantUse(t, n, [3]int64{5, 1, 1}, [3]int64{9, 2, 1})
	n.Answer(1, schedulers.Busy, 0, 2*ms, "")
	wantUse(t, n, [3]int64{5, 1, 1}, [3]int64{5, 1, 1})
	n.Resume(1, 0, 4, "^1@0")
	n.Resume(2, 0, 4, "^2@1")
	n.Ask(time.Second, "move(1,4)", to(1, 1))
	ds, err := n.Engine.Yielded(1, time.Second) // they cross
	n.Want("yielded", "", ds, err)
	n.Give(1, "")
	wantUse(t, n, [3]int64{1, 0, 0}, [3]int64{9, 2, 1})
}

// What moves is given back as it shrinks.
func TestAMovingTaskShrinks(t *testing.T) {
	n := two(t, "demand")
	n.Submit(able(1, 8), "1@0")
	n.Ask(ms, "move(1,8)", to(1, 1))
	ds, err := n.Engine.Shrink(1, 5)
	n.Want("shrink", "", ds, err)
	wantUse(t, n, [3]int64{4, 1, 1}, [3]int64{4, 1, 1})
	n.Answer(1, schedulers.Done, 3, ms, "")
	wantUse(t, n, [3]int64{1, 0, 0}, [3]int64{4, 1, 1})
}

// The warps of a task that moves count on both devices.
func TestAMovingTaskHasALargerKernel(t *testing.T) {
	n := two(t, "demand")
	n.Submit(able(1, 8), "1@0")
	n.Ask(ms, "move(1,8)", to(1, 1))
	n.Shape(1, 2, 64, 4, "")
	for i := range 2 {
		if warps := n.Device(i).UsedWarps(); warps != 4 {
			t.Errorf("device %d: %d warps, want 4", i, warps)
		}
	}
	n.Answer(1, schedulers.Busy, 0, ms, "")
	if warps := n.Device(1).UsedWarps(); warps != 0 {
		t.Errorf("%d warps are on the device where the task did not go", warps)
	}
}

// Growth that a limit withholds goes on where the task moves.
func TestWithheldGrowthMoves(t *testing.T) {
	n := two(t, "demand")
	for id := range schedulers.TaskID(2) {
		task := able(id+1, 10)
		task.Job, task.Serial = 1, int(id)
		n.Submit(task, []string{"1@0", "2@1"}[id])
	}
	limit(t, n, 1, 1, "yield(2,10)")
	n.Give(2, "")
	n.Grow(2, 1, "")
	n.Ask(ms, "move(2,0)", to(0, 2))
	n.Give(2, "+2@0")
}

// What waits for a device to which a task moves is not in deadlock: the answer may give room.
func TestNoDeadlockWhileATaskMovesThere(t *testing.T) {
	n := two(t, "demand")
	n.Submit(able(1, 7), "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 7, OnDevice: new(1)}, "2@1")
	n.Ask(ms, "move(1,7)", to(1, 1)) // 16 of 16 bytes
	n.Grow(2, 3, "")
	n.Answer(1, schedulers.Busy, 0, 2*ms, "+2@1")
}

// A task that stops its kernels gives up its turn. One that is advised keeps it, and what it gave comes back as it resumes.
func TestStopAndAdvise(t *testing.T) {
	n := two(t, "demand")
	n.Submit(able(1, 8), "1@0")
	ask := func(now time.Duration, a schedulers.Action, want string) {
		t.Helper()
		n.Ask(now, want, schedulers.Revocation{Task: 1, Action: a, Bytes: 5, Deadline: 100 * ms, For: schedulers.Nobody})
	}
	ask(ms, schedulers.Advise, "advise(1,5)")
	n.Give(1, "")
	wantUse(t, n, [3]int64{4, 1, 1}, [3]int64{})
	if a := n.Task(1).Advised; a == nil || *a != (schedulers.Advice{Since: ms, Limit: 3}) {
		t.Errorf("advised %+v", a)
	}
	n.Ask(ms, "advise(1,0)", schedulers.Revocation{Task: 1, Action: schedulers.Advise, Deadline: 100 * ms, For: schedulers.Nobody})
	n.Give(1, "")
	if task := n.Task(1); task.Advised != nil || !task.Permit {
		t.Errorf("%+v is not advised any more, and has its permit", task)
	}
	n.Ask(ms, "", schedulers.Revocation{Task: 1, Action: schedulers.Advise, Deadline: 100 * ms, For: schedulers.Nobody}) // nothing to take back
	n.Resume(1, 5, 8, "^1@0")
	wantUse(t, n, [3]int64{9, 1, 1}, [3]int64{})
	ask(2*ms, schedulers.Stop, "stop(1,5)")
	n.Give(1, "")
	wantUse(t, n, [3]int64{4, 1, 0}, [3]int64{})
	n.Submit(movable(2, 8), "2@1")
	n.Ask(3*ms, "", schedulers.Revocation{Task: 2, Action: schedulers.Stop, Deadline: ms, For: schedulers.Nobody}) // it cannot
}
