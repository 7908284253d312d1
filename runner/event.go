package runner

import (
	"iter"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/plan"
)

// Event is something that happened to a batch. Jobs are named by their index in the mix,
// processes and tasks by the numbers that the executor gave them.
type Event interface {
	// apply changes the batch. An error says that the event cannot be; then nothing changes.
	apply(b *Batch, now time.Duration) error
}

// Events of the batch as a whole.
type (
	// Arrive starts the batch: the jobs of its first group arrive. It comes once, first.
	Arrive struct{}
	// Tick ends what has waited or run too long. It comes at or soon after each WakeAt.
	Tick struct {
		// Quiet: nothing happens before this time unless this tick brings it about; Never: nothing ever does. 0: that
		// is not known.
		Quiet time.Duration
	}
	// Cancel stops the jobs that run and withdraws the others.
	Cancel struct{ Why string }
	// Fail is Cancel for an executor that cannot go on, because it could not start the
	// other jobs.
	Fail struct{ Err error }
	// Planned answers Search.
	Planned struct{ Plan schedulers.Plan }
	// DeviceLost says that no job goes to a device any more, until DeviceAdded. If that is not planned, the device has fallen
	// off the bus, and the jobs there are stopped. Otherwise they go on (engine.Engine.DeviceLost).
	DeviceLost struct {
		Device  int
		Why     string
		Planned bool
	}
	// DeviceAdded says that jobs may go to a device again.
	DeviceAdded struct{ Device int }
	// Given adds a job to a batch that may be given jobs (Config.Open). Its index follows those of all others. It arrives
	// now, and belongs to the group of the mix that is present. An error says why the batch does not have it.
	Given struct {
		Job         mixes.Job
		Expected    *schedulers.Prediction // as in Config.Predictions
		FaultsAlone string                 // as in Config.FaultsAlone
		Notes       []results.Event        // of the job, as in Config.Notes
		More        bool                   // another job is given at once: they are admitted together
		Span        *Span                  // the job is a part of one on several nodes; nil: it is whole
	}
	// Span is the ranks of a job that one node has, of several nodes.
	Span struct {
		First int    // the others follow it
		Of    int    // ranks of the job
		Meets string // a directory, which the nodes of all share, for the ranks to meet in; "": simulated ranks need none
	}
	// NoMore says that no more jobs are given.
	NoMore struct{}
	// OnlyCompanions says that only companions are left, here and on the cluster's other nodes. They are ended, also those that
	// start later, until another job is given.
	OnlyCompanions struct{}
	// Stuck says that nothing will happen any more, because ranks of jobs wait for others: which do, for what. Or because
	// the kernels of some jobs never end. It ends the batch.
	Stuck struct {
		Ranks   string
		Endless []int      // jobs
		Cluster *Standings // of all nodes of its cluster; nil: the batch is not part of one
	}
	// Note is something that the executor saw, for the record.
	Note struct{ Event results.Event }
)

// Events of a job.
type (
	// JobStarted says that the job's process runs. PID is nil on simulated nodes, and of a job of several ranks.
	JobStarted struct {
		Job int
		PID *int
	}
	// JobExited says that the job's process and its group have ended, which is the job's
	// end: nothing stops it any more. JobEnded follows, once everything is given back. An
	// executor in which JobEnded comes at the same time need not send JobExited.
	JobExited struct{ Job int }
	// JobEnded says that the job's process and all its children are gone, and what they
	// held with them.
	JobEnded struct {
		Job  int
		Exit Exit
	}
	// RankStarted says that a rank of the job runs, which has several, or is a part of one (Given.Span). It comes after
	// JobStarted. PID is nil on simulated nodes.
	RankStarted struct {
		Job, Rank int
		PID       *int
	}
	// RankJoined says to which rank a process belongs. It comes before other events of the process.
	RankJoined struct {
		Process schedulers.Process
		Rank    int
	}
	// RankEnded says that a rank's process and its group have ended. The executor ends the other ranks if this one
	// failed. It comes before JobEnded, whose Exit says nothing then, unless the job could not be started.
	RankEnded struct {
		Job, Rank int
		Exit      Exit
	}
	// Limit says how many devices the job may use from now on, until it ends: 0 withholds everything, and engine.NoLimit
	// lifts the limit (engine.Engine.Limit).
	Limit struct{ Job, Devices int }
	// Limited says that requests of the job are refused without asking the scheduler,
	// because the job has too many open.
	Limited struct {
		Job int
		Why string
	}
	// Withdraw ends a job before its work is done: one that has not started never does, and one that runs is stopped. It is
	// cancelled, or lost. Nothing happens to a job that has ended. One that has not arrived is an error.
	Withdraw struct {
		Job  int
		Why  string
		Lost bool // its node is
		// Unstarted: a job that has started goes on.
		Unstarted bool
	}
	// Overfull says that the job has written more output than it may. It stops the job, whose
	// crash that is.
	Overfull struct {
		Job int
		Why string
	}
	// Misbehaved says that a process of the job broke the protocol of its probe. It stops
	// the job.
	Misbehaved struct {
		Job int
		Why string
	}
)

// Events of a task. An event of a task that has ended or was refused, or whose job has
// ended, is ignored: the frame of a killed process can arrive late.
type (
	// TaskBegin asks for a device for a task of a running job.
	TaskBegin struct {
		// Task is what the process asks for. Its ID is below 2^63 and no other task's, its
		// Job and Serial name the process, and Bytes include the device heap. The batch adds
		// what the mix says of the job: Priority, Isolate, Due, User and Credits, and what is expected of it: Expected.
		Task      schedulers.Task
		HeapBytes int64 // part of Task.Bytes
		Early     bool  // before the first launch, because the process must know its device
	}
	// TaskGrow asks for bytes more for a task that has its device. Wait is as in
	// schedulers.Task.
	TaskGrow struct {
		ID    schedulers.TaskID
		Bytes int64
		Wait  *time.Duration
	}
	// TaskShrink says that a task that has its device gave back bytes of what it holds.
	// More than that is an error.
	TaskShrink struct {
		ID    schedulers.TaskID
		Bytes int64
	}
	// TaskShape says that a task that has its device has a kernel of this size. The task's
	// record keeps its largest (schedulers.Task.WithKernel).
	TaskShape struct {
		ID              schedulers.TaskID
		Blocks          uint64
		ThreadsPerBlock uint32
		BlocksPerSM     uint32
	}
	// TaskDecided says how a task's outstanding request ended that its process decided by
	// itself: granted on the device, or refused. A grant that the device has no room for,
	// or that moves the task, is an error.
	TaskDecided struct {
		ID      schedulers.TaskID
		Device  int
		Refusal *schedulers.Refusal // nil: granted
	}
	// TaskFree gives a task back, also one that still waits.
	TaskFree struct{ ID schedulers.TaskID }
	// TaskResume asks that a task may give its device work again: Need bytes of it must come onto
	// the device, but for Stays bytes that kernels may use on the host, for a kernel that references Referenced bytes. This and the four that
	// follow come only under a scheduler that takes back (schedulers.Preempter).
	TaskResume struct {
		ID                      schedulers.TaskID
		Need, Stays, Referenced int64
	}
	// TaskYielded says that a task's context has given up its permit by itself, because nothing that it has submitted is on
	// the device any more. TaskResume follows before it submits more.
	TaskYielded struct{ ID schedulers.TaskID }
	// TaskActive says what a task's process does. It comes before a Tick (Revoker).
	TaskActive struct {
		ID       schedulers.TaskID
		Activity schedulers.Activity
	}
	// TaskRevoked answers Revoke. An answer to a ticket that is not outstanding, or that cannot be, is
	// an error.
	TaskRevoked struct {
		ID     schedulers.TaskID
		Answer schedulers.Revoked
	}
	// TaskMoved says that memory of a task came back onto its device after a resumption, or changed places for a
	// launch of its own.
	TaskMoved struct {
		ID        schedulers.TaskID
		Direction schedulers.Direction
		Moved     schedulers.Moved
	}
)

// Events of a process. Serial 0 stands for all processes of a job where they are not told
// apart.
type (
	// ProcessWork says what a process has on its device: kernels since a time whose end it
	// has not seen, or none (nil); and until when it had others (nil: it had none). It comes before
	// Fault and ProcessGone where the process's probe tells.
	ProcessWork struct {
		Process      schedulers.Process
		Since, Until *time.Duration
	}
	// ProcessUse says how much memory a process had in use at most, where its probe tells.
	// It comes before ProcessGone.
	ProcessUse struct {
		Process schedulers.Process
		Bytes   int64
	}
	// RoomAsked asks how much more memory of a device the process's tasks could have now: TellRoom answers it. A device
	// that the run does not have is an error.
	RoomAsked struct {
		Process schedulers.Process
		Device  int
	}
	// ManagedAsked says how much managed memory a process is about to have on a device, or has left: TellRoom answers it with
	// how much it may have, and nothing has changed if that is less than Bytes and Beside.
	ManagedAsked struct {
		Process schedulers.Process
		Device  int   // does not count if the device of its job was settled before it began
		Bytes   int64 // of managed memory
		Beside  int64 // of other memory there, of a process of such a job
		Free    int64 // that the driver says is free on the device; 0: unknown
	}
	// Unreached says that calls of a process were refused, or errors of it not heard, because it could not reach the scheduler.
	Unreached struct {
		Job int
		Why string
	}
	// Hint is what a process says of a call that may explain how its job ends.
	Hint struct {
		Job  int
		What string
	}
	// ProcessGone gives back all that a process had, its contexts included, in one go: none
	// of its waiting tasks gets what the others held.
	ProcessGone struct {
		Process schedulers.Process
		SaidBye bool // it ended by itself, and not by a signal
	}
	// OutOfMemory says that an allocation of a process failed.
	OutOfMemory struct {
		Process schedulers.Process
		Bytes   uint64
		Where   string
	}
	// Fault says that a CUDA call of a process showed a lasting error. Its time is when the
	// process saw the error.
	Fault struct {
		Process schedulers.Process
		Code    int
		Where   string
	}
)

// Events of the MPS server.
type (
	// ServerFaulted says that the MPS server's own log shows a fault on a device. The log
	// does so some 25 ms before a client can be told (H200, driver 580).
	ServerFaulted struct{ Device int }
	// ServerBroken says what is wrong with the MPS server whose recovery is awaited. Fault: it says so itself, and
	// its clients on the devices of the fault have lost their contexts.
	// Devices are those of a server of their own; nil: all.
	ServerBroken struct {
		Why     error
		Fault   bool
		Devices []int
	}
	// ServerRecovered answers AwaitServer: the MPS server is healthy, or because of Err it will never be.
	// After an Err nobody is admitted to it any more.
	ServerRecovered struct{ Err error }
)

// Used says what a look at a device shows: how much memory processes of jobs have there, contexts included. Processes that it
// does not name have none. Serial 0 stands for processes that are not told apart.
type Used struct {
	Device int
	Uses   []engine.Use
}

// Exit is how a job's process ended.
type Exit struct {
	Status      *int    // nil when a signal ended it or it never ran
	Signal      *string // such as "SIGKILL"
	Checked     bool    // status 0 says that a check of its output passed
	Wrong       bool    // the check failed
	Hint        string  // what may explain the status; "": nothing is known
	Err         error   // it could not be started or watched
	NotStarted  bool    // Err says nothing about the job
	UserS       *float64
	SysS        *float64
	MaxRSSBytes *int64
	StderrTail  string
}

// Command is what a batch asks for when an event was applied.
type Command interface{ command() }

type (
	// Start begins a job: JobStarted or JobEnded follows. The job is pinned to the devices, in node order. A job that is
	// bound task by task has none yet.
	Start struct {
		Job     int
		Devices []int
	}
	// Answer tells the process that waits in a task's begin, grow or resume.
	Answer struct{ Decision schedulers.Decision }
	// Revoke asks a task's process to give something back: TaskRevoked follows, unless the task ends.
	Revoke struct{ Decision schedulers.Decision }
	// TellRoom answers RoomAsked and ManagedAsked.
	TellRoom struct {
		Process schedulers.Process
		Bytes   int64
	}
	// Prioritize gives a job's processes a host priority (schedulers.NiceLevels).
	Prioritize struct{ Job, Nice int }
	// Search looks for a plan, beside the batch: Planned follows.
	Search struct {
		Situation plan.Situation
		Settings  plan.Settings
	}
	// Stop ends a job that runs: JobEnded follows. It does nothing if the job has just ended.
	Stop struct{ Job int }
	// WakeAt asks for a Tick at a time or soon after.
	WakeAt struct{ At time.Duration }
	// AwaitServer asks to wait until the MPS server is healthy after a client's fault or death.
	// ServerRecovered follows, and ServerBroken before it where the server was not healthy.
	AwaitServer struct{}
	// EndClient is Stop of a job whose contexts are lost with the MPS server, so that its end spares nobody.
	EndClient struct{ Job int }
	// RecordJob, RecordJobs, RecordRank, RecordTask, RecordSwap and RecordEvent are records for the Recorder.
	RecordJob struct{ Job results.Job }
	// RecordJobs makes its records when they are asked for, because a whole mix arrives at once.
	RecordJobs  struct{ Jobs iter.Seq[results.Job] }
	RecordRank  struct{ Rank results.Rank }
	RecordTask  struct{ Task results.Task }
	RecordSwap  struct{ Swap results.Swap }
	RecordEvent struct{ Event results.Event }
)

func (Start) command()       {}
func (Answer) command()      {}
func (Revoke) command()      {}
func (TellRoom) command()    {}
func (Prioritize) command()  {}
func (Search) command()      {}
func (Stop) command()        {}
func (WakeAt) command()      {}
func (AwaitServer) command() {}
func (EndClient) command()   {}
func (RecordJob) command()   {}
func (RecordJobs) command()  {}
func (RecordRank) command()  {}
func (RecordTask) command()  {}
func (RecordSwap) command()  {}
func (RecordEvent) command() {}
