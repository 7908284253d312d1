package runner

import (
	"time"

	"github.com/caserun/caserun/schedulers"
)

// decider says where a job's tasks go and whether they grow. Each call answers with the decisions
// that follow from it, as the engine's do.
type decider interface {
	Submit(t schedulers.Task, now time.Duration) ([]schedulers.Decision, error)
	Grow(id schedulers.TaskID, bytes int64, wait *time.Duration, now time.Duration) ([]schedulers.Decision, error)
	Shrink(id schedulers.TaskID, bytes int64) ([]schedulers.Decision, error)
	Shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32) ([]schedulers.Decision, error)
	Release(id schedulers.TaskID) ([]schedulers.Decision, error)
}

// decider of the job's tasks.
func (b *Batch) decider(j *job) decider {
	switch {
	case j.binding != 0:
		return settled{job: schedulers.JobID(j.record.Index), device: *j.record.Device}
	case b.config.Scheduler.ClientsDecide:
		return clients{}
	}
	return b.engine
}

// clients decide for themselves: nothing follows until one of them says so (TaskDecided).
type clients struct{}

func (clients) Submit(schedulers.Task, time.Duration) ([]schedulers.Decision, error) { return nil, nil }

func (clients) Grow(schedulers.TaskID, int64, *time.Duration, time.Duration) ([]schedulers.Decision, error) {
	return nil, nil
}

func (clients) Shrink(schedulers.TaskID, int64) ([]schedulers.Decision, error) {
	return nil, nil
}

func (clients) Shape(schedulers.TaskID, uint64, uint32, uint32) ([]schedulers.Decision, error) {
	return nil, nil
}

func (clients) Release(schedulers.TaskID) ([]schedulers.Decision, error) {
	return nil, nil
}

// settled is a job that got its device before it started: its tasks are part of what it has
// there, whatever they ask for, and see no other device.
type settled struct {
	clients
	job    schedulers.JobID
	device int
}

func (s settled) Submit(t schedulers.Task, _ time.Duration) ([]schedulers.Decision, error) {
	return []schedulers.Decision{{Kind: schedulers.Granted, Task: t, Device: s.device}}, nil
}

func (s settled) Grow(id schedulers.TaskID, _ int64, _ *time.Duration, _ time.Duration) ([]schedulers.Decision, error) {
	return []schedulers.Decision{{Kind: schedulers.Grown, Task: schedulers.Task{ID: id, Job: s.job}, Device: s.device}}, nil
}
