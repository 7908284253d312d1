package schedtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// V100 is a device with a V100's limits, 16 units of memory and no context.
var V100 = schedulers.Device{Name: "V100", CapacityBytes: 16, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}

// Small is a device that a test can fill by hand: two SMs of 8 warps and 4 blocks.
var Small = schedulers.Device{Name: "small", CapacityBytes: 16, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}

// Node is an engine whose answers read as text: "1@0" task 1 granted device 0,
// "!1" task 1 refused, "+1@0" grown, "-1@0" growth refused.
type Node struct {
	t      *testing.T
	Engine *engine.Engine
}

func NewNode(t *testing.T, scheduler string, devices ...schedulers.Device) Node {
	t.Helper()
	s, err := policies.Parse(scheduler, len(devices))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(devices, s.Policy, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return Node{t, e}
}

// Text returns decisions as Node writes them.
func Text(ds []schedulers.Decision) string {
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

func (n Node) Want(call, want string, ds []schedulers.Decision, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", call, err)
	}
	if got := Text(ds); got != want {
		n.t.Fatalf("%s: decided %q, want %q", call, got, want)
	}
}

// Submit submits the task. Its job is the task's id unless the task names a job.
func (n Node) Submit(task schedulers.Task, want string) {
	n.t.Helper()
	if task.Job == 0 {
		task.Job = schedulers.JobID(task.ID)
	}
	ds, err := n.Engine.Submit(task, 0)
	n.Want(fmt.Sprintf("submit task %d", task.ID), want, ds, err)
}

func (n Node) Release(id schedulers.TaskID, want string) {
	n.t.Helper()
	ds, err := n.Engine.Release(id)
	n.Want(fmt.Sprintf("release task %d", id), want, ds, err)
}

func (n Node) Grow(id schedulers.TaskID, bytes int64, want string) {
	n.t.Helper()
	ds, err := n.Engine.Grow(id, bytes, nil, 0)
	n.Want(fmt.Sprintf("grow task %d by %d", id, bytes), want, ds, err)
}

func (n Node) Shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32, want string) {
	n.t.Helper()
	ds, err := n.Engine.Shape(id, blocks, threadsPerBlock, blocksPerSM)
	n.Want(fmt.Sprintf("shape of task %d", id), want, ds, err)
}

func (n Node) Exit(job schedulers.JobID, want string) {
	n.t.Helper()
	n.Want(fmt.Sprintf("exit of job %d", job), want, n.Engine.JobExit(job), nil)
}

// Finish ends a task together with its job.
func (n Node) Finish(id schedulers.TaskID, want string) {
	n.t.Helper()
	n.Exit(schedulers.JobID(id), want)
}

func (n Node) Expire(now time.Duration, want string) {
	n.t.Helper()
	n.Want(fmt.Sprintf("expire at %v", now), want, n.Engine.Expire(now), nil)
}

func (n Node) Device(i int) schedulers.DeviceView { return n.Engine.View().Device(i) }

// FreeBlocks returns the free block slots of each SM of device i.
func (n Node) FreeBlocks(i int) []int {
	var free []int
	for sm := range n.Device(i).Limits().SMs {
		free = append(free, n.Device(i).SM(sm).FreeBlocks)
	}
	return free
}

func (n Node) WantFreeBlocks(i int, want ...int) {
	n.t.Helper()
	if got := n.FreeBlocks(i); !slices.Equal(got, want) {
		n.t.Fatalf("device %d has free blocks %v per SM, want %v", i, got, want)
	}
}
