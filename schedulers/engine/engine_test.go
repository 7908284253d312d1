package engine_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

func TestGrowthGoesBeforeWaitingTasks(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 16}, "2@1")
	n.Submit(schedulers.Task{ID: 3, Bytes: 6}, "3@0")
	n.Grow(1, 5, "")                               // 2 are free
	n.Submit(schedulers.Task{ID: 4, Bytes: 1}, "") // would fit, and would starve the growth
	n.Finish(3, "+1@0 4@0")
	if got := n.Device(0).UsedBytes(); got != 14 {
		t.Fatalf("%d bytes in use, want 8 + 5 + 1", got)
	}
}

func TestGrowthDeadlockRefusesTheLater(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 7}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 7}, "2@0")
	n.Grow(1, 4, "")
	ds, err := n.Engine.Grow(2, 4, nil, 0)
	n.Want("grow task 2", "-2@0", ds, err)
	if r := ds[0].Reason; r.NeedBytes != 11 || r.CapacityBytes != 16 || !strings.Contains(r.Why, "came last") {
		t.Fatalf("refusal %v, want need 11 of 16 and why", r)
	}
	n.Finish(2, "+1@0") // task 2 kept its memory after the refusal, so task 1 still waited
}

func TestGrowthThatCanNeverFitIsRefusedAtOnce(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, "case-alg3", d)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2}, "2@0") // the end of this task would not help
	ds, err := n.Engine.Grow(1, 5, nil, 0)
	n.Want("grow task 1", "-1@0", ds, err)
	if r := ds[0].Reason; r.NeedBytes != 17 || r.CapacityBytes != 16 {
		t.Fatalf("refusal %v, want need 17 (10 + 5 and a context of 2) of 16", r)
	}
	n.Grow(1, 4, "")
	n.Finish(2, "+1@0")
	n.Grow(1, math.MaxInt64, "-1@0")
}

// A job that has only a context on the device gives that back when it exits.
func TestGrowthWaitsForAContext(t *testing.T) {
	n := contextual(t, "case-alg3")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 4}, "3@0")
	n.Grow(3, 9, "") // 8 are free, and 10 once job 2 has exited
	n.Exit(2, "+3@0")
}

// Job 2 does not exit if it waits too, for a device that no job gives back.
func TestGrowthIsRefusedWhereEveryContextWaits(t *testing.T) {
	n := contextual(t, "case-alg3")
	n.Submit(schedulers.Task{ID: 3, Job: 1, Bytes: 4}, "3@0")
	n.Grow(3, 9, "")
	ds, err := n.Engine.Submit(schedulers.Task{ID: 4, Job: 2, Bytes: 1}, 0) // the device is closed while a task waits to grow
	n.Want("submit task 4", "-3@0 4@0", ds, err)
	if r := ds[0].Reason; r.Cause != schedulers.DeviceFull || r.NeedBytes != 15 || r.CapacityBytes != 16 || len(r.Why) > 119 {
		t.Errorf("refusal %+v, want 15 (4 + 9 and a context of 2) of 16", r)
	}
}

// A job that waits for another device ends once it has that device.
func TestGrowthWaitsForAContextThatWaitsElsewhere(t *testing.T) {
	d, less := enginetest.Small, enginetest.Small
	d.ContextBytes, less.ContextBytes, less.CapacityBytes = 2, 2, 12
	// Job 2 has only a context on device 0, which job 1 needs, and asks for its
	// next task. Device 1 is job 3's, which works.
	ask := func(next schedulers.Task, want string) enginetest.Node {
		n := enginetest.NewNode(t, "case-alg3", d, less)
		n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 1, OnDevice: new(0)}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 1, OnDevice: new(0)}, "2@0")
		n.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 10}, "3@1")
		n.Release(2, "")
		n.Grow(1, 12, "")
		next.ID, next.Job = 4, 2
		n.Submit(next, want)
		return n
	}
	n := ask(schedulers.Task{Bytes: 10}, "")
	n.Finish(3, "4@1")
	n.Exit(2, "+1@0")
	ask(schedulers.Task{Bytes: 10, OnDevice: new(0)}, "-1@0 4@0") // nothing changes when job 3 exits
	ask(schedulers.Task{Bytes: 11}, "-1@0 4@0")                   // too large for device 1
}

// If every job waits, but a task only for its turn in the queue, the task is granted before
// growth is refused.
func TestGrowthWaitsForATaskThatTheQueueHoldsBack(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", d, d)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: 1, OnDevice: new(0)}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 2, Bytes: 1, OnDevice: new(0)}, "2@0")
	n.Release(2, "")
	n.Grow(1, 12, "") // does not fit beside the context of job 2
	n.Submit(schedulers.Task{ID: 3, Job: 3, Bytes: 1, OnDevice: new(0)}, "")
	n.Submit(schedulers.Task{ID: 4, Job: 2, Bytes: 10}, "4@1")
	n.Finish(4, "")
	n.Exit(2, "+1@0")
}

// Each process of a job has its own context until it exits.
func TestEachProcessHasAContext(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 4
	n := enginetest.NewNode(t, "case-alg3", d)
	n.Submit(schedulers.Task{ID: 1, Job: 1, Serial: 10, Bytes: 2}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Job: 1, Serial: 10, Bytes: 1}, "2@0") // the second task of its process
	n.Submit(schedulers.Task{ID: 3, Job: 1, Serial: 11, Bytes: 2}, "3@0")
	if got := n.Engine.View().Device(0).UsedBytes(); got != 2+1+2+2*4 {
		t.Errorf("%d bytes in use, want those of three tasks and two contexts", got)
	}
	n.Submit(schedulers.Task{ID: 4, Job: 2, Bytes: 2}, "") // its context would not fit
	n.Release(3, "")
	n.Want("exit of process 11", "4@0", n.Engine.ProcessExit(schedulers.Process{Job: 1, Serial: 11}), nil)
	n.Submit(schedulers.Task{ID: 5, Job: 1, Serial: 10, Bytes: 1}, "5@0") // process 10 still has its context
	n.Want("exit of process 11 again", "", n.Engine.ProcessExit(schedulers.Process{Job: 1, Serial: 11}), nil)
	n.Exit(1, "")
	n.Exit(2, "")
	if d := n.Engine.View().Device(0); d.UsedBytes() != 0 || d.Jobs() != 0 {
		t.Errorf("%d bytes of %d jobs at the end", d.UsedBytes(), d.Jobs())
	}
}

// Two jobs that need each other's contexts, each on its own device.
func TestGrowthDeadlockAcrossDevices(t *testing.T) {
	d := enginetest.Small
	d.ContextBytes = 2
	n := enginetest.NewNode(t, "case-alg3", d, d)
	for job := range schedulers.JobID(2) {
		id := 2 * schedulers.TaskID(job)
		n.Submit(schedulers.Task{ID: id + 1, Job: job + 1, Bytes: 1, OnDevice: new(int(job))}, fmt.Sprintf("%d@%d", id+1, job))
		n.Submit(schedulers.Task{ID: id + 2, Job: job + 1, Bytes: 1, OnDevice: new(1 - int(job))}, fmt.Sprintf("%d@%d", id+2, 1-job))
		n.Release(id+2, "")
	}
	n.Grow(1, 12, "")
	n.Grow(3, 12, "-3@1")
	n.Exit(2, "+1@0")
}

func TestGrowthExpires(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:wait-limit=5s", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 8}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 8}, "2@0")
	n.Grow(1, 1, "")
	n.Expire(5*time.Second, "-1@0")
	n.Grow(1, 1, "")
	n.Release(1, "") // a task may go while it waits to grow
	n.Submit(schedulers.Task{ID: 3, Bytes: 8}, "3@0")
}

func TestMemoryBlindSchedulersGrowWithoutLimit(t *testing.T) {
	for _, scheduler := range []string{"sa", "cg", "zero"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
		n.Grow(1, 100, "+1@0")
	}
}

func TestRefusalsStateNeedAndCapacity(t *testing.T) {
	large := enginetest.Small
	large.CapacityBytes, large.ContextBytes = 32, 3
	for _, c := range []struct {
		scheduler      string
		bytes          int64
		need, capacity int64
	}{
		{"case-alg3", 30, 33, 32},
		{"case-alg2", 30, 33, 32},
		{"schedgpu:device=0", 17, 17, 16}, // not the larger device, which it does not use
		{"schedgpu:device=1", 30, 33, 32},
		{"case-alg3", math.MaxInt64, math.MaxInt64, 32},
	} {
		n := enginetest.NewNode(t, c.scheduler, enginetest.Small, large)
		ds, err := n.Engine.Submit(schedulers.Task{ID: 1, Job: 1, Bytes: c.bytes}, 0)
		n.Want("submit "+c.scheduler, "!1", ds, err)
		if r := ds[0].Reason; r.NeedBytes != c.need || r.CapacityBytes != c.capacity {
			t.Errorf("%s: refusal %v, want need %d of %d", c.scheduler, r, c.need, c.capacity)
		}
		if n.Engine.Waiting() != 0 {
			t.Errorf("%s: the refused task waits", c.scheduler)
		}
	}
}

func TestMisuseIsAnErrorAndChangesNothing(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 10}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 3}, "3@0")
	n.Grow(3, 4, "")
	for _, c := range []struct {
		want string
		call func() ([]schedulers.Decision, error)
	}{
		{"the id is in use", func() ([]schedulers.Decision, error) { return n.Engine.Submit(schedulers.Task{ID: 1}, 0) }},
		{"the id is in use", func() ([]schedulers.Decision, error) { return n.Engine.Submit(schedulers.Task{ID: 2}, 0) }},
		{"negative size -1", func() ([]schedulers.Decision, error) { return n.Engine.Submit(schedulers.Task{ID: 4, Bytes: -1}, 0) }},
		{"no such task", func() ([]schedulers.Decision, error) { return n.Engine.Release(9) }},
		{"it has no device", func() ([]schedulers.Decision, error) { return n.Engine.Grow(2, 1, nil, 0) }},
		{"negative size -1", func() ([]schedulers.Decision, error) { return n.Engine.Grow(1, -1, nil, 0) }},
		{"shape task 2: it has no device", func() ([]schedulers.Decision, error) { return n.Engine.Shape(2, 1, 32, 0) }},
		{"shrink task 2: it has no device", func() ([]schedulers.Decision, error) { return n.Engine.Shrink(2, 1) }},
		{"negative size -1", func() ([]schedulers.Decision, error) { return n.Engine.Shrink(1, -1) }},
		{"shrink task 1 by 11 bytes: it has 10", func() ([]schedulers.Decision, error) { return n.Engine.Shrink(1, 11) }},
		{"it waits to grow already", func() ([]schedulers.Decision, error) { return n.Engine.Grow(3, 1, nil, 0) }},
	} {
		ds, err := c.call()
		if err == nil || !strings.Contains(err.Error(), c.want) || len(ds) != 0 {
			t.Errorf("decided %q with error %v, want an error with %q", schedtest.Text(ds), err, c.want)
		}
	}
	if d := n.Device(0); d.UsedBytes() != 13 || d.Tasks() != 2 || n.Engine.Waiting() != 1 {
		t.Errorf("%d bytes, %d tasks, %d waiting, want 13, 2, 1", d.UsedBytes(), d.Tasks(), n.Engine.Waiting())
	}
}

func TestNewEngineWantsSoundDevices(t *testing.T) {
	s, err := policies.Parse("case-alg3", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want    string
		devices []schedulers.Device
	}{
		{"no devices", nil},
		{"device 1 (small): capacity 0 bytes", []schedulers.Device{enginetest.Small, {Name: "small", SMs: 1, WarpsPerSM: 1, BlocksPerSM: 1}}},
		{"0 SMs", []schedulers.Device{{CapacityBytes: 1, WarpsPerSM: 1, BlocksPerSM: 1}}},
		{"context -1 bytes", []schedulers.Device{{CapacityBytes: 1, ContextBytes: -1, SMs: 1, WarpsPerSM: 1, BlocksPerSM: 1}}},
	} {
		_, err := engine.New(c.devices, s.Policy, s.Config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
