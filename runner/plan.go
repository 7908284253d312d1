package runner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/plan"
)

// ahead is the batch's side of a scheduler that plans. A search runs beside the batch. Until it has
// ended, the plan before it is followed, and what happens meanwhile brings about the next search.
type ahead struct {
	tracker   *plan.Tracker
	cores     int
	settings  plan.Settings
	most      []int64       // that each job is expected to have at one time, in bytes; 0: nobody knows
	nice      []int         // of each job until it has a device; nil: priorities are left alone
	open      []int         // jobs that were admitted and have not ended
	admitted  int           // jobs before this one were admitted
	ended     time.Duration // sum of the turnarounds of the jobs that have ended
	searching bool
	stale     bool // something has happened since the search began
	first     bool // no search has ended
}

// mostUnknown is the part of the jobs that may be unknown. Beyond it a plan would be guesswork, and
// the policy alone decides.
const mostUnknown = 1.0 / 3

// newAhead returns nil if the scheduler does not plan, or not enough is known of the jobs. why says the
// second.
func newAhead(c Config) (a *ahead, why string) {
	p := c.Scheduler.Plans
	if p == nil {
		return nil, ""
	}
	expected, unknown := c.expected()
	if float64(unknown) > mostUnknown*float64(len(c.Jobs)) {
		return nil, fmt.Sprintf("nothing is known of %d of %d jobs, so they are not planned: each goes where it leaves the least memory free, the largest first", unknown, len(c.Jobs))
	}
	a = &ahead{cores: c.Cores, settings: p.Settings, first: true, most: c.most()}
	a.settings.Seed = c.Seed
	if c.Scheduler.Nice {
		a.nice = plan.Nice(c.begin(expected), expected, a.settings)
	}
	a.tracker = plan.NewTracker(expected, a.nice, c.Cores, len(c.Devices))
	return a, ""
}

// most is what earlier runs say that each job has of a device's memory at most, and no more than it can have.
func (c Config) most() []int64 {
	out, largest := make([]int64, len(c.Jobs)), int64(0)
	for _, d := range c.Devices {
		largest = max(largest, d.CapacityBytes-d.ContextBytes)
	}
	for i, p := range c.Predictions {
		if p != nil && i < len(out) {
			out[i] = min(p.Bytes, largest)
		}
	}
	return out
}

// begin is the batch before anything has happened.
func (c Config) begin(expected []schedulers.Prediction) plan.Situation {
	s := plan.Situation{Cores: c.Cores, Workers: c.Workers}
	for _, d := range c.Devices {
		s.Devices = append(s.Devices, plan.Device{CapacityBytes: d.CapacityBytes, FreeBytes: d.CapacityBytes, ContextBytes: d.ContextBytes})
	}
	t := plan.NewTracker(expected, nil, c.Cores, len(c.Devices))
	for i := range expected {
		j := t.Job(schedulers.JobID(i))
		j.Isolate = c.isolated(&c.Jobs[i])
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// expected returns a prediction for each job. Unknown jobs are expected to be like the mean of the others.
func (c Config) expected() (all []schedulers.Prediction, unknown int) {
	var mean schedulers.Prediction
	all = make([]schedulers.Prediction, len(c.Jobs))
	known := func(i int) *schedulers.Prediction {
		if !c.Scheduler.Plans.Learn || i >= len(c.Predictions) {
			return nil
		}
		return c.Predictions[i]
	}
	for i := range c.Jobs {
		p := known(i)
		if p == nil {
			unknown++
			continue
		}
		all[i] = *p
		mean.Before, mean.Held, mean.After, mean.Bytes = mean.Before+p.Before, mean.Held+p.Held, mean.After+p.After, mean.Bytes+p.Bytes
		mean.Kernels, mean.SMs = mean.Kernels+p.Kernels, mean.SMs+p.SMs
	}
	if n := len(c.Jobs) - unknown; n > 0 {
		mean.Before, mean.Held, mean.After, mean.Bytes = mean.Before/time.Duration(n), mean.Held/time.Duration(n), mean.After/time.Duration(n), mean.Bytes/int64(n)
		mean.Kernels, mean.SMs = mean.Kernels/float64(n), mean.SMs/float64(n)
	}
	random := rand.New(rand.NewPCG(c.Seed, 2))
	falsified := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * (1 + c.Scheduler.Plans.Error*(2*random.Float64()-1)))
	}
	for i, j := range c.Jobs {
		if known(i) == nil {
			all[i] = mean
		}
		if j.Footprint.Bytes > 0 && known(i) == nil {
			all[i].Bytes = j.Footprint.Bytes
		}
		all[i].Before, all[i].Held, all[i].After = falsified(all[i].Before), falsified(all[i].Held), falsified(all[i].After)
	}
	return all, unknown
}

// standing is what a job has and wants.
type standing struct {
	waits   *task // for a device; nil: none of its tasks does
	holds   int64 // bytes of its tasks
	granted bool  // it has a device,
	device  int   // which is this
}

func (b *Batch) standing(i int) (s standing) {
	j := b.jobs[i]
	if j == nil {
		return s
	}
	if j.bound && j.record.Device != nil { // as a whole, until it ends
		return standing{holds: j.spec.Footprint.Bytes, granted: true, device: *j.record.Device}
	}
	for _, t := range j.open {
		switch {
		case t.granted:
			s.holds, s.granted, s.device = sum(s.holds, t.holds), true, *t.record.Device
		case t.asks && (s.waits == nil || t.record.Seq < s.waits.record.Seq):
			s.waits = t
		}
	}
	return s
}

// follow takes in what an event has changed, and asks for a plan if one is worth it.
func (b *Batch) follow(now time.Duration) {
	a := b.ahead
	for ; a.admitted < b.next; a.admitted++ {
		a.open = append(a.open, a.admitted)
	}
	still := a.open[:0]
	for _, i := range a.open {
		has := b.standing(i)
		stage, id := b.stage(i, has), schedulers.JobID(i)
		if stage != plan.Ended {
			still = append(still, i)
		}
		if stage == a.tracker.Stage(id) {
			continue
		}
		a.stale = true
		if stage == plan.Ended {
			a.ended += now - b.arrivedAt
		}
		a.tracker.Enter(id, stage, has.device, now)
	}
	a.open = still
	if a.stale && !a.searching {
		b.plan(now)
	}
}

// stage is how far a job is.
func (b *Batch) stage(i int, has standing) plan.Stage {
	j := b.jobs[i]
	switch {
	case b.records[i].Outcome != nil || j != nil && j.exited != nil:
		return plan.Ended
	case has.waits != nil || b.boundBeforeStart(i) && !has.granted: // every job here was admitted
		return plan.Waiting
	case j == nil:
		return plan.Coming
	case has.granted:
		return plan.Held
	case !j.started:
		return plan.Coming
	case j.tasks == 0:
		return plan.Before
	}
	return plan.After
}

// plan asks for a plan.
func (b *Batch) plan(now time.Duration) {
	b.ahead.stale = false
	if s := b.situation(now); len(s.Jobs) > 0 {
		b.ahead.searching = true
		b.command(Search{s, b.ahead.settings})
	}
}

// situation is the batch as a search sees it. It leaves out jobs that are late: they get their place when
// they ask.
func (b *Batch) situation(now time.Duration) plan.Situation {
	a := b.ahead
	a.tracker.Advance(now)
	s := plan.Situation{Now: now, Cores: a.cores, Workers: b.config.Workers, Ended: a.ended, Current: b.engine.Plan(), First: a.first}
	view := b.engine.View()
	for i := range view.Len() {
		d := view.Device(i)
		s.Devices = append(s.Devices, plan.Device{CapacityBytes: d.Limits().CapacityBytes, FreeBytes: d.FreeBytes(), ContextBytes: d.Limits().ContextBytes})
	}
	for _, i := range a.open {
		p := a.tracker.Job(schedulers.JobID(i))
		if p.Stage == plan.Before && p.Patience <= 0 {
			continue
		}
		p.Arrived, p.Isolate = b.arrivedAt, b.config.isolated(&b.config.Jobs[i])
		p.Most = a.most[i]
		switch has := b.standing(i); p.Stage {
		case plan.Held:
			p.Bytes = max(has.holds, p.Most)
			s.Devices[has.device].FreeBytes -= p.Bytes - has.holds
		case plan.Waiting:
			p.Bytes = b.config.Jobs[i].Footprint.Bytes // of a job that asks as a whole
			if has.waits != nil {
				p.Bytes = max(has.waits.asked, p.Most)
				if d := has.waits.record.PinnedDevice; d != nil {
					p.Only = *d
				}
			}
		}
		s.Jobs = append(s.Jobs, p)
	}
	for i := b.next; i < b.arrived && i < b.next+a.settings.Window; i++ {
		p := a.tracker.Job(schedulers.JobID(i))
		p.Arrived, p.Isolate = b.arrivedAt, b.config.isolated(&b.config.Jobs[i])
		s.Jobs = append(s.Jobs, p)
	}
	return s
}

func (e Planned) apply(b *Batch, now time.Duration) error {
	a := b.ahead
	if a == nil || !a.searching {
		return errors.New("a plan, and no search for one is under way")
	}
	a.searching, a.first = false, false
	b.carryOut(b.engine.Follow(e.Plan, now), now)
	return nil
}
