package schedulers

import (
	"iter"
	"time"
)

// View is a node's devices as they stand now. A policy reads a View and cannot
// change it. What a View returns holds until the engine's next decision.
type View interface {
	Len() int                // devices of the node
	Device(i int) DeviceView // in node order
	Latest() int             // device of the latest Granted, -1 before the first
}

// DeviceView is what is in use on one device.
type DeviceView interface {
	// Limits describes the device when nothing uses it.
	Limits() Device
	// UsedBytes is the memory of tasks and contexts here: what is on the device under a
	// Preempter, what was granted under others.
	UsedBytes() int64
	// FreeBytes is the memory that can still be granted. It is negative under
	// oversubscription, which policies without knowledge of memory cause.
	FreeBytes() int64
	// ContextBytes is the memory that the context of t's process would take here in
	// addition to t. It is 0 if the process has a context here already.
	ContextBytes(t Task) int64
	// Context reports whether the process has a context here, and whether the context has a
	// permit. Only a Preempter's contexts have permits.
	Context(p Process) (here, permit bool)
	// Permits is the number of contexts here that have a permit.
	Permits() int
	// Ranks has the job of each context here with a permit, if the job has several ranks, and how many (Terms.Ranks), in no order.
	Ranks() iter.Seq2[JobID, int]
	// TaskViews has the tasks here in the order of their ids; none unless the policy is a
	// Preempter.
	TaskViews() iter.Seq[TaskView]
	// UsedWarps is the sum of the whole grids of the tasks here.
	UsedWarps() uint64
	// Tasks is the number of tasks here.
	Tasks() int
	// TasksOf is the number of the job's tasks here.
	TasksOf(job JobID) int
	// Jobs is the number of jobs with a context here.
	Jobs() int
	// Open reports whether t may join the device, whatever its size. This is the
	// admission rule that all policies share. A device is closed to t if
	//   - t must have another device (Task.OnDevice);
	//   - t or a job here is isolated, and they are not the same job;
	//   - t has a device already, as one of several (Terms.Devices), and it is this one;
	//   - t asks for a share, its job has no task here, and the shares of the jobs with a task here leave too little (Terms.Share);
	//   - a task here has the device to itself (Placement.Exclusive);
	//   - a task here waits to grow, and t could take the memory that it waits for;
	//   - room is being made here for another request (Preempter);
	//   - it is closed, and t need not be here;
	//   - t's job may not use it (engine.Engine.Limit).
	Open(t Task) bool
	// Closed reports whether the device is being taken out of the run, or is lost.
	Closed() bool
	// Saturated reports whether a task here has the device to itself.
	Saturated() bool
	// SM is what is free on streaming multiprocessor i.
	SM(i int) SM
	// NextSM is the SM at which the next placement's first block goes.
	NextSM() int
}

// SM is the free room on one streaming multiprocessor. Only placements with SMs
// (Placement.Blocks) use it.
type SM struct{ FreeBlocks, FreeSlots int }

// SlotsPerWarp is the number of slots into which a warp's place on an SM is divided. If an SM
// holds n blocks of a kernel, each block takes 1/n of the SM's slots, in whole slots. The number is
// large enough that n such blocks fit and n+1 do not, for every n that a device allows.
const SlotsPerWarp = 1 << 10

// Placement is where a policy puts a task.
type Placement struct {
	Device      int
	Blocks      []int // blocks added to each SM, or nil: SM slots are not tracked
	WarpSlots   int   // the slots that each of these blocks takes on its SM
	NextSM      int   // the device's cursor afterwards; read with Blocks
	Exclusive   bool  // no other task joins the device until the task is released
	WholeMemory bool  // the task is charged all free memory
}

// Policy answers where a task may go. It keeps no state of its own: the same View and
// task give the same answer. Ties break by device order.
type Policy interface {
	// Place says where t may go now, or false: t must wait. A task that the policy
	// cannot place on an empty node is refused at once.
	Place(t Task, v View) (Placement, bool)
	// CanGrow says whether a task on device d may have bytes more now.
	CanGrow(bytes int64, d DeviceView) bool
	// Reshape says how t stands on d, where t already is at a placement, now that a
	// larger kernel of t is known. d is without t's SM slots.
	Reshape(t Task, at Placement, d DeviceView) Placement
}

// A Measurer is a Policy that can say how large a task may be for a device. The engine then leaves out
// tasks that are too large for every device, and asks Place only about tasks that may fit.
//
// A Measurer decides device by device. It places a task if it places the same task for some device
// only (Task.OnDevice). If there is one such device, both placements are the same. The answer for a
// device depends only on the task and on that device.
type Measurer interface {
	Policy
	// Like returns t with only what Measure reads of it, so that tasks that are measured
	// alike are equal. It does not read Task.Bytes, or which job or process t belongs to.
	Like(t Task) Task
	// Measure says how much memory a task like t may have on device i at most: fresh if its job
	// has nothing there, and known if its job has a context there. If it is negative, no such task
	// goes there. The engine sees to DeviceView.Open. Too large a number costs time. Too small a
	// number keeps a task waiting that could go.
	Measure(t Task, v View, i int) (fresh, known int64)
}

// A Fallible is a Policy that can fail to decide, because it asks somebody else. From its failure on
// it places nothing, and what the engine decides does not count.
type Fallible interface {
	Policy
	// Err is the failure, a PolicyError; nil: it has decided all that it was asked.
	Err() error
	// Stuck makes it fail because so many requests wait although nothing is on the node. A task is queued only if the policy
	// has said that it would place the task on the empty node, so it contradicts itself. Stuck returns the failure.
	Stuck(waiting int) error
}

// A Timed is a Policy that is told the time before it is asked anything, because it asks somebody else.
type Timed interface {
	Policy
	// Tell tells the time since the batch's arrival.
	Tell(now time.Duration)
}

// PolicyError is why a Fallible has failed. It says nothing of the node.
type PolicyError struct{ Err error }

func (e PolicyError) Error() string { return e.Err.Error() }

// Unwrap returns what the policy failed of.
func (e PolicyError) Unwrap() error { return e.Err }
