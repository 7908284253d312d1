// Package results holds what a run leaves behind: the records, the metrics
// computed from them and their statistics. It does no I/O.
//
// Times are seconds since the batch's arrival, which is that of its first jobs (virtual seconds in a simulated
// run), sizes are bytes, ratios are fractions. A nil pointer means unknown or
// unsupported, never zero.
package results

import "time"

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

// Outcome is how a job ended (docs/store.md defines each word).
type Outcome string

const (
	OK           Outcome = "ok"
	OOM          Outcome = "oom"           // an allocation failed, whatever the exit status
	Fault        Outcome = "fault"         // another CUDA error that stays, whatever the exit status
	FaultSuspect Outcome = "fault-suspect" // a fault that it or one of several MPS neighbours caused
	Collateral   Outcome = "collateral"    // a fault that an MPS neighbour caused
	Refused      Outcome = "refused"       // the scheduler refused one of its tasks
	Crash        Outcome = "crash"         // signal or non-zero exit without any of the above
	Timeout      Outcome = "timeout"
	Wrong        Outcome = "wrong" // the output check failed
	Cancelled    Outcome = "cancelled"
	NotStarted   Outcome = "not-started" // the harness could not start it
)

// Crashed reports whether the outcome counts as a crash. That of a job which the
// harness stopped or could not start does not: it makes the run invalid instead.
func (o Outcome) Crashed() bool { return o != OK && !o.invalid() }

// invalid reports whether the outcome says of the harness what it does not say of
// the job: a run with one is not a measurement.
func (o Outcome) invalid() bool { return o == Cancelled || o == NotStarted }

// Run is one mix under one scheduler, one repetition, on one node.
type Run struct {
	ID         int64
	Mix        string
	MixSource  string // "catalog", a file's path, or how it was generated
	Scheduler  string // registered name, without parameters
	Parameters string // canonical k=v,k=v text of every parameter, defaults included
	Node       string // "local" or "sim:4xV100"
	Mode       Mode
	Suite      string
	Repetition int    // from 1
	Sweep      *int64 // nil outside of sweeps
	Warmup     bool   // it ran for its effect on the node, and is no measurement
	Tag        string // a word of the user's to find it by; may be empty
	Seed       uint64
	Workers    int        // jobs allowed at once; 0 where the scheduler says so itself, in Parameters
	StartedAt  *time.Time // nil in a simulated run: it is a function of its inputs
	Status     Status
	Jobs       int
	Traced     bool // its kernels were traced, which costs time: see Tracer

	Metrics    Metrics
	Sampler    Sampler
	Tracer     Tracer
	Provenance Provenance
}

// Sampler is what the NVML sampler says about itself, so that a reader can
// judge the utilization it delivered. Nil where nothing was sampled.
type Sampler struct {
	PeriodS         *float64
	Samples         *int64
	MissedDeadlines *int64
	LongestGapS     *float64
	CPUS            *float64 // processor time of the sampling thread
	Errors          *int64
	FirstError      *string
}

// Tracer is what the kernel tracer says about itself, so that a reader can judge
// the kernels it delivered. Nil where nothing was traced.
type Tracer struct {
	Processes *int64 // that left a trace
	Kernels   *int64
	Copies    *int64
	Lost      *int64 // kernels and copies that are known to have run and have no record
	Cut       *int64 // processes that did not exit in order: what they did last may be missing
	Untraced  *int64 // jobs that ran and left no trace
}

// Provenance is what is needed to repeat a run or to distrust it.
type Provenance struct {
	Version       string // of caserun
	Revision      string // git revision of the build, "+dirty" where it was
	Configuration string // the full configuration as JSON
	Host          string
	PID           *int // of the harness; nil in a complete simulated run
	Kernel        string
	CPU           string
	Cores         int
	MemoryBytes   int64
	Driver        *string
	CUDA          *string
	Binaries      string // JSON object: program -> sha256 of the file run
}

// Device is one GPU of the node as a run found it.
type Device struct {
	Index            int
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
	ThrottleStart    *string // NVML's clocks event reasons with + between them; see Throttling
	ThrottleEnd      *string
	RefreshS         *float64 // effective refresh interval of the utilization value
	PeakUsedBytes    *int64
	UtilizationMean  *float64
	UtilizationPeak  *float64
	ResidentMean     *float64 // fraction of the run in which a kernel was resident
}

// Job is one job of a run.
type Job struct {
	Index          int // position in the mix
	Name           string
	Command        string
	Class          string
	FootprintBytes *int64   // as its mix declares it
	UsedBytes      *int64   // that its tasks had in use at most, device heap included
	Device         *int     // the device it, or its first task, ran on
	ArrivalS       *float64 // nil while the group before its own has not ended, and in records of earlier versions
	StartS         *float64 // process start
	EndS           *float64
	WaitS          *float64 // blocked since it arrived: for a device before exec, or in its probe
	UserS          *float64
	SysS           *float64
	MaxRSSBytes    *int64
	Outcome        *Outcome // nil while it waits or runs
	ExitStatus     *int
	Signal         *string
	Detail         string // why it did not end ok, in one line
	StderrTail     string
	Suspects       []int // of a FaultSuspect: the jobs one of which caused its fault, itself among them; not stored
}

// TurnaroundS is the job's end since it arrived.
func (j Job) TurnaroundS() *float64 {
	if j.EndS == nil || j.ArrivalS == nil {
		return j.EndS
	}
	return known(*j.EndS - *j.ArrivalS)
}

// Task is one GPU task of a job, as the scheduler saw it.
type Task struct {
	Job             int
	Seq             int // within the job, from 0
	Bytes           int64
	HeapBytes       int64
	GrownBytes      int64  // the most beyond these two that it held at one time
	Blocks          uint64 // of its largest kernel so far, as the next two; 0: unknown
	ThreadsPerBlock uint32
	BlocksPerSM     *uint32 // that one SM holds at once
	Managed         *bool   // some of Bytes is unified memory; nil in records of earlier versions
	PinnedDevice    *int    // the one device that would do
	Device          *int
	SubmitS         float64
	GrantS          *float64
	ReleaseS        *float64
	Refusal         *string
	Passed          int // times a later task was granted first
}

// Kernel is one kernel interval, or in a simulated run one task's kernels
// together. Of such an aggregate the fields from Grid to Stream are unknown.
type Kernel struct {
	Job    int
	Task   *int // nil where the tracer does not tell
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

// Copy is one copy, or one setting of device memory, of a traced run.
type Copy struct {
	Job    int
	PID    int
	Device int
	Kind   string // htod, dtoh, dtod, ptop, set, ... (docs/store.md)
	Bytes  int64
	Stream int
	StartS float64
	EndS   float64
}

// Series names what a utilization segment measures.
type Series string

const (
	SeriesGPU            Series = "gpu"             // NVML utilization.gpu, fraction
	SeriesMemory         Series = "memory"          // NVML memory used, bytes
	SeriesMemoryActivity Series = "memory_activity" // NVML utilization.memory: fraction of time in which device memory was read or written
	SeriesGPUDriver      Series = "gpu_driver"      // the driver's own sample buffer, fraction
	SeriesGPM            Series = "sm_gpm"          // GPM SM activity, fraction
	SeriesSimulated      Series = "sm_sim"          // modelled share of busy SMs, fraction
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
