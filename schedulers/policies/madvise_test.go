package policies_test

import (
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

// advisable is a task of a process of its own whose kernels can use memory on the host.
func advisable(id schedulers.TaskID, bytes int64) schedulers.Task {
	t := movable(id, bytes)
	t.Can, t.Stays = t.Can|1<<schedulers.Advise, bytes
	return t
}

// runs says that a burst of the task runs, and uses so many bytes.
func runs(t *testing.T, n enginetest.Node, id schedulers.TaskID, uses int64, now time.Duration) {
	t.Helper()
	task := n.Task(id)
	a := schedulers.Activity{Running: true, Busy: true, Last: now, Referenced: max(task.Referenced, uses)}
	a.Untouched = a.Referenced - uses
	if err := n.Engine.Active(id, a, now); err != nil {
		t.Fatal(err)
	}
}

// Rules 1 and 2: each process has an equal share of the device. While what the bursts use does not fit, what is beyond the
// share stays on the host: of a task that runs, and of one that wants to start, which starts at once.
func TestMAdviseThrottlesWhatIsBeyondTheQuota(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	n.Submit(advisable(1, 14), "1@0") // it is alone
	n.Submit(advisable(2, 10), "advise(1,6)")
	n.Give(1, "2@0") // with 8 of its 10 bytes
	for id, want := range map[schedulers.TaskID]int64{1: 8, 2: 8} {
		if task := n.Task(id); task.Resident != want || task.Used() != want || task.Advised == nil || !task.Permit {
			t.Errorf("task %d: %+v, want %d bytes on the device, and a permit", id, task, want)
		}
	}
	n.Tick(time.Second, "") // all keep to their quotas, and what is beyond does not fit
}

// The quota may be bytes.
func TestMAdviseHasAQuotaInBytes(t *testing.T) {
	big := enginetest.Small
	big.CapacityBytes <<= 30
	n := enginetest.NewNode(t, "madvise:quota=12GiB", big)
	n.Submit(advisable(1, 14<<30), "1@0")
	n.Submit(advisable(2, 4<<30), "advise(1,2147483648)")
	n.Give(1, "2@0")
	for quota, want := range map[string]string{"half": "", "0": "", "5": "", "12288MiB": "12GiB", "share": "share"} {
		s, err := policies.Parse("madvise:quota="+quota, 1)
		if (err == nil) != (want != "") {
			t.Errorf("quota=%s: %v", quota, err)
		} else if err == nil && s.Parameters() != "age-limit=64,period=100ms,queue=mmu,quota="+want+",wait-limit=0s" {
			t.Errorf("quota=%s: %s", quota, s.Parameters())
		}
	}
}

// Who uses no more than the quota gives nothing of it. Of what it does not use it gives, and keeps using all from the device.
func TestMAdviseLeavesTheQuota(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	n.Submit(advisable(1, 12), "1@0")
	runs(t, n, 1, 6, ms)
	n.Submit(advisable(2, 10), "evict(1,4)") // 2 bytes of the second stay on the host, as its quota is 8
	n.Give(1, "2@0")
	if task := n.Task(1); task.Advised != nil || task.Resident != 8 {
		t.Errorf("%+v", task)
	}
}

// Idle tasks give before anybody is throttled. A task whose latest burst has just ended is not idle.
func TestMAdviseTakesFromTheIdleFirst(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	n.Submit(advisable(1, 8), "1@0")
	n.Submit(advisable(2, 8), "2@0")
	n.Idle(1, ms)
	n.Idle(2, 90*ms)
	if err := n.Engine.Active(2, schedulers.Activity{Last: 90 * ms, Referenced: 8}, 110*ms); err != nil {
		t.Fatal(err)
	}
	ds, err := n.Engine.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 10, Stays: 10, Can: schedulers.Movable | 1<<schedulers.Advise}, 110*ms)
	n.Want("submit", "yield(1,8)", ds, err)
	n.Answer(1, schedulers.Done, 0, 111*ms, "3@0") // the quota is 5 bytes, and 2 of its 10 stay on the host
}

// If there is nobody to ask, a burst starts all the same, and what is lacking stays on the host. Once what it lacks of its
// quota can be had, it is taken from who uses more.
func TestMAdviseStartsAtOnceBesideALongKernel(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	n.Submit(advisable(1, 14), "1@0")
	runs(t, n, 1, 14, ms)
	n.Submit(advisable(2, 6), "advise(1,4)")
	n.Answer(1, schedulers.Busy, 14, 101*ms, "2@0")
	if task := n.Task(2); task.Resident != 2 || task.Advised == nil || task.Advised.Since != 101*ms {
		t.Errorf("%+v", task)
	}
	runs(t, n, 1, 14, 250*ms)
	runs(t, n, 2, 6, 250*ms)
	n.Tick(300*ms, "advise(1,4)")
	if r := n.Revocation(1); r.For != schedulers.Nobody || r.Deadline != time.Minute {
		t.Errorf("%+v", r)
	}
	n.Answer(1, schedulers.Done, 10, 350*ms, "")
	n.Tick(400*ms, "advise(2,0)") // nothing stays on the host any more
	n.Give(2, "")
	ds, err := n.Engine.Resume(2, 4, 6, 401*ms)
	n.Want("resume", "^2@0", ds, err)
	if task := n.Task(2); task.Resident != 6 || task.Advised != nil {
		t.Errorf("%+v", task)
	}
}

// Rule 3: when there is room again, throttled processes are released in the order of throttling, as far as all that they use fits.
func TestMAdviseReleasesInOrder(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	n.Submit(advisable(1, 8), "1@0")
	n.Submit(advisable(2, 8), "2@0")
	n.Submit(advisable(3, 5), "advise(1,3) advise(2,2)") // of three the quota is 5 bytes
	n.Give(1, "")
	n.Give(2, "3@0")
	for id, uses := range []int64{8, 8, 5} {
		runs(t, n, schedulers.TaskID(id+1), uses, 50*ms)
	}
	n.Tick(100*ms, "")
	n.Finish(3, "")
	n.Tick(200*ms, "advise(1,0) advise(2,0)")
}

// A process whose room does not suffice for all that it uses stays throttled, and one behind it may be released.
func TestMAdviseReleasesWhoFits(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	n.Submit(advisable(1, 16), "1@0")
	n.Submit(advisable(2, 9), "advise(1,8)")
	n.Give(1, "2@0") // with 8 of its 9 bytes
	runs(t, n, 1, 16, 50*ms)
	runs(t, n, 2, 9, 50*ms)
	n.Tick(100*ms, "")
	runs(t, n, 1, 7, 150*ms) // it uses less now
	n.Tick(200*ms, "advise(1,0) advise(2,0)")
}

// Managed memory moves by itself. What a process uses of it beyond its quota, as it is known, stays on the host.
func TestMAdviseThrottlesManagedMemory(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	for id := range schedulers.TaskID(2) {
		task := advisable(id+1, 14)
		task.Need, task.Stays, task.Managed = new(int64(0)), 0, true
		n.Submit(task, []string{"1@0", "2@0"}[id])
	}
	runs(t, n, 1, 6, 50*ms)
	runs(t, n, 2, 9, 50*ms)
	n.Tick(100*ms, "") // all that they have touched fits
	runs(t, n, 2, 13, 150*ms)
	n.Tick(200*ms, "advise(2,3)")
	n.Answer(2, schedulers.Done, 0, 201*ms, "")
	if used := n.Task(2).Used(); used != 10 {
		t.Errorf("task 2 uses %d bytes, want 10", used)
	}
	runs(t, n, 2, 14, 250*ms) // what it touches more stays on the host too
	n.Tick(300*ms, "")
	runs(t, n, 1, 9, 350*ms)
	n.Tick(400*ms, "advise(2,2) advise(1,1)")
}

// Growth goes where others, and the task itself, use more than their quotas. Who cannot use memory on the host waits.
func TestMAdviseMakesRoomForGrowth(t *testing.T) {
	n := enginetest.NewNode(t, "madvise", enginetest.Small)
	n.Submit(advisable(1, 12), "1@0")
	n.Submit(movable(2, 6), "advise(1,2)")
	n.Give(1, "2@0")
	n.Grow(2, 2, "advise(1,2)")
	n.Give(1, "+2@0")
	n.Submit(movable(3, 4), "advise(1,3) evict(2,1)") // of three the quota is 5 bytes, and task 2 uses 6 of its 8, all from the device
}

// A process has one quota, however many tasks it has: what they use together counts. The tasks of one that keeps to it keep
// all that they use.
func TestMAdviseHasOneQuotaForAProcess(t *testing.T) {
	for _, c := range []struct {
		first, second int64 // of two tasks
		job           schedulers.JobID
		want          string
	}{
		{6, 6, 1, "advise(1,4)"},
		{6, 6, 2, "advise(1,1)"},              // of two processes: there are three quotas of 5, and the request leaves 3 bytes on the host
		{2, 12, 1, "advise(1,2) advise(2,4)"}, // no more than is beyond the quota
		{4, 4, 1, "3@0"},
	} {
		n := enginetest.NewNode(t, "madvise", enginetest.Small)
		first, second := advisable(1, c.first), advisable(2, c.second)
		second.Job = c.job
		n.Submit(first, "1@0")
		n.Submit(second, "2@0")
		runs(t, n, 1, c.first, 0)
		runs(t, n, 2, c.second, 0)
		n.Submit(advisable(3, 8), c.want)
	}
}
