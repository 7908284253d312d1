package runner

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// prioritizer returns the executor as one that gives jobs host priorities; nil if the scheduler wants none,
// or they would change nothing, or the executor cannot. Then the batch gives none.
func (c *Config) prioritizer(x Executor) Prioritizer {
	p, is := x.(Prioritizer)
	c.Scheduler.Nice = c.Scheduler.Nice && is && c.crowded()
	if !c.Scheduler.Nice {
		return nil
	}
	if err := p.CanPrioritize(); err != nil {
		c.Scheduler.Nice = false
		c.Notes = append(slices.Clone(c.Notes), results.Event{Kind: results.EventNiceLeft, Detail: fmt.Sprintf("host priorities are left alone, so all jobs share the cores equally: %v", err)})
		return nil
	}
	return p
}

// crowded reports whether more jobs may run at once than the host has cores.
func (c *Config) crowded() bool {
	running := len(c.Jobs)
	if c.Workers > 0 {
		running = min(running, c.Workers)
	}
	return c.Cores > 0 && running > c.Cores
}

// niceLevels is the nice level of each job until it has a device; nil: priorities are left alone. From then on the
// job has the first.
func (c *Config) niceLevels(a *ahead) []int {
	if !c.Scheduler.Nice {
		return nil
	}
	if a != nil {
		return a.nice
	}
	expected := make([]*schedulers.Prediction, len(c.Jobs))
	if c.Scheduler.Plans == nil || c.Scheduler.Plans.Learn {
		copy(expected, c.Predictions)
	}
	return schedulers.NiceByLength(expected, schedulers.UntilRequest)
}
