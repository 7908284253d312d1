package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// Stored is a batch as the store has it, for replays. The store keeps less than a recording: what is
// taken for the rest is in Assumptions.
type Stored struct {
	Run         results.Run
	Devices     []results.Device
	Assumptions []string
	// Predictions say what schedulers expect of the jobs, and PredictedFrom says from where that
	// is known.
	Predictions   []*schedulers.Prediction
	PredictedFrom string

	records []results.Job // of the run
	cores   int
	steps   []runner.Step
	jobs    []mixes.Job
	workers int // of task-bound schedulers
}

// NewStored makes a Stored of a run's records, on a host of so many threads. A run that does not tell
// what its jobs would do otherwise is an error.
func NewStored(run results.Run, threads int, devices []results.Device, jobs []results.Job, tasks []results.Task, swaps []results.Swap, events []results.Event) (*Stored, error) {
	switch {
	case run.Status != results.Complete:
		return nil, fmt.Errorf("replay run %d: it is %s, so its jobs did not all do what they would have done: name a complete run", run.ID, run.Status)
	case len(swaps) > 0:
		return nil, fmt.Errorf("replay run %d: its scheduler %s took memory back, so how long tasks had their devices is not what they took: name a run under another scheduler", run.ID, run.Scheduler)
	case slices.ContainsFunc(jobs, func(j results.Job) bool { return j.Restarts != nil }):
		return nil, fmt.Errorf("replay run %d: jobs of it were started again, so what is known of them is of several tries: name a run without restarts", run.ID)
	case len(devices) == 0 || len(jobs) == 0:
		return nil, fmt.Errorf("replay run %d: it has %d devices and %d jobs", run.ID, len(devices), len(jobs))
	}
	s := &Stored{Run: run, Devices: devices, workers: run.Workers, records: jobs, cores: threads}
	s.assume("what jobs did between their requests takes as long as in the run: time on the host, of kernels and of copies. A crowd that slowed them down there slows them down here too, and no other crowd does")
	if s.workers == 0 {
		s.workers = min(max(threads, 1), len(jobs))
		s.assume("under a scheduler that binds tasks, %d jobs run at once: the host has %d threads", s.workers, threads)
	}
	b := &builder{Stored: s, of: map[int][]results.Task{}, given: len(jobs)}
	if i := slices.IndexFunc(events, func(e results.Event) bool { return e.Kind == results.EventGiven }); i >= 0 {
		b.given = *events[i].Job
	}
	for _, t := range tasks {
		b.of[t.Job] = append(b.of[t.Job], t)
	}
	if slices.ContainsFunc(events, withholds) {
		s.assume("no job is limited, and no device taken out: what was so in the run is not in its records")
	}
	b.jobs(jobs)
	slices.SortStableFunc(b.steps, func(x, y runner.Step) int { return cmp.Compare(x.At, y.At) })
	s.steps = append([]runner.Step{{Event: runner.Arrive{}}}, b.steps...)
	return s, nil
}

func (s *Stored) assume(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.Assumptions, text) { // two replays assume the same
		s.Assumptions = append(s.Assumptions, text)
	}
}

// withholds reports whether an event says that something was withheld from jobs.
func withholds(e results.Event) bool {
	return e.Kind == results.EventLimited || e.Kind == results.EventDeviceClosed || e.Kind == results.EventLost
}

// builder makes steps of records.
type builder struct {
	*Stored
	of    map[int][]results.Task // by job
	given int                    // the first job that the run was given while it ran
	steps []runner.Step
	ids   schedulers.TaskID

	grown, alone, unstarted, failed int
}

func (b *builder) add(at float64, e runner.Event, commands ...runner.Command) {
	b.steps = append(b.steps, runner.Step{At: duration(at), Event: e, Commands: commands})
}

// duration rounds to a nanosecond, which is how times were before they were stored.
func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

func (b *builder) jobs(jobs []results.Job) {
	admitted := b.admissions(jobs)
	group, arrived, last := 0, 0.0, 0.0
	for i, j := range jobs {
		spec := mixes.Job{Name: j.Name, Program: j.Command, Class: j.Class, Footprint: b.footprint(j)}
		switch at := j.ArrivalS; {
		case at == nil:
		case b.Run.Arrivals != nil:
			spec.At = duration(*at)
		case *at > arrived && i < b.given:
			group, arrived = group+1, *at
		}
		spec.Group = group
		if j.DeadlineS != nil {
			spec.Deadline = duration(*j.DeadlineS)
		}
		if j.User != nil {
			spec.User = *j.User
		}
		if j.Credits != nil {
			spec.Credits = *j.Credits
		}
		ran := j.StartS != nil && j.EndS != nil
		if ran && len(b.of[j.Index]) == 0 && j.Device != nil && b.taskBound() {
			spec.Binding = mixes.BindDeclared
			b.alone++
		}
		if ran && j.Devices != nil { // it waited for them before it started
			spec.Binding, spec.GPUs, admitted[i] = mixes.BindDeclared, len(j.On()), *j.StartS
		}
		if i < b.given {
			b.Stored.jobs = append(b.Stored.jobs, spec)
		} else {
			last = *cmp.Or(j.ArrivalS, new(0.0))
			b.add(last, runner.Given{Job: spec})
		}
		if ran {
			b.job(j, min(admitted[i], *j.StartS))
		} else {
			b.unstarted++
		}
	}
	if b.given < len(jobs) {
		b.add(last, runner.NoMore{})
	}
	if b.grown > 0 {
		b.assume("%d tasks grew: each asks at once for the most that it had", b.grown)
	}
	if b.alone > 0 {
		b.assume("%d jobs had their device from start to end: they need the memory that their mix declares", b.alone)
	}
	if b.unstarted > 0 {
		b.assume("%d jobs never started in the run, and do not in a replay", b.unstarted)
	}
	if b.failed > 0 {
		b.assume("%d jobs did not end ok in the run: they fail in a replay after as long", b.failed)
	}
	b.assume("no job runs out of memory. Priorities, isolation and limits of the mix are not in the store, so a replay has none. Each job is one process, and each task's largest kernel is known when it asks")
}

// taskBound reports whether the run's scheduler left jobs to ask for their tasks' devices: others have
// no workers, or have them among their parameters.
func (b *builder) taskBound() bool { return b.Run.Workers > 0 }

// footprint is what a process-bound scheduler would reserve for the job.
func (b *builder) footprint(j results.Job) mixes.Footprint {
	var f mixes.Footprint
	for _, t := range b.of[j.Index] {
		f.Bytes = max(f.Bytes, t.Bytes+t.HeapBytes+t.GrownBytes)
		if t.Blocks*uint64(t.ThreadsPerBlock) > f.Blocks*uint64(f.ThreadsPerBlock) {
			f.Blocks, f.ThreadsPerBlock = t.Blocks, t.ThreadsPerBlock
		}
	}
	if j.FootprintBytes != nil {
		f.Bytes = *j.FootprintBytes
	}
	return f
}

// admissions are when jobs were let in: those within the number of workers when they arrived, and
// each other one when an earlier job ended. What passed until the job's start is the start's own time.
// Under a process-bound scheduler a job is let in when it starts.
func (b *builder) admissions(jobs []results.Job) []float64 {
	var ends []float64
	for _, j := range jobs {
		if j.EndS != nil {
			ends = append(ends, *j.EndS)
		}
	}
	slices.Sort(ends)
	out := make([]float64, len(jobs))
	for n, i := range b.starts(jobs) {
		j := jobs[i]
		if j.ArrivalS != nil {
			out[i] = *j.ArrivalS
		}
		switch {
		case j.StartS == nil:
		case !b.taskBound():
			out[i] = *j.StartS
		case n >= b.Run.Workers && n-b.Run.Workers < len(ends):
			out[i] = max(out[i], ends[n-b.Run.Workers])
		}
	}
	return out
}

// starts are the places of jobs in the order in which they were let in: that of the mix, unless the run's scheduler chose
// another.
func (b *builder) starts(jobs []results.Job) []int {
	out := make([]int, len(jobs))
	for i := range out {
		out[i] = i
	}
	if s, err := policies.ParseStored(b.Own(), len(b.Devices)); err == nil && s.Admits() {
		start := func(i int) float64 {
			if at := jobs[i].StartS; at != nil {
				return *at
			}
			return math.Inf(1)
		}
		slices.SortStableFunc(out, func(x, y int) int { return cmp.Compare(start(x), start(y)) })
	}
	return out
}

// job adds what a job did.
func (b *builder) job(j results.Job, admitted float64) {
	b.add(admitted, runner.Note{}, runner.Start{Job: j.Index})
	b.add(*j.StartS, runner.JobStarted{Job: j.Index})
	for _, t := range b.of[j.Index] {
		b.task(t, *j.EndS)
	}
	exit := runner.Exit{Status: new(0)}
	if o := j.Outcome; o != nil && !o.CountsAsOK() {
		b.failed++
		exit = runner.Exit{Err: errors.New(strings.TrimSpace(string(*o) + " in the run: " + j.Detail))}
	}
	b.add(*j.EndS, runner.JobEnded{Job: j.Index, Exit: exit})
}

// task adds a task. One that was given back by the end of its process, later than the job, is given
// back with its context.
func (b *builder) task(t results.Task, end float64) {
	b.ids++
	if t.GrownBytes > 0 {
		b.grown++
	}
	task := schedulers.Task{ID: b.ids, Job: schedulers.JobID(t.Job), Bytes: t.Bytes + t.HeapBytes + t.GrownBytes, Blocks: t.Blocks,
		ThreadsPerBlock: t.ThreadsPerBlock, Managed: t.Managed != nil && *t.Managed, OnDevice: t.PinnedDevice}
	if t.BlocksPerSM != nil {
		task.BlocksPerSM = *t.BlocksPerSM
	}
	b.add(t.SubmitS, runner.TaskBegin{Task: task, HeapBytes: t.HeapBytes})
	if answered := cmp.Or(t.GrantS, &t.SubmitS); t.GrantS != nil || t.Refusal != nil { // when it was refused is not kept
		b.add(*answered, runner.Note{}, runner.Answer{Decision: schedulers.Decision{Task: task}})
	}
	if t.GrantS != nil && t.ReleaseS != nil && *t.ReleaseS <= end {
		b.add(*t.ReleaseS, runner.TaskFree{ID: task.ID})
	}
}

// Own is the scheduler of the run as text, for its replay. Where clients decided for themselves, the
// engine decides by the same rules. No layer decides.
func (s *Stored) Own() string {
	name, _, _ := schedulers.CutLayer(s.Run.Scheduler)
	parameters := strings.ReplaceAll(s.Run.Parameters, "arch=shared", "arch=server")
	return policies.With(name, policies.WithoutLayer(parameters))
}

// Check refuses a scheduler under which the batch cannot be replayed.
func (s *Stored) Check(scheduler policies.Scheduler) error {
	switch {
	case scheduler.Revokes:
		return fmt.Errorf("replay run %d under %s: it takes memory back from tasks, and the run does not tell how fast the memory would move: use caserun mix on a simulated node", s.Run.ID, scheduler.Name)
	case scheduler.ClientsDecide:
		return fmt.Errorf("replay run %d under %s:arch=shared: a replay has no processes that could decide for themselves; arch=server has the same policies", s.Run.ID, scheduler.Name)
	}
	return nil
}

// expecting are the steps with what is expected of given jobs.
func (s *Stored) expecting() []runner.Step {
	steps, job := slices.Clone(s.steps), len(s.jobs)
	for i, step := range steps {
		if g, is := step.Event.(runner.Given); is && job < len(s.Predictions) {
			g.Expected = s.Predictions[job]
			steps[i].Event = g
			job++
		}
	}
	return steps
}

// Under replays the batch in virtual time, and returns its jobs. The scheduler must pass Check. What the
// scheduler cannot have in a replay is added to the assumptions.
func (s *Stored) Under(ctx context.Context, scheduler policies.Scheduler) ([]results.Job, error) {
	x, err := New(s.expecting())
	if err != nil {
		return nil, err
	}
	c := runner.Config{Jobs: s.jobs, Open: len(s.jobs) < len(s.records), Scheduler: scheduler, Workers: s.workers, Cores: s.cores, Seed: s.Run.Seed,
		Predictions: s.Predictions[:min(len(s.jobs), len(s.Predictions))]}
	if scheduler.Plans != nil && scheduler.Plans.Learn || scheduler.ShortestFirst() {
		s.assume("%s expects of the jobs what %s", scheduler.Name, s.PredictedFrom)
	}
	if scheduler.Nice {
		s.assume("nice=on of %s changes nothing: how long a job's host part takes does not depend on who else runs", scheduler.Name)
	}
	for _, d := range s.Devices {
		c.Devices = append(c.Devices, schedulers.Device{Name: d.Name, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes,
			SMs: d.SMs, WarpsPerSM: d.WarpsPerSM, BlocksPerSM: d.BlocksPerSM})
	}
	jobs, err := runner.Run(ctx, c, x, eventsOnly{say: func(e results.Event) {
		if e.Kind == results.EventUnplanned {
			s.assume("under %s, %s", scheduler.Name, e.Detail)
		}
	}})
	if err != nil {
		err = fmt.Errorf("replay run %d under %s: %w", s.Run.ID, scheduler.Name, err)
	}
	return jobs, err
}

// eventsOnly is a Recorder for replays that says what happens.
type eventsOnly struct {
	runner.Forgetful
	say func(results.Event)
}

func (r eventsOnly) Event(e results.Event) { r.say(e) }
