package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/blame"
	"github.com/caserun/caserun/schedulers"
)

// A job that is started again has several tries. What a try has said, asked for and been granted ends with it. The job's record
// is that of the last try, but for its arrival and the number of its restarts. So what came before the last start counts as waiting.

// MostRestarts is how often a job is started again at most. The last time it has its device to itself, unless a companion runs, which
// ends only after it. So it is granted whatever it asks for that a device has.
const MostRestarts = 2

// Try is how a job starts again.
type Try struct {
	Restart int   // which one it is, from 1
	Bytes   int64 // of device memory that the job's first task asks for at least, without the device heap
	Tasks   int   // that the job has had in earlier tries
	Alone   bool  // it has its device to itself
}

// Restarter is an Executor that can start a job again. Restart comes after JobEnded, and has the events of Start.
type Restarter interface {
	Executor
	Restart(job int, t Try)
}

// Restart begins another try of a job.
type Restart struct {
	Job int
	Try Try
}

func (Restart) command() {}

// restarts is how often the job may still be started again.
func (b *Batch) restarts(i int) int {
	j, may := b.jobs[i], b.config.Restartable
	if may == nil || b.boundBeforeStart(i) || b.config.Scheduler.ClientsDecide || !may(b.spec(i)) {
		return 0
	}
	if j == nil {
		return MostRestarts
	}
	return MostRestarts - j.try.Restart
}

// restart stops a job, so that it starts again once it has ended.
func (b *Batch) restart(d schedulers.Decision, now time.Duration) {
	i := int(d.Task.Job)
	j := b.job(i)
	switch {
	case !j.runs() || j.again != nil || j.stopped || j.timedOut || j.ends() && len(j.faults) == 0:
		return // it is about to end anyway
	case len(j.faults) > 0: // it may ignore them, and wait for ever
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventRefused, Job: &j.record.Index, Device: j.record.Device,
			Detail: "every job on the device waits for memory: this one is stopped, and is not started again after a CUDA error"})
		b.stopJob(i)
		return
	}
	heap := int64(0)
	for _, t := range j.open {
		heap += t.record.HeapBytes
	}
	j.again = b.nextTry(j, max(0, d.Bytes-heap))
	j.deadline = schedulers.Never
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventRestarted, Job: &j.record.Index, Device: j.record.Device,
		Detail: fmt.Sprintf("every job on the device waits for memory. Of the jobs that may be started again this one had used least device time: it is stopped, and started again with %s%s",
			size.Text(d.Bytes), j.again.which())})
	b.stopJob(i)
}

func (b *Batch) nextTry(j *job, bytes int64) *Try {
	n := j.try.Restart + 1
	return &Try{Restart: n, Bytes: bytes, Alone: n == MostRestarts && !slices.ContainsFunc(b.jobs, (*job).isCompanion)}
}

// noteShortage notes that memory of a device was missing to a job, and how the job is to start again if it ends oom for that: where the
// scheduler grants no more than there is, and other jobs had memory there too. A job that was alone had all that there is.
func (b *Batch) noteShortage(j *job) {
	if b.config.Scheduler.Oversubscribes || b.restarts(j.record.Index) == 0 || j.record.Device == nil || !b.hasCompany(j, *j.record.Device) {
		return
	}
	had := int64(0)
	for _, t := range j.open {
		if t.granted && *t.record.Device == *j.record.Device {
			had = sum(had, t.holds-t.record.HeapBytes)
		}
	}
	if j.afterOOM == nil {
		j.afterOOM = b.nextTry(j, 0)
	}
	j.afterOOM.Bytes = max(j.afterOOM.Bytes, had)
}

// hasCompany reports whether processes of other jobs have a context on the device.
func (b *Batch) hasCompany(j *job, device int) bool {
	return slices.ContainsFunc(b.jobs, func(o *job) bool {
		return o != nil && o != j && slices.ContainsFunc(o.residencies, func(r blame.Residency) bool { return r.Device == device && r.Open() })
	})
}

// restartAfterOOM has a job that has ended oom start again, if it may.
func (b *Batch) restartAfterOOM(j *job, why string, now time.Duration) {
	if j.afterOOM == nil || j.again != nil || j.refused != "" || j.ends() {
		return
	}
	j.again = j.afterOOM
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventRestarted, Job: &j.record.Index, Device: j.record.Device,
		Detail: fmt.Sprintf("%s. Other jobs had memory on its device: it is started again with %s%s", why, size.Text(j.again.Bytes), j.again.which())})
}

// which says which restart it is.
func (t Try) which() string {
	alone := ""
	if t.Alone {
		alone = ", and has its device to itself"
	}
	return fmt.Sprintf(" (restart %d of %d)%s", t.Restart, MostRestarts, alone)
}

// ends reports whether something else has decided how the job ends.
func (j *job) ends() bool {
	return j.stuck != "" || j.lost != "" || j.withdrawn != "" || j.protocol != "" || j.overfull != "" || len(j.faults) > 0
}

// endTry ends a try of a job that starts again. It reports false if the job has ended for good.
func (b *Batch) endTry(e JobEnded, died bool, now time.Duration) bool {
	i := e.Job
	j := b.job(i)
	if j.again == nil || j.stopped || j.ends() || e.Exit.Err != nil || b.cancelled {
		return false
	}
	if died {
		b.suspectOutage(j.residencies, j.end, false)
	}
	next := *j.again
	next.Tasks = j.tasks
	j.record.Restarts, j.record.Device = &next.Restart, nil
	*j = job{spec: j.spec, record: j.record, arrived: j.arrived, deadline: schedulers.Never, end: schedulers.Never, tasks: j.tasks, try: next,
		residencies: j.residencies, deaths: j.deaths, work: j.work, uses: j.uses, unaccounted: j.unaccounted}
	b.recordJob(j.record)
	b.waitsToRestart = append(b.waitsToRestart, i)
	b.progress.made(now)
	b.carryOut(b.engine.JobExit(schedulers.JobID(i)), now)
	if most, limited := b.limits[i]; limited {
		b.carryOut(b.engine.Limit(schedulers.JobID(i), most, now), now)
	}
	b.admit(now)
	return true
}

// startAgain starts the jobs whose next try has to begin. They keep their places among the jobs that run.
func (b *Batch) startAgain() {
	for _, i := range b.waitsToRestart {
		j := b.job(i)
		j.started = true
		b.command(Restart{i, j.try})
		if b.nice != nil {
			b.command(Prioritize{i, b.nice[i]})
		}
	}
	b.waitsToRestart = b.waitsToRestart[:0]
}

// restartRemedy says what would have kept a job from being refused in a deadlock.
func (b *Batch) restartRemedy(j *job, r *schedulers.Refusal) string {
	switch {
	case !r.Deadlock || b.config.Restartable == nil || j.ranks != nil || b.restarts(j.record.Index) > 0:
		return ""
	case j.try.Restart == MostRestarts:
		return fmt.Sprintf("; it was started again %d times", MostRestarts)
	}
	return "; with restartable: true in the mix a job is started again instead"
}
