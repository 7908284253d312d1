package engine_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// whole is a task of a user that needs the device alone.
func whole(id schedulers.TaskID, user string, credits int) schedulers.Task {
	return schedulers.Task{ID: id, Bytes: 16, Terms: &schedulers.Terms{User: user, Credits: credits}}
}

// The user goes first who has spent least for each credit, and of equal ones the first to come.
func TestUsersTakeTurnsByTheirCredits(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=credits,age-limit=0", enginetest.Small)
	end := func(seconds time.Duration, id schedulers.TaskID, want string) {
		t.Helper()
		n.Engine.Spend(seconds * time.Second)
		n.Finish(id, want)
	}
	n.Submit(whole(1, "ann", 2), "1@0")
	for id := schedulers.TaskID(2); id < 6; id++ {
		n.Submit(whole(id, "ann", 2), "")
	}
	for id := schedulers.TaskID(6); id < 9; id++ {
		n.Submit(whole(id, "bob", 0), "")
	}
	end(1, 1, "6@0")  // ann 1/2, bob 0
	end(2, 6, "2@0")  // ann 1/2, bob 1
	end(3, 2, "3@0")  // 2/2 and 1: ann came first
	end(10, 3, "7@0") // 9/2 and 1
	end(13, 7, "8@0") // 9/2 and 4
	end(14, 8, "4@0") // bob has no more
	end(14, 4, "5@0")
	end(15, 5, "")
}

// A task spends the time of each of its devices, and of equal users the one with the fewest tasks on devices goes first.
func TestTasksOnDevicesAreSpent(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=credits", enginetest.Small, enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16, Terms: &schedulers.Terms{User: "first", Devices: 3}}, "1@0+1+2")
	for id := schedulers.TaskID(2); id < 5; id++ {
		n.Submit(whole(id, "ann", 0), "")
	}
	n.Submit(whole(5, "bob", 0), "")
	n.Submit(whole(6, "", 3), "")
	n.Finish(1, "2@0 5@1 6@2") // all at one time: each user has one
	n.Submit(schedulers.Task{ID: 7, Bytes: 16, Terms: &schedulers.Terms{User: "first"}}, "")
	n.Submit(whole(8, "bob", 0), "")
	n.Submit(whole(9, "", 3), "")
	n.Engine.Spend(time.Second)
	n.Finish(5, "7@1") // it has spent nothing: its devices came and went at one time
	n.Engine.Spend(2 * time.Second)
	n.Finish(2, "9@0") // 2/3, and 1 of bob, and 2 of ann
	n.Finish(6, "8@2")
}

// A task that waits to resume spends nothing.
func TestWaitingToResumeSpendsNothing(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu:n=1,queue=credits", enginetest.Small)
	task := func(id schedulers.TaskID, user string) schedulers.Task {
		return schedulers.Task{ID: id, Bytes: 4, Terms: &schedulers.Terms{User: user}}
	}
	n.Submit(task(1, "ann"), "1@0")
	n.Yielded(1, time.Second, "")
	n.Submit(task(2, "bob"), "2@0")
	n.Resume(1, 0, 4, "") // ann has spent 1 s
	n.Submit(task(3, "bob"), "")
	n.Engine.Spend(3 * time.Second)
	n.Finish(2, "^1@0") // 1 s and 2 s
	n.Engine.Spend(5 * time.Second)
	n.Submit(task(4, "ann"), "")
	n.Finish(1, "3@0") // 3 s and 2 s
}

// Aged tasks go before all others, whoever's they are.
func TestCreditsDoNotStarveALargeTask(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=credits,age-limit=3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 8, Terms: &schedulers.Terms{User: "ann"}}, "1@0")
	n.Submit(whole(2, "ann", 0), "")
	for id := schedulers.TaskID(3); id < 6; id++ {
		n.Submit(schedulers.Task{ID: id, Bytes: 1, Terms: &schedulers.Terms{User: "bob"}}, fmt.Sprintf("%d@0", id))
	}
	n.Submit(schedulers.Task{ID: 6, Bytes: 1, Terms: &schedulers.Terms{User: "bob"}}, "")
	for _, id := range []schedulers.TaskID{1, 3, 4} {
		n.Engine.Spend(time.Duration(id) * time.Hour)
		n.Finish(id, "")
	}
	n.Finish(5, "2@0")
}

// Sums beyond 64 bits are compared as they are.
func TestCreditsOfLongTimes(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=credits", enginetest.Small)
	n.Submit(whole(1, "ann", 1000), "1@0")
	n.Submit(whole(2, "ann", 1000), "")
	n.Submit(whole(3, "bob", 999), "")
	n.Engine.Spend(math.MaxInt64 / 2)
	n.Finish(1, "3@0")
	n.Engine.Spend(math.MaxInt64 - 1)
	n.Finish(3, "2@0")
}
