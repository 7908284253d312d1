package schedtest

import (
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// twins returns an engine, and one for the same node that has no indexes and remembers no answers.
func twins(devices []schedulers.Device, s policies.Scheduler) (indexed, exhaustive *engine.Engine, err error) {
	if indexed, err = engine.New(devices, s.Policy, s.Config); err != nil {
		return nil, nil, err
	}
	s.Config.Exhaustive = true
	exhaustive, err = engine.New(devices, s.Policy, s.Config)
	return indexed, exhaustive, err
}
