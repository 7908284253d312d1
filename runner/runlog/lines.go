package runlog

import (
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// head is what every line begins with.
type head struct {
	Run  int64        `json:"run_id"`
	Mode results.Mode `json:"mode"`
	Kind string       `json:"kind"`
	AtS  *float64     `json:"at_s"`
}

type runStarted struct {
	head
	Mix        string      `json:"mix"`
	Scheduler  string      `json:"scheduler"`
	Parameters string      `json:"parameters"`
	Probe      string      `json:"probe"`
	Node       string      `json:"node"`
	Suite      string      `json:"suite"`
	Repetition int         `json:"repetition"`
	Sweep      *int64      `json:"sweep_id"`
	Warmup     bool        `json:"warmup"`
	Tag        *string     `json:"tag"`
	Seed       uint64      `json:"seed,string"`
	Jobs       int         `json:"jobs"`
	StartedAt  *time.Time  `json:"started_at"`
	Devices    []deviceRow `json:"devices"`
}

type deviceRow struct {
	Index         int    `json:"device_index"`
	UUID          string `json:"uuid"`
	Name          string `json:"name"`
	MemoryBytes   int64  `json:"memory_bytes"`
	CapacityBytes int64  `json:"capacity_bytes"`
}

type jobStarted struct {
	head
	Job      int      `json:"job_index"`
	Name     string   `json:"name"`
	Command  string   `json:"command"`
	Device   *int     `json:"device_index"`
	ArrivalS *float64 `json:"arrival_s"`
}

type jobEnded struct {
	head
	Job         int              `json:"job_index"`
	Name        string           `json:"name"`
	Device      *int             `json:"device_index"`
	Outcome     *results.Outcome `json:"outcome"`
	ExitStatus  *int             `json:"exit_status"`
	Signal      *string          `json:"signal"`
	Detail      string           `json:"detail"`
	WaitS       *float64         `json:"wait_s"`
	TurnaroundS *float64         `json:"turnaround_s"`
}

type taskSubmitted struct {
	head
	Job             int    `json:"job_index"`
	Task            int    `json:"task_seq"`
	Bytes           int64  `json:"bytes"`
	HeapBytes       int64  `json:"heap_bytes"`
	Blocks          uint64 `json:"blocks"`
	ThreadsPerBlock uint32 `json:"threads_per_block"`
}

type taskGranted struct {
	head
	Job    int     `json:"job_index"`
	Task   int     `json:"task_seq"`
	Device *int    `json:"device_index"`
	WaitS  float64 `json:"wait_s"`
	Passed int     `json:"passed"`
}

type taskRefused struct {
	head
	Job     int    `json:"job_index"`
	Task    int    `json:"task_seq"`
	Refusal string `json:"refusal"`
}

type taskReleased struct {
	head
	Job        int   `json:"job_index"`
	Task       int   `json:"task_seq"`
	Device     *int  `json:"device_index"`
	GrownBytes int64 `json:"grown_bytes"`
}

type swapped struct {
	head
	Job           int                  `json:"job_index"`
	Task          int                  `json:"task_seq"`
	Device        int                  `json:"device_index"`
	Direction     schedulers.Direction `json:"direction"`
	Action        *string              `json:"action"`
	Outcome       schedulers.Outcome   `json:"outcome"`
	Why           *string              `json:"why"`
	StartS        float64              `json:"start_s"`
	Bytes         int64                `json:"bytes"`
	DrainS        float64              `json:"drain_s"`
	CopyS         float64              `json:"copy_s"`
	BookkeepingS  float64              `json:"bookkeeping_s"`
	ResidentBytes *int64               `json:"resident_bytes"`
	FixedBytes    *int64               `json:"fixed_bytes"`
	ForJob        *int                 `json:"for_job_index"`
	ForTask       *int                 `json:"for_task_seq"`
}

type happened struct {
	head
	Event  results.EventKind `json:"event"`
	Job    *int              `json:"job_index"`
	Device *int              `json:"device_index"`
	Detail string            `json:"detail"`
}

type runEnded struct {
	head
	Status      results.Status `json:"status"`
	OK          int            `json:"jobs_ok"`
	OOM         int            `json:"jobs_oom"`
	Crashed     int            `json:"jobs_crashed"`
	Cancelled   int            `json:"jobs_cancelled"`
	NotStarted  int            `json:"jobs_not_started"`
	MakespanS   *float64       `json:"makespan_s"`
	Throughput  *float64       `json:"throughput_jobs_per_s"`
	TurnaroundS *float64       `json:"turnaround_mean_s"`
	Utilization *float64       `json:"utilization_mean"`
}

// Begun says that the store has a run. Its batch has yet to arrive.
func (l *Log) Begun(run results.Run, devices []results.Device) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run.ID] = &state{mode: run.Mode, jobs: map[int]results.Job{}, tasks: map[taskKey]results.Task{}, refused: map[int]results.Event{}}
	o := runStarted{head: l.head(run.ID, "run_started", nil), Mix: run.Mix, Scheduler: run.Scheduler, Parameters: run.Parameters,
		Probe: run.Probe.String(), Node: run.Node, Suite: run.Suite, Repetition: run.Repetition, Sweep: run.Sweep, Warmup: run.Warmup,
		Seed: run.Seed, Jobs: run.Jobs, StartedAt: run.StartedAt, Devices: []deviceRow{}}
	o.Tag = given(run.Tag)
	for _, d := range devices {
		o.Devices = append(o.Devices, deviceRow{d.Index, d.UUID, d.Name, d.MemoryBytes, d.CapacityBytes})
	}
	l.line(o)
}

// Ended says how a run ended. What comes of its jobs later corrects their outcomes.
func (l *Log) Ended(run results.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := run.Metrics
	l.line(runEnded{l.head(run.ID, "run_ended", m.MakespanS), run.Status, m.OK, m.OOM, m.Crashed, m.Cancelled, m.NotStarted,
		m.MakespanS, m.ThroughputJobsPerS, m.TurnaroundMeanS, m.UtilizationMean})
	l.runs[run.ID] = &state{mode: run.Mode, ended: true} // a sweep has thousands of runs
}

// Job says what is new in a job's record: that the job started, that it ended, or that its
// outcome is another one, because the run's end settles whose a fault was.
func (l *Log) Job(run int64, j results.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.runs[run]
	before := s.jobs[j.Index]
	if !s.ended {
		s.jobs[j.Index] = j
	}
	if before.StartS == nil && j.StartS != nil && !s.ended {
		l.line(jobStarted{l.head(run, "job_started", j.StartS), j.Index, j.Name, j.Command, j.Device, j.ArrivalS})
	}
	if j.Outcome == nil {
		return
	}
	kind := "job_ended"
	if s.ended || before.Outcome != nil {
		if before.Outcome != nil && *before.Outcome == *j.Outcome && before.Detail == j.Detail {
			return
		}
		kind = "job_outcome"
	}
	l.line(jobEnded{l.head(run, kind, j.EndS), j.Index, j.Name, j.Device, j.Outcome, j.ExitStatus, j.Signal, j.Detail, j.WaitS, j.TurnaroundS()})
}

// Task says what is new in a task's record.
func (l *Log) Task(run int64, t results.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.runs[run]
	key := taskKey{t.Job, t.Seq}
	before, known := s.tasks[key]
	s.tasks[key] = t
	if !known {
		l.line(taskSubmitted{l.head(run, "task_submitted", &t.SubmitS), t.Job, t.Seq, t.Bytes, t.HeapBytes, t.Blocks, t.ThreadsPerBlock})
	}
	if before.GrantS == nil && t.GrantS != nil {
		l.line(taskGranted{l.head(run, "task_granted", t.GrantS), t.Job, t.Seq, t.Device, *t.GrantS - t.SubmitS, t.Passed})
	}
	if t.Refusal != nil && (before.Refusal == nil || *before.Refusal != *t.Refusal) {
		kind := "task_refused"
		if t.GrantS != nil {
			kind = "task_growth_refused"
		}
		var at *float64
		if e, found := s.refused[t.Job]; found && e.Detail == *t.Refusal {
			at = &e.AtS // the event comes right before the record, which has no time of it
		}
		l.line(taskRefused{l.head(run, kind, at), t.Job, t.Seq, *t.Refusal})
	}
	if before.ReleaseS == nil && t.ReleaseS != nil {
		l.line(taskReleased{l.head(run, "task_released", t.ReleaseS), t.Job, t.Seq, t.Device, t.GrownBytes})
	}
}

// Swap says that memory of a task moved, or was asked for in vain.
func (l *Log) Swap(run int64, s results.Swap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(swapped{l.head(run, "swap", &s.EndS), s.Job, s.Task, s.Device, s.Direction, given(s.Action), s.Outcome, given(s.Why), s.StartS, s.Bytes,
		s.DrainS, s.CopyS, s.BookkeepingS, s.ResidentBytes, s.FixedBytes, s.ForJob, s.ForTask})
}

// Event says what happened beside that.
func (l *Log) Event(run int64, e results.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.runs[run]; e.Kind == results.EventRefused && e.Job != nil && !s.ended {
		s.refused[*e.Job] = e
	}
	l.line(happened{l.head(run, "event", &e.AtS), e.Kind, e.Job, e.Device, e.Detail})
}

// given is nil for an empty text.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (l *Log) head(run int64, kind string, at *float64) head {
	return head{run, l.runs[run].mode, kind, at}
}
