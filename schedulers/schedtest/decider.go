package schedtest

import (
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest/plain"
)

// decider is what the engine and the plain engine can both do.
type decider interface {
	Submit(schedulers.Task, time.Duration) ([]schedulers.Decision, error)
	Release(schedulers.TaskID) ([]schedulers.Decision, error)
	Shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32) ([]schedulers.Decision, error)
	Grow(id schedulers.TaskID, bytes int64, wait *time.Duration, now time.Duration) ([]schedulers.Decision, error)
	Shrink(id schedulers.TaskID, bytes int64) ([]schedulers.Decision, error)
	JobExit(schedulers.JobID) []schedulers.Decision
	ProcessExit(schedulers.Process) []schedulers.Decision
	NextExpiry() time.Duration
	Expire(now time.Duration) []schedulers.Decision
	Waiting() int
	View() schedulers.View

	// Under a Preempter:
	Resume(id schedulers.TaskID, need, referenced int64, now time.Duration) ([]schedulers.Decision, error)
	Revoked(schedulers.TaskID, schedulers.Ticket, schedulers.Outcome, time.Duration) ([]schedulers.Decision, error)
	Active(schedulers.TaskID, schedulers.Activity, time.Duration) error
	NextTick() time.Duration
	Tick(now, quiet time.Duration) []schedulers.Decision
}

// twins returns an engine and a plain engine for the same node.
func twins(devices []schedulers.Device, s policies.Scheduler) (*engine.Engine, decider, error) {
	e, err := engine.New(devices, s.Policy, s.Config)
	if err != nil {
		return nil, nil, err
	}
	p, err := plain.New(devices, s.Policy, s.Config)
	return e, p, err
}
