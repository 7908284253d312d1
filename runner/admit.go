package runner

import (
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// boundBeforeStart reports whether the job's device is settled before its
// process exists: under a process-bound scheduler, or because it has no probe.
func (b *Batch) boundBeforeStart(j *job) bool {
	return b.config.Scheduler.Binds == policies.BindsJob || j.spec.Binding == mixes.BindDeclared
}

// arrive lets the next group of jobs arrive once all jobs before it have ended.
func (b *Batch) arrive(now time.Duration) {
	if b.arrived > b.ended || b.arrived == len(b.jobs) {
		return
	}
	group := b.jobs[b.arrived].spec.Group
	for b.arrived < len(b.jobs) && b.jobs[b.arrived].spec.Group == group {
		j := b.jobs[b.arrived]
		j.arrived = now
		j.record.ArrivalS = new(seconds(now))
		b.recorder.Job(j.record)
		b.arrived++
	}
}

// admit lets jobs in that have arrived, in the mix's order. A process-bound scheduler
// sees all of them at once; a task-bound one as many as there are workers.
func (b *Batch) admit(now time.Duration) {
	if b.cancelled {
		return
	}
	limit := b.config.Workers
	if limit <= 0 || b.config.Scheduler.Binds == policies.BindsJob {
		limit = len(b.jobs)
	}
	b.arrive(now)
	for b.next < b.arrived && b.active < limit {
		index := b.next
		j := b.jobs[index]
		if b.healing && !b.boundBeforeStart(j) {
			return // a new client would be turned away; Healed goes on
		}
		b.next++
		b.active++
		if !b.boundBeforeStart(j) {
			b.start(index, Unbound)
			continue
		}
		b.lastTask++
		j.binding = b.lastTask
		f, wait := j.spec.Footprint, j.spec.Wait
		if b.config.Scheduler.Binds == policies.BindsJob {
			wait = nil // the job has not asked for it: jobs take turns
		}
		ds, err := b.engine.Submit(schedulers.Task{ID: j.binding, Job: schedulers.JobID(index), Bytes: f.Bytes,
			Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock, GridUnknown: f.Blocks == 0,
			Priority: j.spec.Priority, Isolate: j.spec.Isolate, Wait: wait}, now)
		b.check(err)
		b.carryOut(ds, now)
	}
}

func (b *Batch) start(index, device int) {
	j := b.jobs[index]
	j.started = true
	if device != Unbound {
		j.record.Device = &device
	}
	b.executor.Start(index, device)
}
