package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// Under a scheduler that checkpoints, a job is bound as a whole, and is one task for the whole of its life. The executor answers revocations of
// that task, and asks to resume it, in the place of a process.

// WholeJob returns the job for which a task stands, if it stands for one.
func WholeJob(id schedulers.TaskID) (job int, whole bool) { return int(id &^ wholeJob), id >= wholeJob }

// TaskOf is the task that stands for a job.
func TaskOf(job int) schedulers.TaskID { return binding(job) }

// CheckWhole refuses a job that cannot be bound as a whole and checkpointed.
func CheckWhole(spec *mixes.Job) error {
	mps := slices.IndexFunc(spec.Env, func(entry string) bool { return strings.HasPrefix(entry, "CUDA_MPS_") })
	switch {
	case spec.Footprint.Bytes == 0:
		return errors.New("has no memory in its mix, and via=checkpoint binds it as a whole: give it its memory, or a profile with --profiles")
	case mps >= 0:
		name, _, _ := strings.Cut(spec.Env[mps], "=")
		return fmt.Errorf("has %s in its env, and the driver cannot checkpoint a client of MPS: leave it out, or use via=swap", name)
	}
	return nil
}

// givesWay is what a job that is bound as a whole can be asked for.
func (b *Batch) givesWay(spec *mixes.Job) schedulers.Actions {
	if !b.config.Scheduler.Checkpoints || spec.GPUs > 1 {
		return 0
	}
	return 1 << schedulers.Yield
}

// holdWhole enters a job that was granted its device in the ledger, if it may be asked to give way.
func (b *Batch) holdWhole(d schedulers.Decision, now time.Duration) {
	j := b.job(int(d.Task.Job))
	if b.givesWay(j.spec) == 0 {
		return
	}
	t := &task{id: d.Task.ID, process: d.Task.Process(), granted: true, asked: d.Task.Bytes, holds: d.Task.Bytes, given: now,
		record: results.Task{Job: int(d.Task.Job), Seq: j.tasks, Bytes: d.Task.Bytes, Managed: new(false), SubmitS: seconds(j.arrived), GrantS: new(seconds(now)), Device: &b.indexes[d.Device], Passed: d.Passed}}
	t.setKernel(d.Task)
	j.tasks++
	b.tasks[t.id] = t
	j.open = append(j.open, t)
	b.recordTask(t)
}
