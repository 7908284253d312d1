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

	"github.com/caserun/caserun/internal/size"
)

// TaskID identifies a task within a batch. The caller chooses it and never reuses it, so
// that overlapping tasks of one process stay apart.
type TaskID uint64

// JobID is a job's position in its mix.
type JobID int

// Process is a process of a job. It has its own context on each device that it uses.
type Process struct {
	Job    JobID
	Serial int // tells the job's processes apart; 0 if the job is one process
}

// Task is the unit that is placed on one device: CASE's GPU task if the scheduler binds
// tasks, a whole job if the scheduler binds processes.
type Task struct {
	ID              TaskID
	Job             JobID
	Serial          int   // of its process, see Process
	Bytes           int64 // device memory of all its objects and its heap; 0 = unknown or none
	Blocks          uint64
	ThreadsPerBlock uint32
	BlocksPerSM     uint32  // how many of its blocks one SM holds at once; 0 = unknown
	GridUnknown     bool    // Blocks is not known yet: a kernel of any size may follow (engine.Engine.Shape)
	Managed         bool    // some of Bytes is unified memory
	Isolate         bool    // shares its device with no other job
	Can             Actions // what its process can do under a Preempter; none: all its memory stays where it is
	OnDevice        *int    // the only device that the task may have; nil = any
	Priority        int     // under a queue order by priority the larger goes first
	Terms           *Terms  // nil: as a job that states none of them
	// Need is the part of Bytes that must be on the device before the task's first kernel runs;
	// nil: all. Only a Preempter reads it, because elsewhere nothing is ever on the host.
	Need *int64
	// Stays is the part of Needs that may stay on the host while kernels use it (Advise).
	Stays int64
	// Wait is the longest time that the task waits for its device. nil: engine.Config.WaitLimit.
	// 0: the task is refused if it cannot be granted now.
	Wait *time.Duration
}

// Terms are what few jobs state. They stand apart because a Task is copied often. Nobody changes them.
type Terms struct {
	Devices int // that the task has at once, with all of its memory and kernels on each, all or none; 0 and 1: one. See engine.Engine.Submit
	Share   int // of WholeDevice: the part of a device's time that its job asks for; 0: it asks for none. All tasks of a job say the same
	// Due is when its job should have ended, since the batch's arrival; 0: it has no deadline. Under the queue order
	// by deadline the earliest goes first.
	Due time.Duration
	// Expected is how long its job is expected to have a device, all of its tasks together: the whole job, where that
	// is bound to its device; nil: nobody knows. Under the queue order by length the shortest goes first.
	Expected *time.Duration
	// User is whose task it is, and Credits how many credits that user has; 0: one. Under the queue order by credits the
	// user goes first who has spent the least device time for each credit.
	User    string
	Credits int
	// MaxWait is how long a burst of its job waits until others are stopped for it, where the scheduler stops them; 0: as
	// long as the scheduler says.
	MaxWait time.Duration
	// Ranks is how many processes its job has that may wait for each other; 0: it is one process.
	Ranks int
	// Restarts is how often its job may still be started again, which ends a deadlock (the Decision Restart).
	Restarts int
}

// OrNone returns t, or the terms of a job that states none.
func (t *Terms) OrNone() *Terms {
	if t == nil {
		return &noTerms
	}
	return t
}

var noTerms Terms

// WholeDevice is the share that is all of a device's time.
const WholeDevice = 1_000_000

// Several reports whether the task has several devices at once.
func (t *Task) Several() bool { return t.Terms != nil && t.Terms.Devices > 1 }

// Needs is the memory that must be on the device before the task's first kernel runs.
func (t Task) Needs() int64 {
	if t.Need != nil {
		return *t.Need
	}
	return t.Bytes
}

// Process returns the process whose context the task uses.
func (t Task) Process() Process { return Process{t.Job, t.Serial} }

const warpSize = 32

// WarpsPerBlock is ⌈threads per block ÷ 32⌉: a block of 16 threads still
// occupies a whole warp.
func (t Task) WarpsPerBlock() uint64 {
	return (uint64(t.ThreadsPerBlock) + warpSize - 1) / warpSize
}

// maxWarps limits the warps of one task, so that the sum over a device cannot wrap around.
// CUDA's largest grid has more warps, but would run for years.
const maxWarps = 1 << 48

// Warps is the number of warps of the whole grid, not capped at the warps that a device
// holds at once (CASE, Alg. 3).
func (t Task) Warps() uint64 {
	if w := t.WarpsPerBlock(); w > 0 && t.Blocks > maxWarps/w {
		return maxWarps
	}
	return t.Blocks * t.WarpsPerBlock()
}

// WithKernel returns t with the kernel as its largest kernel, or false if the kernel is not
// larger than t's. The larger of two kernels has more warps in its whole grid. If the warps are equal,
// the larger kernel is the kernel of which an SM holds fewer blocks.
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
	CapacityBytes int64 // the memory that tasks and process contexts may use together
	ContextBytes  int64 // charged once for each process that has had a task here, until it exits
	SMs           int
	WarpsPerSM    int
	BlocksPerSM   int
	Speed         float64 // how fast it computes beside the node's other devices, as SMs × clock; 0: as its SMs say
}

// DecisionKind says what a Decision answers.
type DecisionKind int

const (
	Granted     DecisionKind = iota // the task has the device
	Refused                         // the task will never get a device
	Grown                           // the task has the additional bytes
	GrowRefused                     // the task will not get the additional bytes; it keeps its device
	// Only under a Preempter:
	Revoke        // the task's process is asked to give something back
	Resumed       // the task's context has its permit, and what the task lacks may come onto the device
	ResumeRefused // the task will not get what it lacks; it keeps its device
	Unanswered    // the task's process has not answered a Revoke in time: others may have the device until it does

	// Restart ends a deadlock under any policy: the task's job is to be stopped and started again. What it asks for gets no
	// other answer.
	Restart
)

func (k DecisionKind) String() string {
	return [...]string{"granted", "refused", "grown", "grow refused", "revoke", "resumed", "resume refused", "unanswered", "restart"}[k]
}

// Decision answers one Submit, Grow or Resume, or asks a task to give something back, or a job to start again. Refusals
// have a Reason.
type Decision struct {
	Kind   DecisionKind
	Task   Task
	Device int
	// Devices are those of a granted task that has several, in node order, Device first; nil: it has one.
	Devices []int
	Passed  int // how often a later task was granted while this one waited
	Reason  *Refusal

	Ticket     Ticket      // of a Revoke, which its answer names, or of an Unanswered
	Revocation *Revocation // of a Revoke
	Bytes      int64       // of a Restart: what its job needs on a device, without its context
	Host       int64       // of Granted and Resumed: bytes of what was asked for that stay on the host (Advise)
}

// Cause is the kind of a refusal.
type Cause int

const (
	TooLarge   Cause = iota + 1 // not even the empty node has room where it may go
	DeviceFull                  // no room, and no release will make room
	TimedOut                    // the request waited as long as its own or the scheduler's wait limit allows
)

func (c Cause) String() string {
	return [...]string{TooLarge: "too large for any device", DeviceFull: "device full", TimedOut: "waited too long"}[c]
}

// Refusal says why a task does not get a device or more memory. It is an error so that
// callers can wrap it.
type Refusal struct {
	Cause         Cause
	Why           string
	NeedBytes     int64
	CapacityBytes int64
	Deadlock      bool // it ends a deadlock, which the restart of a job would have done too
}

func (r *Refusal) Error() string {
	need, capacity := size.Apart(r.NeedBytes, r.CapacityBytes)
	return fmt.Sprintf("%s: needs %s, capacity %s", r.Why, need, capacity)
}

// Never is the expiry of a request that may wait for ever.
const Never = time.Duration(1<<63 - 1)
