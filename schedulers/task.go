// Package schedulers is the vocabulary of scheduling: tasks and devices, what is in use
// (View), where a task may go (Policy, Placement), and what was decided (Decision).
//
// Package engine queues and accounts; package policies has the policies. All three are
// pure: they read no clock, start nothing and log nothing. Times are arguments
// (durations since the batch's arrival), and the same calls in the same order give the
// same answers. Live and simulated runs use the same engine and policies.
package schedulers

import (
	"fmt"
	"time"
)

// TaskID identifies a task within a batch. The caller chooses it; it is never
// reused, so that overlapping tasks of one process stay apart.
type TaskID uint64

// JobID is a job's position in its mix.
type JobID int

// Process is a process of a job. It has a context of its own on each device that it uses.
type Process struct {
	Job    JobID
	Serial int // tells them apart; 0 where the job is one process
}

// Task is what must share one device: CASE's GPU task under a task-bound
// scheduler, a whole job under a process-bound one.
type Task struct {
	ID              TaskID
	Job             JobID
	Serial          int   // of its process, see Process
	Bytes           int64 // device memory of all its objects and its heap; 0 = unknown or none
	Blocks          uint64
	ThreadsPerBlock uint32
	BlocksPerSM     uint32 // how many of its blocks one SM holds at once; 0 = unknown
	GridUnknown     bool   // Blocks says nothing yet: a kernel of any size may follow (engine.Engine.Shape)
	Managed         bool   // some of Bytes is unified memory
	OnDevice        *int   // the one device that will do; nil = any
	Priority        int    // larger goes first where the queue order looks at it
	Isolate         bool   // shares its device with no other job
	// Wait is the longest that it waits for its device; nil: engine.Config.WaitLimit; 0: it is refused
	// at once where it cannot be granted now.
	Wait *time.Duration
}

// Process is the process whose context the task uses.
func (t Task) Process() Process { return Process{t.Job, t.Serial} }

const warpSize = 32

// WarpsPerBlock is ⌈threads per block ÷ 32⌉: a block of 16 threads still
// occupies a whole warp.
func (t Task) WarpsPerBlock() uint64 {
	return (uint64(t.ThreadsPerBlock) + warpSize - 1) / warpSize
}

// maxWarps is where one task's warps saturate, so that the sum over a device
// cannot wrap around. CUDA's largest grid of whole blocks is beyond it; it
// would run for years.
const maxWarps = 1 << 48

// Warps is the whole grid's warps, not capped at what a device holds at once
// (CASE, Alg. 3).
func (t Task) Warps() uint64 {
	if w := t.WarpsPerBlock(); w > 0 && t.Blocks > maxWarps/w {
		return maxWarps
	}
	return t.Blocks * t.WarpsPerBlock()
}

// WithKernel is t with the kernel as its largest, or false where it is not
// larger than the one that t has. The larger of two has more warps in its whole
// grid; of two alike, it is the one of which an SM holds fewer blocks.
func (t Task) WithKernel(blocks uint64, threadsPerBlock, blocksPerSM uint32) (Task, bool) {
	k := t
	k.Blocks, k.ThreadsPerBlock, k.BlocksPerSM, k.GridUnknown = blocks, threadsPerBlock, blocksPerSM, false
	larger := t.GridUnknown || k.Warps() > t.Warps() ||
		k.Warps() == t.Warps() && blocksPerSM > 0 && (t.BlocksPerSM == 0 || blocksPerSM < t.BlocksPerSM)
	if blocks == 0 || !larger {
		return t, false
	}
	return k, true
}

// Device is one GPU as the schedulers see it.
type Device struct {
	Name          string
	CapacityBytes int64 // what tasks and process contexts may use together
	ContextBytes  int64 // charged once for each job that has had a task here, until the job exits
	SMs           int
	WarpsPerSM    int
	BlocksPerSM   int
}

// DecisionKind says what a Decision answers.
type DecisionKind int

const (
	Granted     DecisionKind = iota // the task has the device
	Refused                         // the task will never get one
	Grown                           // the task has the bytes it asked for on top
	GrowRefused                     // it will not get them; it keeps what it has
)

func (k DecisionKind) String() string {
	return [...]string{"granted", "refused", "grown", "grow refused"}[k]
}

// Decision answers one Submit or Grow. Reason is set on refusals and says need
// and capacity.
type Decision struct {
	Kind   DecisionKind
	Task   Task
	Device int
	Passed int // how often a later task was granted while this one waited
	Reason *Refusal
}

// Cause is the kind of a refusal.
type Cause int

const (
	TooLarge   Cause = iota // not even the empty node has room where it may go
	DeviceFull              // no room beside what nobody will give back
	TimedOut                // it waited as long as it, or the wait limit, allows
)

// Refusal is why a task gets no device, or no more memory. It is an error so
// that callers can wrap it.
type Refusal struct {
	Cause         Cause
	Why           string
	NeedBytes     int64
	CapacityBytes int64
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: needs %d bytes, capacity %d bytes", r.Why, r.NeedBytes, r.CapacityBytes)
}

// Never is the expiry of a request that may wait for ever.
const Never = time.Duration(1<<63 - 1)
