// Package results holds the records of a run and computes the metrics from them. It does no I/O.
//
// Times are seconds since the batch arrived, which is when its first jobs arrived. In a
// simulated run they are virtual. Sizes are bytes, ratios are fractions. A nil pointer means
// unknown or unsupported, never zero.
package results

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Mode says whether a run measured real devices or a model of them.
type Mode string

const (
	Live      Mode = "live"
	Simulated Mode = "sim"
)

// Status is the state of a run as a whole.
type Status string

const (
	Running     Status = "running"     // under way, or its harness died
	Complete    Status = "complete"    // every job reached an outcome of its own
	Interrupted Status = "interrupted" // the harness stopped it: not a measurement
)

// Outcome is how a job ended (docs/reference/outcomes.md defines each word).
type Outcome string

const (
	OK           Outcome = "ok"
	OKAfterOOM   Outcome = "ok-after-oom"  // an allocation failed or was refused, and yet its output check passed
	OOM          Outcome = "oom"           // an allocation failed, whatever the exit status
	Fault        Outcome = "fault"         // another lasting CUDA error, whatever the exit status
	FaultSuspect Outcome = "fault-suspect" // a fault that this job or one of several MPS neighbours caused
	Collateral   Outcome = "collateral"    // a fault that an MPS neighbour caused
	Lost         Outcome = "lost"          // its device was lost
	NotScheduled Outcome = "not-scheduled" // its CUDA calls were refused, because it could not reach the scheduler
	Refused      Outcome = "refused"       // the scheduler refused one of its tasks
	Crash        Outcome = "crash"         // signal or non-zero exit without any of the above
	Timeout      Outcome = "timeout"
	Wrong        Outcome = "wrong" // the output check failed
	Cancelled    Outcome = "cancelled"
	NotStarted   Outcome = "not-started" // the harness could not start it
)

// Outcomes are all outcomes, in the order of docs/reference/outcomes.md.
var Outcomes = []Outcome{OK, OKAfterOOM, OOM, Fault, FaultSuspect, Collateral, Lost, NotScheduled, Refused, Crash, Timeout, Wrong, Cancelled, NotStarted}

// CountsAsOK reports whether the job did its work: it counts in throughput and turnaround.
func (o Outcome) CountsAsOK() bool { return o == OK || o == OKAfterOOM }

// Crashed reports whether the outcome counts as a crash. Cancelled and NotStarted do not
// count: they make the run invalid.
func (o Outcome) Crashed() bool { return !o.CountsAsOK() && !o.invalid() }

// invalid reports whether the harness, not the job, caused the outcome. A run with such an
// outcome is not a measurement.
func (o Outcome) invalid() bool { return o == Cancelled || o == NotStarted }

// Run is one mix under one scheduler, one repetition, on one node.
type Run struct {
	ID         int64
	Mix        string
	MixSource  string // "catalog", a file's path, or how it was generated
	Scheduler  string // registered name, without parameters
	Parameters string // canonical k=v,k=v text of every parameter, defaults included
	Probe      Probe
	Arm        string // the user's name for the scheduler with its parameters; may be empty
	Node       string // "local" or "sim:4xV100"
	Mode       Mode
	Suite      string
	Repetition int    // from 1
	Sweep      *int64 // nil outside of sweeps
	Warmup     bool   // it ran to warm up the node and is not a measurement
	Tag        string // the user's word for finding the run; may be empty
	Seed       uint64
	Workers    int        // jobs allowed at once; 0 if the scheduler has the number in Parameters
	StartedAt  *time.Time // nil in a simulated run, which depends on its inputs only
	Status     Status
	Jobs       int
	Traced     bool // its kernels were traced, which costs time (see Tracer)
	// Arrivals say when jobs arrived, if that did not wait for other jobs (open load): "at", or as mixes.Arrivals.String.
	Arrivals *string
	// Doubts say why the run may not have measured its jobs, a reason on each line. Such a run is left out of verdicts.
	Doubts string
	// Place is where its arm is in the plan of its sweep. The store knows it from there; it is not a column.
	Place Place
	// Excluded: a user has taken it out of comparisons (caserun store exclude).
	Excluded bool
	Remark   string // what a user has noted of it; may be empty

	Metrics    Metrics
	Sampler    Sampler
	Tracer     Tracer
	Provenance Provenance
}

// Sampler describes how the NVML sampler worked, so that a reader can judge its utilization
// figures. Fields are nil if nothing was sampled.
type Sampler struct {
	PeriodS         *float64
	Samples         *int64
	MissedDeadlines *int64
	LongestGapS     *float64
	CPUS            *float64 // processor time of the sampling thread
	Errors          *int64
	FirstError      *string
}

// Tracer describes how the kernel tracer worked, so that a reader can judge its records.
// Fields are nil if nothing was traced.
type Tracer struct {
	Processes *int64 // processes that left a trace
	Kernels   *int64
	Copies    *int64
	Lost      *int64 // kernels and copies that ran but have no record
	Cut       *int64 // processes that did not exit in order: their last records may be missing
	Untraced  *int64 // jobs that ran and left no trace
}

// Provenance is what a reader needs to repeat a run or to doubt it.
type Provenance struct {
	Version       string // of caserun
	Revision      string // git revision of the build, with "+dirty" after uncommitted changes
	Configuration string // the full configuration as JSON
	Host          string
	PID           *int // the harness's; nil in a complete simulated run
	Kernel        string
	CPU           string
	Cores         int
	MemoryBytes   int64
	Driver        *string
	CUDA          *string
	Binaries      string // JSON object: program -> sha256 of the file run
	// Surroundings are the JSON of a Surroundings; nil in simulated runs and those of earlier versions.
	Surroundings *string
}

// Device is one GPU of the node as a run found it.
type Device struct {
	Index            int
	Node             int // of the cluster that it is on; 0: of the first, or the only one
	UUID             string
	Name             string
	MemoryBytes      int64
	UsedAtStartBytes int64
	CapacityBytes    int64 // what the scheduler may hand out
	ContextBytes     int64 // reserved for each process context
	SMs              int
	WarpsPerSM       int
	BlocksPerSM      int
	SMClockStartHz   *int64
	SMClockEndHz     *int64
	ThrottleStart    *string // NVML's clocks event reasons, joined by + (see Throttling)
	ThrottleEnd      *string
	RefreshS         *float64 // effective refresh interval of the utilization value
	PeakUsedBytes    *int64
	UtilizationMean  *float64
	UtilizationPeak  *float64
	ResidentMean     *float64 // fraction of the run in which a kernel was resident
	EnergyJ          *float64 // used during the run
	IdleEnergyJ      *float64 // the part of EnergyJ in which no job had a task on the device
	EnergySource     *EnergySource
	GPU              *string // of an instance of MIG: the UUID of the GPU that it is a part of; nil if that is simulated
	Profile          *string // of an instance of MIG, such as 1g.5gb
}

// OnSeveralNodes reports whether a run's devices are on more than one node.
func OnSeveralNodes(devices []Device) bool {
	return slices.ContainsFunc(devices, func(d Device) bool { return d.Node > 0 })
}

// DeviceTitle is what a reader calls one of a run's devices.
func DeviceTitle(devices []Device, d Device) string {
	if OnSeveralNodes(devices) {
		return fmt.Sprintf("GPU %d, node %d", d.Index, d.Node)
	}
	return fmt.Sprintf("GPU %d", d.Index)
}

// Job is one job of a run.
type Job struct {
	Index          int // position in the mix
	Name           string
	Command        string
	Class          string
	FootprintBytes *int64   // as its mix declares it
	UsedBytes      *int64   // the most that its tasks used at one time, device heap included
	Device         *int     // the device that the job or its first task ran on
	ArrivalS       *float64 // nil until it has arrived, and in records of earlier versions
	StartS         *float64 // process start
	EndS           *float64
	WaitS          *float64 // time blocked since arrival: waiting for a device before exec, or in its probe
	UserS          *float64
	SysS           *float64
	MaxRSSBytes    *int64
	Outcome        *Outcome // nil while it waits or runs
	ExitStatus     *int
	Signal         *string
	Detail         string // why it did not end ok, in one line
	StderrTail     string
	// EnergyEstimateJ is the job's share of its devices' energy (see WithEnergy).
	EnergyEstimateJ *float64
	DeadlineS       *float64 // how long after its arrival it should have ended; nil: it has no deadline
	// Devices are those of a job that has several, as their list says it (DeviceList); nil: Device is all that it has.
	Devices *string
	User    *string // whose it is; nil: nobody says
	Credits *int    // of that user in the mix; nil: it states none
	// UnaccountedBytes are the most that its processes had on devices at one time beside what they were charged; nil: not compared.
	UnaccountedBytes *int64
	Restarts         *int     // how often it was started again; nil: never
	LostS            *float64 // LostS of its swaps, together; nil: none of its kernels was stopped
	PID              *int     // of its process; nil: it has several, or is simulated; stored of portions only
	Suspects         []int    // if Outcome is FaultSuspect or Collateral: the jobs that may have caused the fault; not stored
}

// EndedWithOthers reports whether the job was a companion (mixes.Job.UntilOthersEnd) that was ended: a signal ended it,
// and yet it is ok.
func (j Job) EndedWithOthers() bool { return j.Outcome != nil && *j.Outcome == OK && j.Signal != nil }

// TurnaroundS is the time from the job's arrival to its end. A companion that was ended has none: the others say how long it ran.
func (j Job) TurnaroundS() *float64 {
	if j.EndedWithOthers() {
		return nil
	}
	if j.EndS == nil || j.ArrivalS == nil {
		return j.EndS
	}
	return known(*j.EndS - *j.ArrivalS)
}

// MetDeadline reports whether the job ended ok by its deadline. It is nil for a job without a deadline, a job that has
// not ended, and a job that the harness stopped or could not start.
func (j Job) MetDeadline() *bool {
	if j.DeadlineS == nil || j.Outcome == nil || j.Outcome.invalid() {
		return nil
	}
	took := j.TurnaroundS()
	return known(j.EndedOK() && took != nil && nanoseconds(*took) <= nanoseconds(*j.DeadlineS))
}

// nanoseconds is a time as it was before it became a number of seconds.
func nanoseconds(seconds float64) float64 { return math.Round(seconds * 1e9) }

// DeviceList is the text of several devices, such as "0,2"; of one it is nil.
func DeviceList(devices []int) *string {
	if len(devices) < 2 {
		return nil
	}
	text := make([]string, len(devices))
	for i, d := range devices {
		text[i] = strconv.Itoa(d)
	}
	return new(strings.Join(text, ","))
}

// On has the devices of the job: all of a job that has several, or the device of its first task.
func (j *Job) On() []int {
	if j.Devices == nil && j.Device == nil {
		return nil
	}
	if j.Devices == nil {
		return []int{*j.Device}
	}
	var devices []int
	for text := range strings.SplitSeq(*j.Devices, ",") {
		if d, err := strconv.Atoi(text); err == nil {
			devices = append(devices, d)
		}
	}
	return devices
}

// Has reports whether the device is one of On.
func (j *Job) Has(device int) bool {
	if j.Devices == nil {
		return j.Device != nil && *j.Device == device
	}
	return slices.Contains(j.On(), device)
}

// HeldWhole reports whether the job had the device from its start to its end: it was bound to it, and either had no task
// anywhere (tasked), or it has several devices and had no task on this one (here).
func (j *Job) HeldWhole(device int, tasked, here bool) bool {
	return (!tasked || j.Devices != nil && !here) && j.Has(device)
}

// EndedOK reports whether the job has ended and did its work.
func (j Job) EndedOK() bool { return j.Outcome != nil && j.Outcome.CountsAsOK() }

// Rank is one process of a job that has several, which start together (mixes.Job.Ranks) or one after another (mixes.Job.Portions).
type Rank struct {
	Job         int
	Rank        int  // from 0
	Portion     bool // it is a portion
	Device      *int // the device that a portion, or its first task, ran on
	PID         *int // nil on simulated nodes
	StartS      *float64
	EndS        *float64
	UserS       *float64
	SysS        *float64
	MaxRSSBytes *int64
	Outcome     *Outcome // Cancelled if it ended because another rank had failed; nil while it runs
	ExitStatus  *int
	Signal      *string
	Detail      string // why it did not end ok, in one line
}

// KindOfRanks is what the processes of jobs that have several are called: one, and all of them.
func KindOfRanks(ranks []Rank) (one, all string) {
	isPortion := func(k Rank) bool { return k.Portion }
	switch {
	case !slices.ContainsFunc(ranks, isPortion):
		return "rank", "ranks"
	case slices.ContainsFunc(ranks, func(k Rank) bool { return !k.Portion }):
		return "rank or portion", "ranks and portions"
	}
	return "portion", "portions"
}

// Task is one GPU task of a job, as the scheduler saw it.
type Task struct {
	Job             int
	Seq             int // within the job, from 0
	Bytes           int64
	HeapBytes       int64
	GrownBytes      int64   // the most beyond Bytes and HeapBytes that it held at one time
	Blocks          uint64  // blocks of its largest kernel so far; 0: unknown
	ThreadsPerBlock uint32  // of that kernel
	BlocksPerSM     *uint32 // blocks of that kernel that one SM holds at once
	Managed         *bool   // some of Bytes is unified memory; nil in records of earlier versions
	PinnedDevice    *int    // the only device that the task accepts; nil: it accepts any
	Device          *int
	SubmitS         float64
	GrantS          *float64
	ReleaseS        *float64
	Refusal         *string
	Passed          int // times a later task was granted first
}

// Kernel is one kernel interval. In a simulated run it is an aggregate of all kernels of a
// task, whose fields from Grid to Stream are unknown.
type Kernel struct {
	Job    int
	Task   *int // nil if unknown: the tracer does not record it
	Device int
	Name   string
	StartS float64
	EndS   float64
	BusyS  float64 // time in kernels within [StartS, EndS]

	Grid               string // "x,y,z"; empty where the row is an aggregate
	Block              string
	Registers          int // of each thread
	StaticSharedBytes  int // of each block
	DynamicSharedBytes int
	PID                int
	Stream             int // unique within the process
}

// Copy is one copy or one setting of device memory in a traced run.
type Copy struct {
	Job    int
	PID    int
	Device int
	Kind   string // htod, dtoh, dtod, ptop, set, ... (docs/reference/store.md)
	Bytes  int64
	Stream int
	StartS float64
	EndS   float64
}

// Swap is memory of a task that moved between its device and the host, or that did not although the
// scheduler asked for it.
type Swap struct {
	Job           int
	Task          int // within the job
	Device        int
	Direction     schedulers.Direction
	Action        string // of schedulers.Action; empty for In
	Outcome       schedulers.Outcome
	Why           string  // of Unable
	StartS        float64 // the scheduler asked for it; or the process began to move it, for In and for its own launch
	EndS          float64
	Bytes         int64
	DrainS        float64 // until the device had ended what the process submitted
	CopyS         float64
	BookkeepingS  float64
	ResidentBytes *int64   // of the task, on the device afterwards
	FixedBytes    *int64   // of ResidentBytes: bytes that cannot move
	LostS         *float64 // how long kernels had run that were stopped, to run again from their beginning
	ForJob        *int     // whose request the room is for
	ForTask       *int     // its task; nil: the job asks as a whole
}

// Moved reports whether memory moved. A process can also give way and have nothing that can move.
func (s Swap) Moved() bool { return s.Outcome == schedulers.Done && s.Bytes > 0 }

// Series names what a utilization segment measures.
type Series string

const (
	SeriesGPU            Series = "gpu"             // NVML utilization.gpu, fraction
	SeriesMemory         Series = "memory"          // NVML memory used, bytes
	SeriesMemoryActivity Series = "memory_activity" // NVML utilization.memory, the fraction of time in which device memory was read or written
	SeriesGPUDriver      Series = "gpu_driver"      // the driver's own sample buffer, fraction
	SeriesGPM            Series = "sm_gpm"          // GPM SM activity, fraction
	SeriesEnergy         Series = "energy"          // NVML's counter: joules since the driver was loaded
	SeriesPower          Series = "power"           // NVML's power, watts
	SeriesSimulated      Series = "sm_sim"          // modelled share of busy SMs, fraction
	SeriesResident       Series = "resident"        // 1 while a kernel was on the device, else 0; from kernel intervals, not stored
)

// Segment is a stretch of equal samples of one series of one device.
type Segment struct {
	Device  int
	Series  Series
	FirstS  float64
	LastS   float64
	Samples int64
	Value   *float64
}
