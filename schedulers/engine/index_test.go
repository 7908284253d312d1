package engine_test

import (
	"slices"
	"testing"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// counter counts how often it is asked.
type counter struct {
	schedulers.Measurer
	places int
}

func (c *counter) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	c.places++
	return c.Measurer.Place(t, v)
}

// full returns an engine with four devices of 100 bytes and contexts of 10, on which tasks of 40
// bytes run: two on each device, with nothing free.
func full(t *testing.T, scheduler string) (*engine.Engine, *counter) {
	t.Helper()
	s, err := policies.Parse(scheduler, 4)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{Measurer: s.Policy.(schedulers.Measurer)}
	device := schedulers.Device{Name: "test", CapacityBytes: 100, ContextBytes: 10, SMs: 4, WarpsPerSM: 64, BlocksPerSM: 32}
	e, err := engine.New([]schedulers.Device{device, device, device, device}, c, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	for id := range schedulers.TaskID(8) {
		if ds := submit(t, e, schedulers.Task{ID: id, Job: schedulers.JobID(id), Bytes: 40, Blocks: 8, ThreadsPerBlock: 32}); len(ds) != 1 {
			t.Fatalf("task %d: %v", id, ds)
		}
	}
	return e, c
}

func submit(t *testing.T, e *engine.Engine, task schedulers.Task) []schedulers.Decision {
	t.Helper()
	ds, err := e.Submit(task, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// The policy is not asked about tasks that cannot go: a release with its grant asks once, however
// many tasks wait.
func TestThePolicyIsAskedOnlyAboutTasksThatMayFit(t *testing.T) {
	for _, scheduler := range []string{"case-alg3", "case-alg3:queue=mmu", "case-alg2:queue=mmu"} {
		e, c := full(t, scheduler)
		for id := schedulers.TaskID(100); id < 400; id++ {
			task := schedulers.Task{ID: id, Job: schedulers.JobID(id), Bytes: 60 + int64(id)%20, Blocks: 8, ThreadsPerBlock: 32}
			if id == 300 {
				task.Bytes = 25
			}
			if ds := submit(t, e, task); len(ds) != 0 {
				t.Fatalf("%s: task %d: %v", scheduler, id, ds)
			}
		}
		c.places = 0
		ds, err := e.Release(1)
		if err != nil || len(ds) != 1 || ds[0].Task.ID != 300 {
			t.Fatalf("%s: %v, %v; want task 300 granted", scheduler, ds, err)
		}
		if c.places != 1 {
			t.Errorf("%s: the policy was asked %d times, want once", scheduler, c.places)
		}
	}
}

// A job with a context on the device has room for a task that is too large for others, and is
// found at a change of the device.
func TestAJobMayHaveMoreRoomWhereItHasAContext(t *testing.T) {
	e, _ := full(t, "case-alg3")
	submit(t, e, schedulers.Task{ID: 20, Job: 20, Bytes: 35}) // 30 will be free for it
	submit(t, e, schedulers.Task{ID: 21, Job: 1, Bytes: 35})  // 40 for the process that has a context there
	ds, err := e.Release(1)
	if err != nil || len(ds) != 1 || ds[0].Task.ID != 21 || ds[0].Device != 1 {
		t.Fatalf("%v, %v; want task 21 on device 1", ds, err)
	}
}

// More kinds of tasks than the index keeps are served all the same, in the same order.
func TestMoreKindsThanTheIndexKeeps(t *testing.T) {
	e, c := full(t, "case-alg2:queue=mmu,age-limit=0")
	reference, err := engine.New(slices.Repeat([]schedulers.Device{e.View().Device(0).Limits()}, 4), c.Measurer, engine.Config{Queue: engine.FirstFit, Exhaustive: true})
	if err != nil {
		t.Fatal(err)
	}
	for id := range schedulers.TaskID(8) {
		if _, err := reference.Submit(schedulers.Task{ID: id, Job: schedulers.JobID(id), Bytes: 40, Blocks: 8, ThreadsPerBlock: 32}, 0); err != nil {
			t.Fatal(err)
		}
	}
	const last = 300
	for id := schedulers.TaskID(8); id <= last; id++ {
		task := schedulers.Task{ID: id, Job: schedulers.JobID(id), Bytes: 5 + int64(id)%40, Blocks: uint64(id) % 128, ThreadsPerBlock: 1 + uint32(id)}
		submit(t, e, task)
		if _, err := reference.Submit(task, 0); err != nil {
			t.Fatal(err)
		}
	}
	for job := range schedulers.JobID(last + 1) {
		got, want := schedtest.Text(e.JobExit(job)), schedtest.Text(reference.JobExit(job))
		if got != want {
			t.Fatalf("exit of job %d: decided %q, want %q", job, got, want)
		}
	}
	if e.Waiting() != 0 {
		t.Errorf("%d tasks wait after all jobs have gone", e.Waiting())
	}
}
