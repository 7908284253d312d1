package runner

import (
	"fmt"
	"math"
	"slices"
	"time"

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
	if c.Open {
		running = math.MaxInt
	}
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
	start := c.atStart()
	expected := make([]*schedulers.Prediction, len(start.Jobs))
	if c.learns() {
		copy(expected, start.Predictions)
	}
	return schedulers.NiceByLength(expected, schedulers.UntilRequest)
}

// learns reports whether what is known of jobs counts.
func (c *Config) learns() bool { return c.Scheduler.Plans == nil || c.Scheduler.Plans.Learn }

// sortedLengths are the lengths of the jobs of which something is known, the shortest first.
func (c *Config) sortedLengths() (lengths []time.Duration) {
	if !c.Scheduler.Nice || !c.learns() {
		return nil
	}
	for _, p := range c.Predictions {
		if p != nil {
			lengths = append(lengths, schedulers.UntilRequest(p))
		}
	}
	slices.Sort(lengths)
	return lengths
}

// levelOf is the nice level of a job that arrives while the batch runs: by its place among all jobs so far, as in schedulers.NiceByLength. The
// others keep theirs.
func (b *Batch) levelOf(p *schedulers.Prediction) int {
	if p == nil || !b.config.learns() {
		return schedulers.NiceLevels / 2
	}
	length := schedulers.UntilRequest(p)
	place, _ := slices.BinarySearch(b.sorted, length)
	b.sorted = slices.Insert(b.sorted, place, length)
	return 1 + place*(schedulers.NiceLevels-1)/len(b.sorted)
}
