package runlog

import (
	"slices"

	"github.com/caserun/caserun/results"
)

// Begun says that the store has a run. Its batch has yet to arrive.
func (l *Log) Begun(run results.Run, devices []results.Device) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run.ID] = &state{mode: run.Mode, jobs: map[int]results.Job{}, tasks: map[taskKey]results.Task{}, refused: map[int]results.Event{}}
	found := []results.Fields{}
	for _, d := range devices {
		found = append(found, d.Fields().Pick("device_index", "uuid", "name", "memory_bytes", "capacity_bytes"))
	}
	l.line(run.ID, "run_started", nil, run.Fields().Pick("mix", "scheduler", "parameters", "probe", "node", "suite", "repetition", "sweep_id", "warmup",
		"tag", "seed", "jobs", "started_at").With("arm", results.NameOf(run)).With("devices", found))
}

// Ended says how a run ended. What comes of its jobs later corrects their outcomes.
func (l *Log) Ended(run results.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(run.ID, "run_ended", run.Metrics.MakespanS, run.Fields().Pick("status", "jobs_ok", "jobs_oom", "jobs_crashed", "jobs_cancelled", "jobs_not_started",
		"makespan_s", "throughput_jobs_per_s", "turnaround_mean_s", "utilization_mean"))
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
		l.line(run, "job_started", j.StartS, withDevices(j, j.Fields().Pick("job_index", "name", "command", "device_index", "arrival_s")))
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
	l.line(run, kind, j.EndS, withDevices(j, j.Fields().Pick("job_index", "name", "device_index", "outcome", "exit_status", "signal", "detail", "wait_s").With("turnaround_s", j.TurnaroundS())))
}

// withDevices adds the devices of a job that has several.
func withDevices(j results.Job, f results.Fields) results.Fields {
	if j.Devices == nil {
		return f
	}
	return f.With("devices", j.On())
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
		l.line(run, "task_submitted", &t.SubmitS, t.Fields().Pick("job_index", "task_seq", "bytes", "heap_bytes", "blocks", "threads_per_block"))
	}
	if before.GrantS == nil && t.GrantS != nil {
		l.line(run, "task_granted", t.GrantS, t.Fields().Pick("job_index", "task_seq", "device_index").With("wait_s", *t.GrantS-t.SubmitS).With("passed", t.Passed))
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
		l.line(run, kind, at, t.Fields().Pick("job_index", "task_seq", "refusal"))
	}
	if before.ReleaseS == nil && t.ReleaseS != nil {
		l.line(run, "task_released", t.ReleaseS, t.Fields().Pick("job_index", "task_seq", "device_index", "grown_bytes"))
	}
}

// Rank says that a rank has its outcome.
func (l *Log) Rank(run int64, r results.Rank) {
	if r.Outcome == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(run, "rank_ended", r.EndS, slices.DeleteFunc(r.Fields(), func(f results.Field) bool { return f.Name == "end_s" }))
}

// Swap says that memory of a task moved, or did not although it was asked to.
func (l *Log) Swap(run int64, s results.Swap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(run, "swap", &s.EndS, slices.DeleteFunc(s.Fields(), func(f results.Field) bool { return f.Name == "end_s" }))
}

// Event says what happened beside that.
func (l *Log) Event(run int64, e results.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.runs[run]; e.Kind == results.EventRefused && e.Job != nil && !s.ended {
		s.refused[*e.Job] = e
	}
	l.line(run, "event", &e.AtS, results.Fields{}.With("event", e.Kind).With("job_index", e.Job).With("device_index", e.Device).With("detail", e.Detail))
}

// line queues a line, whose text the writing goroutine makes: a grant is not to wait for it. The caller holds mu, and
// changes nothing that the fields point to.
func (l *Log) line(run int64, kind string, at *float64, fields results.Fields) {
	head := results.Fields{}.With("run_id", run).With("mode", l.runs[run].mode).With("kind", kind).With("at_s", at)
	l.queue = append(l.queue, append(head, fields...))
	l.hurry()
}
