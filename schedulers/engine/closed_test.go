package engine_test

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

// No task joins a lost device. What waits and fits nowhere else is refused, what was granted stays charged, and later requests are refused
// at once if only the lost device would do.
func TestLose(t *testing.T) {
	small := enginetest.Small
	small.CapacityBytes = 8
	for _, policy := range []string{"case-alg2", "case-alg3", "vgpu:n=4"} {
		n := enginetest.NewNode(t, policy, small, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 14}, "1@1")
		n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 7}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 12}, "") // only device 1 is so large
		n.Submit(schedulers.Task{ID: 4, Job: 4, Bytes: 5}, "")
		ds := n.Engine.DeviceLost(1, true, 0)
		n.Want("lose device 1", "!3", ds, nil)
		if why := ds[0].Reason.Why; !strings.Contains(why, "the run has lost device 1") {
			t.Errorf("%s: refused because %q", policy, why)
		}
		if n.Device(1).UsedBytes() != 14 {
			t.Errorf("%s: %d bytes are charged on the lost device, want 14", policy, n.Device(1).UsedBytes())
		}
		n.Exit(1, "") // what it held is not given to others
		n.Submit(schedulers.Task{ID: 5, Job: 5, Bytes: 12}, "!5")
		n.Exit(2, "4@0")
	}
}

// A request that only the lost device could serve beside a waiting job holds back nobody.
func TestLostDeviceStallsRequests(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", enginetest.Small, enginetest.Small)
	n.Want("lose device 0", "", n.Engine.DeviceLost(0, true, 0), nil)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 10}, "1@1")
	n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 8}, "")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 2}, "3@1") // job 1 waits for it with what task 2 needs
}

// A device that is closed and comes back serves in its turn what only it can serve. What is there goes on meanwhile.
func TestADeviceIsClosedForAWhile(t *testing.T) {
	for _, scheduler := range []string{"case-alg2:queue=fifo", "case-alg3:queue=fifo", "schedgpu:queue=fifo,device=1", "vgpu:queue=fifo", "demand:queue=fifo"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small, enginetest.Small)
		there := func(id schedulers.TaskID, job schedulers.JobID) schedulers.Task {
			return schedulers.Task{ID: id, Job: job, Bytes: 3, OnDevice: new(1), Can: schedulers.Movable}
		}
		n.Submit(there(1, 1), "1@1")
		n.Want("close", "", n.Engine.DeviceLost(1, false, 0), nil)
		if !n.Device(1).Closed() {
			t.Errorf("%s: the device is not closed", scheduler)
		}
		n.Submit(there(2, 2), "")
		n.Submit(there(3, 1), "3@1") // its process is there
		n.Grow(1, 2, "+1@1")
		if strings.HasPrefix(scheduler, "vgpu") {
			n.Resume(1, 0, 5, "^1@1")
		}
		if !strings.HasPrefix(scheduler, "schedgpu") {
			n.Submit(schedulers.Task{ID: 4, Bytes: 4}, "4@0") // task 2 does not hold it back
		}
		n.Want("open", "2@1", n.Engine.DeviceAdded(1, 0), nil)
		n.Want("lose", "", n.Engine.DeviceLost(1, true, 0), nil)
		n.Want("close", "", n.Engine.DeviceLost(1, false, 0), nil)
		n.Submit(there(5, 5), "!5") // it is gone all the same
		n.Want("open", "", n.Engine.DeviceAdded(1, 0), nil)
		n.Submit(there(6, 6), "6@1")
	}
}

// What waits for a closed device is refused once the device is gone.
func TestAClosedDeviceIsLost(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small, enginetest.Small)
	n.Want("close", "", n.Engine.DeviceLost(1, false, 0), nil)
	n.Submit(schedulers.Task{ID: 1, Bytes: 4, OnDevice: new(1)}, "")
	n.Submit(schedulers.Task{ID: 2, Bytes: 4, Terms: &schedulers.Terms{Devices: 2}}, "")
	n.Want("lose", "!1 !2", n.Engine.DeviceLost(1, true, 0), nil)
}

// A task whose process can move leaves a device that is being closed: for another, or while there is none, for the host.
func TestTasksLeaveAClosedDevice(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small, enginetest.Small)
	n.Submit(able(1, 10), "1@0")
	n.Submit(able(2, 10), "2@1")
	n.Submit(movable(3, 4), "3@0")
	n.Want("close", "yield(1,10)", n.Engine.DeviceLost(0, false, 0), nil) // task 3 cannot move, and stays
	n.Give(1, "move(1,0)")
	n.Give(1, "")
	n.Resume(1, 10, 10, "") // behind task 2, which runs
	n.Exit(2, "^1@1")
	n.Resume(3, 0, 4, "^3@0")
	n.Want("open", "", n.Engine.DeviceAdded(0, 0), nil)
	n.Want("close", "", n.Engine.DeviceLost(0, false, 0), nil)
	n.Submit(able(4, 1), "4@1")
}

// Room is made on another device for a task that waits to resume there, and for what could not go to the host.
func TestRoomIsMadeForATaskThatLeaves(t *testing.T) {
	for scheduler, gives := range map[string]string{"demand": "yield(1,4)", "vgpu:n=2": "yield(1,10)"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small, enginetest.Small)
		n.Submit(able(1, 10), "1@0")
		n.Submit(able(2, 10), "2@1")
		if err := n.Engine.Active(2, schedulers.Activity{Referenced: 10, Fixed: 7}, 0); err != nil {
			t.Fatal(err)
		}
		n.Want("close", "yield(2,3)", n.Engine.DeviceLost(1, false, 0), nil)
		ds, err := n.Engine.Revoked(2, schedulers.Revoked{Ticket: 1, Outcome: schedulers.Done, Resident: 7, Fixed: 7}, 0)
		n.Want("what is left fits nowhere", "", ds, err)
		n.Resume(2, 3, 10, "")
		n.Idle(1, 10*ms)
		n.Tick(20*ms, gives)
		n.Give(1, "move(2,7)")
		n.Give(2, "^2@0")
	}
}

// A task that turns out not to be able to move resumes where it is, although its device is closed.
func TestATaskThatCannotLeaveAClosedDevice(t *testing.T) {
	n := enginetest.NewNode(t, "demand", enginetest.Small, enginetest.Small)
	n.Submit(able(1, 10), "1@0")
	n.Want("close", "move(1,10)", n.Engine.DeviceLost(0, false, 0), nil)
	n.Resume(1, 0, 10, "")
	n.Answer(1, schedulers.Unable, 10, 0, "^1@0")
	if n.Device(1).UsedBytes() != 0 {
		t.Errorf("%d bytes are in use where it did not go", n.Device(1).UsedBytes())
	}
}

// While devices are sealed, processes get more where they are. The requests of others hold back nobody, and nothing is kept for
// them.
func TestSealedDevices(t *testing.T) {
	for _, scheduler := range []string{"case-alg2:queue=fifo", "case-alg3:queue=fifo", "schedgpu:queue=fifo", "vgpu:queue=fifo", "demand:queue=fifo"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small)
		seal := func(sealed bool, want string) {
			t.Helper()
			n.Want("seal", want, n.Engine.Seal(sealed, 0), nil)
		}
		n.Submit(schedulers.Task{ID: 1, Bytes: 6}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 6}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Bytes: 9}, "")
		n.Submit(schedulers.Task{ID: 4, Job: 1, Bytes: 3}, "") // behind task 3
		seal(true, "4@0")
		n.Submit(schedulers.Task{ID: 5, Job: 1, Serial: 7, Bytes: 1}, "") // another process of job 1
		n.Grow(4, 1, "+4@0")
		n.Release(1, "")
		n.Submit(schedulers.Task{ID: 6, Job: 1, Bytes: 6}, "6@0") // task 3 would have fitted
		n.Exit(1, "")
		if n.Engine.Waiting() != 0 {
			t.Errorf("%s: %d requests are in the queue, want 0", scheduler, n.Engine.Waiting())
		}
		seal(true, "")
		seal(false, "3@0")
	}
}

// A device that a process has not used stays closed to it while devices are sealed, and tasks for several devices wait.
func TestASealedNode(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
	n.Want("seal", "", n.Engine.Seal(true, 0), nil)
	n.Submit(schedulers.Task{ID: 2, Job: 1, Bytes: 10}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 4, Terms: &schedulers.Terms{Devices: 2}}, "")
	n.Submit(schedulers.Task{ID: 4, Job: 1, Bytes: 4}, "4@0")
	n.Want("unseal", "2@1 3@0+1", n.Engine.Seal(false, 0), nil)
}
