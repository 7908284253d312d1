package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

func (e Limit) apply(b *Batch, now time.Duration) error {
	switch {
	case e.Job < 0 || e.Job >= len(b.records):
		return fmt.Errorf("a limit of job %d: the batch has %d jobs, counted from 0", e.Job, len(b.records))
	case e.Devices < 0 && e.Devices != engine.NoLimit:
		return fmt.Errorf("a limit of %d devices: want 0 or more, or %d, which is no limit", e.Devices, engine.NoLimit)
	case b.config.Scheduler.ClientsDecide:
		return errors.New("a limit under arch=shared, where processes decide by themselves: use arch=server")
	case b.records[e.Job].Outcome != nil:
		return nil // it has ended meanwhile
	}
	was, limited := b.limits[e.Job]
	if limited == (e.Devices >= 0) && (!limited || was == e.Devices) {
		return nil
	}
	detail := "it may use any number of devices again"
	delete(b.limits, e.Job)
	if e.Devices >= 0 {
		if b.limits == nil {
			b.limits = map[int]int{}
		}
		b.limits[e.Job] = e.Devices
		detail = fmt.Sprintf("it may use %s", size.Count(e.Devices, "device"))
	}
	b.progress.made(now)
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventLimited, Job: &e.Job, Detail: detail})
	b.carryOut(b.engine.Limit(schedulers.JobID(e.Job), e.Devices, now), now)
	b.admit(now)
	return nil
}

// suspended is how many jobs that were admitted may use no device. Others may run meanwhile.
func (b *Batch) suspended() (n int) {
	for i, devices := range b.limits {
		if j := b.jobs[i]; devices == 0 && j != nil && j.started && b.records[i].Outcome == nil {
			n++
		}
	}
	return n
}
