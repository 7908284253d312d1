package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// A task gets all devices that it asks for, or none, under policies that bind jobs and tasks. What it needs it needs on each.
func TestSeveralDevicesAllOrNone(t *testing.T) {
	for _, scheduler := range []string{"sa", "cg:workers=6", "case-alg2:queue=fifo", "case-alg3:queue=fifo", "plan", "vgpu:queue=fifo", "demand:queue=fifo"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small, enginetest.Small, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 9, Isolate: true}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 9, Isolate: true, Terms: &schedulers.Terms{Devices: 3}}, "")
		if used := n.Device(1).UsedBytes() + n.Device(2).UsedBytes(); used != 0 {
			t.Errorf("%s: %d bytes are in use for a task that waits", scheduler, used)
		}
		n.Finish(1, "2@0+1+2")
		for i := range 3 {
			if d := n.Device(i); d.UsedBytes() != 9 || d.Tasks() != 1 || d.Jobs() != 1 {
				t.Errorf("%s: device %d has %d bytes of %d tasks of %d jobs", scheduler, i, d.UsedBytes(), d.Tasks(), d.Jobs())
			}
		}
		n.Submit(schedulers.Task{ID: 3, Bytes: 1, Terms: &schedulers.Terms{Devices: 2}}, "")
		n.Release(2, "") // its contexts stay
		n.Exit(2, "3@0+1")
		n.Exit(3, "")
		for i := range 3 {
			if d := n.Device(i); d.UsedBytes() != 0 || d.Jobs() != 0 {
				t.Errorf("%s: device %d has %d bytes of %d jobs at the end", scheduler, i, d.UsedBytes(), d.Jobs())
			}
		}
	}
}

// What no empty node can give is refused at once, with the reason.
func TestSeveralDevicesThatNoNodeHas(t *testing.T) {
	large := enginetest.Small
	large.CapacityBytes = 32
	for _, c := range []struct {
		scheduler string
		task      schedulers.Task
		why       string
		capacity  int64
	}{
		{"case-alg3", schedulers.Task{Bytes: 1, Terms: &schedulers.Terms{Devices: 4}}, "asks for 4 devices at once, and the node has 3", 32},
		{"case-alg3", schedulers.Task{Bytes: 17, Terms: &schedulers.Terms{Devices: 3}}, "does not fit on 3 devices at once", 16},
		{"demand", schedulers.Task{Bytes: 17, Terms: &schedulers.Terms{Devices: 3}}, "does not fit on 3 devices at once", 16},
		{"schedgpu", schedulers.Task{Bytes: 1, Terms: &schedulers.Terms{Devices: 2}}, "gives it no 2 devices at once even when the node is empty, and would not if it needed less memory", 32},
		{"cg:workers=2", schedulers.Task{Bytes: 1, Terms: &schedulers.Terms{Devices: 3}}, "gives it no 3 devices", 32},
	} {
		n := enginetest.NewNode(t, c.scheduler, large, enginetest.Small, large)
		c.task.ID = 1
		ds, err := n.Engine.Submit(c.task, 0)
		n.Want(c.scheduler, "!1", ds, err)
		if r := ds[0].Reason; !strings.Contains(r.Why, c.why) || r.CapacityBytes != c.capacity || r.Cause != schedulers.TooLarge {
			t.Errorf("%s: %+v, want %q", c.scheduler, *r, c.why)
		}
		c.task.ID, c.task.Terms.Devices = 2, 2
		if c.scheduler != "schedgpu" {
			ds, err = n.Engine.Submit(c.task, 0)
			n.Want(c.scheduler, "2@"+map[bool]string{true: "0+1", false: "0+2"}[c.task.Bytes == 1], ds, err)
		}
	}
}

// The queue's rules hold for a request for several devices: it is passed, ages, and then holds back others, so that devices become free together.
func TestSeveralDevicesAge(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=mmu,age-limit=2", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 16}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 16, Terms: &schedulers.Terms{Devices: 2}}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 16}, "3@1")
	n.Submit(schedulers.Task{ID: 4, Bytes: 16}, "")
	n.Finish(1, "4@0") // task 2 has been passed twice
	n.Submit(schedulers.Task{ID: 5, Bytes: 1}, "")
	n.Finish(3, "")
	n.Finish(4, "2@0+1")
	n.Submit(schedulers.Task{ID: 6, Bytes: 1, Wait: new(time.Duration(0)), Terms: &schedulers.Terms{Devices: 2}}, "!6")
	n.Finish(2, "5@0")
}

// A plan has no place for such a request. It goes once it fits, and once it has aged, no job of the plan goes before it.
func TestSeveralDevicesBesideAPlan(t *testing.T) {
	n := enginetest.NewNode(t, "plan:age-limit=1", enginetest.Small, enginetest.Small)
	follow(t, n, 0, sequences(schedulers.Never, jobs{1, 3}, jobs{4}), "")
	n.Submit(schedulers.Task{ID: 1, Bytes: 9}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 9, Terms: &schedulers.Terms{Devices: 2}}, "")
	n.Submit(schedulers.Task{ID: 4, Bytes: 9}, "4@1")
	n.Submit(schedulers.Task{ID: 3, Bytes: 9}, "")
	n.Finish(1, "")
	n.Finish(4, "2@0+1")
	n.Finish(2, "3@0")
}

// Under a policy that takes back, room is made on as many devices as the request lacks, or on none.
func TestRoomOnSeveralDevices(t *testing.T) {
	for _, scheduler := range []string{"demand", "vgpu"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small, enginetest.Small)
		for id := range schedulers.TaskID(2) {
			n.Submit(schedulers.Task{ID: id + 1, Bytes: 12, Can: schedulers.Movable}, []string{"1@0", "2@1"}[id])
		}
		n.Idle(1, time.Second)
		n.Submit(schedulers.Task{ID: 3, Bytes: 10, Terms: &schedulers.Terms{Devices: 2}}, "") // task 2 runs
		n.Idle(2, time.Second)
		n.Tick(2*time.Second, map[string]string{"demand": "yield(1,6) yield(2,6)", "vgpu": "yield(1,12) yield(2,12)"}[scheduler])
		n.Give(1, "")
		if n.Device(1).Open(schedulers.Task{ID: 9, Job: 9}) {
			t.Errorf("%s: device 1 is open to others, while room is made there", scheduler)
		}
		n.Give(2, "3@0+1")
		for _, v := range slices.Collect(n.Device(1).TaskViews()) {
			if v.Task.ID == 3 && (v.Movable != 0 || v.CanAsk(schedulers.Evict) || v.Resident != 10) {
				t.Errorf("%s: %+v, want a task that keeps its 10 bytes", scheduler, v)
			}
		}
		n.Exit(3, "")
	}
}

// Who holds several devices keeps the others when one is lost, until it ends. Who waits for them is refused if too few are left.
func TestALostDeviceOfSeveral(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3", enginetest.Small, enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 9, Terms: &schedulers.Terms{Devices: 3}}, "1@0+1+2")
	n.Submit(schedulers.Task{ID: 2, Bytes: 9, Terms: &schedulers.Terms{Devices: 3}}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 9, Terms: &schedulers.Terms{Devices: 2}}, "")
	ds := n.Engine.DeviceLost(1, true, 0)
	n.Want("lose device 1", "!2", ds, nil)
	if why := ds[0].Reason.Why; !strings.Contains(why, "gives it no 3 devices at once even when the node is empty, and would not if it needed less memory, because the run has lost device 1") {
		t.Errorf("refused because %q", why)
	}
	n.Exit(1, "3@0+2")
}

// A task for more devices than its job may use is parked.
func TestALimitBelowSeveralDevices(t *testing.T) {
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", enginetest.Small, enginetest.Small)
	limit(t, n, 1, 1, "")
	limit(t, n, 2, 1, "")
	n.Submit(schedulers.Task{ID: 1, Bytes: 9, Terms: &schedulers.Terms{Devices: 2}}, "")
	n.Submit(schedulers.Task{ID: 2, Bytes: 9, Wait: new(time.Duration(0)), Terms: &schedulers.Terms{Devices: 2}}, "!2")
	n.Submit(schedulers.Task{ID: 3, Bytes: 9}, "3@0")
	limit(t, n, 1, 2, "")
	n.Exit(3, "1@0+1")
	limit(t, n, 1, 1, "")
}

func TestMisuseOfSeveralDevices(t *testing.T) {
	n := enginetest.NewNode(t, "vgpu", enginetest.Small, enginetest.Small)
	n.Submit(schedulers.Task{ID: 1, Bytes: 1, Terms: &schedulers.Terms{Devices: 2}}, "1@0+1")
	n.Submit(schedulers.Task{ID: 2, Bytes: 16, Terms: &schedulers.Terms{Devices: 2}}, "")
	n.Submit(schedulers.Task{ID: 3, Bytes: 1}, "3@0")
	submit := func(task schedulers.Task) func() ([]schedulers.Decision, error) {
		return func() ([]schedulers.Decision, error) { return n.Engine.Submit(task, 0) }
	}
	for _, c := range []struct {
		want string
		call func() ([]schedulers.Decision, error)
	}{
		{"its job has a task for several devices", submit(schedulers.Task{ID: 9, Job: 1})},
		{"its job has a task for several devices", submit(schedulers.Task{ID: 9, Job: 2})},
		{"its job has other tasks, or has had", submit(schedulers.Task{ID: 9, Job: 1, Terms: &schedulers.Terms{Devices: 2}})},
		{"its job has other tasks, or has had", submit(schedulers.Task{ID: 9, Job: 3, Terms: &schedulers.Terms{Devices: 2}})},
		{"and for device 1 only", submit(schedulers.Task{ID: 9, Job: 9, OnDevice: new(1), Terms: &schedulers.Terms{Devices: 2}})},
		{"its memory moves", submit(schedulers.Task{ID: 9, Job: 9, Can: schedulers.Movable, Terms: &schedulers.Terms{Devices: 2}})},
		{"it has several devices", func() ([]schedulers.Decision, error) { return n.Engine.Grow(1, 1, nil, 0) }},
		{"it has several devices", func() ([]schedulers.Decision, error) { return n.Engine.Shrink(1, 1) }},
		{"it has several devices", func() ([]schedulers.Decision, error) { return n.Engine.Shape(1, 1, 32, 1) }},
		{"it has several devices", func() ([]schedulers.Decision, error) { return n.Engine.Resume(1, 0, 0, 0) }},
		{"activity of task 1", func() ([]schedulers.Decision, error) {
			return nil, n.Engine.Active(1, schedulers.Activity{}, 0)
		}},
	} {
		ds, err := c.call()
		if err == nil || !strings.Contains(err.Error(), c.want) || len(ds) != 0 {
			t.Errorf("decided %q with error %v, want an error with %q", schedtest.Text(ds), err, c.want)
		}
	}
	if n.Engine.Waiting() != 1 || n.Device(0).UsedBytes() != 2 || n.Device(1).UsedBytes() != 1 {
		t.Errorf("%d wait, %d and %d bytes are in use", n.Engine.Waiting(), n.Device(0).UsedBytes(), n.Device(1).UsedBytes())
	}
}

// Jobs that ask for parts of a device's time share it while their parts add up to the whole. A job counts once on a device, with its first
// task there, and no longer than it has one. Who asks for none counts as none.
func TestShares(t *testing.T) {
	part := func(id schedulers.TaskID, job schedulers.JobID, share int) schedulers.Task {
		return schedulers.Task{ID: id, Job: job, Bytes: 1, Terms: &schedulers.Terms{Share: share}}
	}
	n := enginetest.NewNode(t, "case-alg3:queue=fifo", enginetest.Small)
	for id := range schedulers.TaskID(10) { // as many tenths as there are
		n.Submit(part(id+1, schedulers.JobID(id/2+1), 200_000), schedtest.Text([]schedulers.Decision{{Task: schedulers.Task{ID: id + 1}}}))
	}
	n.Submit(part(20, 20, 1), "")
	n.Release(1, "") // job 1 has another
	n.Release(2, "20@0")
	n.Submit(part(21, 21, schedulers.WholeDevice), "")
	n.Submit(schedulers.Task{ID: 22, Bytes: 1}, "") // it is not its turn
	n.Release(21, "22@0")
}

// Where the memory is free already, nobody is asked for it.
func TestRoomOnTheOtherDeviceOnly(t *testing.T) {
	for _, scheduler := range []string{"demand", "vgpu"} {
		n := enginetest.NewNode(t, scheduler, enginetest.Small, enginetest.Small)
		n.Submit(schedulers.Task{ID: 1, Bytes: 12, Can: schedulers.Movable}, "1@0")
		n.Submit(schedulers.Task{ID: 2, Bytes: 2}, "2@1")
		n.Idle(1, time.Second)
		n.Submit(schedulers.Task{ID: 3, Bytes: 10, Terms: &schedulers.Terms{Devices: 2}}, map[string]string{"demand": "yield(1,6)", "vgpu": "yield(1,12)"}[scheduler])
		n.Give(1, "3@0+1")
	}
}

// watched notes what its policy sees when it is asked about a task for several devices.
type watched struct {
	schedulers.Measurer
	seen *[]string
}

func (w watched) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	p, ok := w.Measurer.Place(t, v)
	if t.Several() {
		for i := range v.Len() {
			d := v.Device(i)
			here, _ := d.Context(t.Process())
			*w.seen = append(*w.seen, fmt.Sprint(d.UsedBytes(), d.Tasks(), d.Jobs(), d.TasksOf(t.Job), here, d.Open(t)))
		}
		*w.seen = append(*w.seen, fmt.Sprint("latest ", v.Latest()))
	}
	return p, ok
}

// A policy that is asked for another device sees what the members before have. It is not asked about a request while too few devices have room.
func TestWhatAPolicySeesOfSeveralDevices(t *testing.T) {
	s, err := policies.Parse("case-alg3:queue=mmu", 2)
	if err != nil {
		t.Fatal(err)
	}
	device := enginetest.Small
	device.ContextBytes = 1
	var seen []string
	e, err := engine.New([]schedulers.Device{device, device}, watched{s.Policy.(schedulers.Measurer), &seen}, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(task schedulers.Task, want string) {
		t.Helper()
		ds, err := e.Submit(task, 0)
		if got := schedtest.Text(ds); err != nil || got != want {
			t.Fatalf("submit task %d: %q, %v, want %q", task.ID, got, err, want)
		}
	}
	submit(schedulers.Task{ID: 1, Job: 1, Bytes: 3, Terms: &schedulers.Terms{Devices: 2}}, "1@0+1")
	first, second := []string{"0 0 0 0 false true", "0 0 0 0 false true", "latest -1"}, []string{"4 1 1 1 true false", "0 0 0 0 false true", "latest 0"}
	if want := slices.Concat(first, second); !slices.Equal(seen[:6], want) {
		t.Errorf("seen %q, want %q", seen[:6], want)
	}
	submit(schedulers.Task{ID: 2, Job: 2, Bytes: 10}, "2@0")
	submit(schedulers.Task{ID: 3, Job: 3, Bytes: 9, Terms: &schedulers.Terms{Devices: 2}}, "")
	seen = nil
	submit(schedulers.Task{ID: 4, Job: 4, Blocks: 1, ThreadsPerBlock: 32}, "4@0")
	submit(schedulers.Task{ID: 5, Job: 5, Blocks: 1, ThreadsPerBlock: 32}, "5@1")
	if len(seen) > 0 {
		t.Errorf("asked about a request for two devices while one has the room: %q", seen)
	}
}
