package schedulers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// v100 is a device with a V100's limits, 16 units of memory and no context.
var v100 = schedulers.Device{Name: "V100", CapacityBytes: 16, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}

// small is a device that a test can fill by hand: two SMs of 8 warps and 4 blocks.
var small = schedulers.Device{Name: "small", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}

// node is an engine whose answers read as text: "1@0" task 1 granted device 0,
// "!1" task 1 refused, "+1@0" grown, "-1@0" growth refused.
type node struct {
	t      *testing.T
	engine *schedulers.Engine
}

func newNode(t *testing.T, scheduler string, devices ...schedulers.Device) node {
	t.Helper()
	s, err := schedulers.Parse(scheduler, len(devices))
	if err != nil {
		t.Fatal(err)
	}
	e, err := schedulers.NewEngine(devices, s.Policy, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return node{t, e}
}

func read(ds []schedulers.Decision) string {
	var out []string
	for _, d := range ds {
		sign := map[schedulers.DecisionKind]string{schedulers.Grown: "+", schedulers.GrowRefused: "-"}[d.Kind]
		if d.Kind == schedulers.Refused {
			out = append(out, fmt.Sprintf("!%d", d.Task.ID))
			continue
		}
		out = append(out, fmt.Sprintf("%s%d@%d", sign, d.Task.ID, d.Device))
	}
	return strings.Join(out, " ")
}

func (n node) want(call, want string, ds []schedulers.Decision, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", call, err)
	}
	if got := read(ds); got != want {
		n.t.Fatalf("%s: decided %q, want %q", call, got, want)
	}
}

// submit's job is the task's id unless the task names one.
func (n node) submit(task schedulers.Task, want string) {
	n.t.Helper()
	if task.Job == 0 {
		task.Job = schedulers.JobID(task.ID)
	}
	ds, err := n.engine.Submit(task, 0)
	n.want(fmt.Sprintf("submit task %d", task.ID), want, ds, err)
}

func (n node) release(id schedulers.TaskID, want string) {
	n.t.Helper()
	ds, err := n.engine.Release(id, 0)
	n.want(fmt.Sprintf("release task %d", id), want, ds, err)
}

func (n node) grow(id schedulers.TaskID, bytes int64, want string) {
	n.t.Helper()
	ds, err := n.engine.Grow(id, bytes, nil, 0)
	n.want(fmt.Sprintf("grow task %d by %d", id, bytes), want, ds, err)
}

func (n node) shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32, want string) {
	n.t.Helper()
	ds, err := n.engine.Shape(id, blocks, threadsPerBlock, blocksPerSM, 0)
	n.want(fmt.Sprintf("shape of task %d", id), want, ds, err)
}

func (n node) exit(job schedulers.JobID, want string) {
	n.t.Helper()
	n.want(fmt.Sprintf("exit of job %d", job), want, n.engine.JobExit(job, 0), nil)
}

// finish ends a task together with its job.
func (n node) finish(id schedulers.TaskID, want string) {
	n.t.Helper()
	n.exit(schedulers.JobID(id), want)
}

func (n node) expire(now time.Duration, want string) {
	n.t.Helper()
	n.want(fmt.Sprintf("expire at %v", now), want, n.engine.Expire(now), nil)
}

func (n node) device(i int) *schedulers.DeviceState { return n.engine.State().Device(i) }

// freeBlocks is the free block slots of each SM of device i.
func (n node) freeBlocks(i int) []int {
	var free []int
	for _, m := range n.device(i).SMs {
		free = append(free, m.FreeBlocks)
	}
	return free
}

func (n node) wantFreeBlocks(i int, want ...int) {
	n.t.Helper()
	if got := n.freeBlocks(i); !slices.Equal(got, want) {
		n.t.Fatalf("device %d has free blocks %v per SM, want %v", i, got, want)
	}
}
