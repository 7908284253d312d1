package runner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/plan"
)

// ahead is the batch's side of a scheduler that plans. A search runs beside the batch. Until it has
// ended, the plan before it is followed, and what happens meanwhile brings about the next search.
type ahead struct {
	tracker   *plan.Tracker
	cores     int
	settings  plan.Settings
	most      []int64 // that each job is expected to have at one time, in bytes; 0: nobody knows
	nice      []int   // of each job until it has a device; nil: priorities are left alone
	guesses   guesses
	open      []int         // jobs that were admitted and have not ended
	waits     map[int]*task // the first task of each of these that waits, if one does
	ended     time.Duration // sum of the turnarounds of the jobs that have ended
	searching bool
	stale     bool // something has happened since the search began
	first     bool // no search has ended
	more      bool // of the jobs that are given now, some have yet to come
	dropped   bool // too little is known of jobs that were given, so nothing is planned any more
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
	if _, all := c.expected(); all.tooFew() {
		return nil, fmt.Sprintf("nothing is known of %d of %d jobs, so they are not planned: each goes where it leaves the least memory free, the largest first", all.unknown, len(c.Jobs))
	}
	c = c.atStart()
	expected, guesses := c.expected()
	a = &ahead{cores: c.Cores, settings: p.Settings, first: true, most: c.most(), guesses: guesses, waits: map[int]*task{}}
	a.settings.Seed = c.Seed
	if c.Scheduler.Nice {
		a.nice = plan.Nice(c.begin(expected), expected, a.settings)
	}
	a.tracker = plan.NewTracker(expected, a.nice, c.Cores, len(c.Devices))
	return a, ""
}

// atStart is the batch without the jobs that arrive at times of their own: plans learn of them when they arrive.
func (c Config) atStart() Config {
	if i := slices.IndexFunc(c.Jobs, func(j mixes.Job) bool { return j.At > 0 }); i >= 0 {
		c.Jobs, c.Predictions = c.Jobs[:i], c.Predictions[:min(i, len(c.Predictions))]
	}
	return c
}

// most is what earlier runs say that each job has of a device's memory at most, and no more than it can have.
func (c Config) most() []int64 {
	out := make([]int64, len(c.Jobs))
	for i, p := range c.Predictions {
		if i < len(out) {
			out[i] = c.mostOf(p)
		}
	}
	return out
}

func (c Config) mostOf(p *schedulers.Prediction) int64 {
	if p == nil {
		return 0
	}
	largest := int64(0)
	for _, d := range c.Devices {
		largest = max(largest, d.CapacityBytes-d.ContextBytes)
	}
	return min(p.Bytes, largest)
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

// guesses says what to expect of jobs: what is known of them, and of unknown ones that they are like the mean of the others.
type guesses struct {
	sum            schedulers.Prediction // of the known ones
	known, unknown int
	random         *rand.Rand
	error          float64 // by which durations are falsified at most
}

// learn takes in what is known of a job.
func (g *guesses) learn(p *schedulers.Prediction) {
	if p == nil {
		g.unknown++
		return
	}
	g.known++
	sum := &g.sum
	sum.Before, sum.Held, sum.After, sum.Bytes = sum.Before+p.Before, sum.Held+p.Held, sum.After+p.After, sum.Bytes+p.Bytes
	sum.Kernels, sum.SMs = sum.Kernels+p.Kernels, sum.SMs+p.SMs
}

// tooFew reports whether too many jobs are unknown for a plan.
func (g *guesses) tooFew() bool { return float64(g.unknown) > mostUnknown*float64(g.known+g.unknown) }

// expect is what to expect of a job.
func (g *guesses) expect(p *schedulers.Prediction, job *mixes.Job) (e schedulers.Prediction) {
	switch {
	case p != nil:
		e = *p
	case g.known > 0:
		n := time.Duration(g.known)
		e = schedulers.Prediction{Before: g.sum.Before / n, Held: g.sum.Held / n, After: g.sum.After / n, Bytes: g.sum.Bytes / int64(n),
			Kernels: g.sum.Kernels / float64(n), SMs: g.sum.SMs / float64(n)}
	}
	if job.Footprint.Bytes > 0 && p == nil {
		e.Bytes = job.Footprint.Bytes
	}
	falsified := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * (1 + g.error*(2*g.random.Float64()-1)))
	}
	e.Before, e.Held, e.After = falsified(e.Before), falsified(e.Held), falsified(e.After)
	return e
}

// expected returns a prediction for each job.
func (c Config) expected() (all []schedulers.Prediction, g guesses) {
	g = guesses{random: rand.New(rand.NewPCG(c.Seed, 2)), error: c.Scheduler.Plans.Error}
	known := make([]*schedulers.Prediction, len(c.Jobs))
	if c.learns() {
		copy(known, c.Predictions)
	}
	for _, p := range known {
		g.learn(p)
	}
	all = make([]schedulers.Prediction, len(c.Jobs))
	for i, p := range known {
		all[i] = g.expect(p, &c.Jobs[i])
	}
	return all, g
}

// extend takes in a job that has arrived. why says that too little is known of the jobs so far.
func (a *ahead) extend(c Config, job *mixes.Job, expected *schedulers.Prediction, nice int) (why string) {
	p := expected
	if !c.learns() {
		p = nil
	}
	a.guesses.learn(p)
	a.tracker.Add(a.guesses.expect(p, job), nice)
	a.most = append(a.most, c.mostOf(expected))
	a.stale = true
	if a.guesses.tooFew() && !a.more {
		why = fmt.Sprintf("nothing is known of %d of %d jobs so far, so the plan is dropped: from here on Algorithm 3 places each task as it asks",
			a.guesses.unknown, a.guesses.unknown+a.guesses.known)
	}
	return why
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
		return standing{holds: b.whole(j.spec).Bytes, granted: true, device: *j.record.Device}
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
	if a.dropped {
		return
	}
	still := a.open[:0]
	for _, i := range a.open {
		has := b.standing(i)
		stage, id := b.stage(i, has), schedulers.JobID(i)
		if stage != plan.Ended {
			still = append(still, i)
		}
		if has.waits != a.waits[i] { // the plan has the job for one task
			a.waits[i], a.stale = has.waits, true
		}
		if stage == a.tracker.Stage(id) {
			continue
		}
		a.stale = true
		if stage == plan.Ended {
			a.ended += now - b.arrival(i)
		}
		a.tracker.Enter(id, stage, has.device, now)
	}
	a.open = still
	if a.stale && !a.searching && !a.more {
		b.plan(now)
	}
}

// replan asks for another plan, because a device has come or gone. A search under way does not know that.
func (b *Batch) replan() {
	if b.ahead != nil {
		b.ahead.stale = true
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
	case j.tasks == j.try.Tasks:
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
// they ask. It also leaves out those of several devices, which go beside the plan.
func (b *Batch) situation(now time.Duration) plan.Situation {
	a := b.ahead
	a.tracker.Advance(now)
	s := plan.Situation{Now: now, Cores: a.cores, Workers: b.config.Workers, Ended: a.ended, Current: b.engine.Plan(), First: a.first}
	view := b.engine.View()
	for i := range view.Len() {
		d, free := view.Device(i), view.Device(i).FreeBytes()
		for _, bytes := range b.engine.Unaccounted(i) { // until it is known whose end gives it back
			free += bytes
		}
		s.Devices = append(s.Devices, plan.Device{CapacityBytes: d.Limits().CapacityBytes, FreeBytes: free, ContextBytes: d.Limits().ContextBytes, Closed: d.Closed()})
	}
	for _, i := range a.open {
		p := a.tracker.Job(schedulers.JobID(i))
		if p.Stage == plan.Before && p.Patience <= 0 || b.spec(i).GPUs > 1 {
			continue
		}
		p.Arrived, p.Isolate = b.arrival(i), b.config.isolated(b.spec(i))
		p.Most = a.most[i]
		switch has := b.standing(i); p.Stage {
		case plan.Held:
			p.Bytes = max(has.holds, p.Most) + b.unaccountedOn(has.device, schedulers.JobID(i))
			s.Devices[has.device].FreeBytes -= p.Bytes - has.holds
		case plan.Waiting:
			p.Bytes = b.spec(i).Footprint.Bytes // of a job that asks as a whole
			if has.waits != nil {
				p.Bytes = max(has.waits.asked, p.Most)
				if d := has.waits.record.PinnedDevice; d != nil {
					p.Only = *d
				}
			}
		}
		s.Jobs = append(s.Jobs, p)
	}
	for _, i := range b.toAdmit(a.settings.Window) {
		if b.spec(i).GPUs > 1 {
			continue
		}
		p := a.tracker.Job(schedulers.JobID(i))
		p.Arrived, p.Isolate = b.arrival(i), b.config.isolated(b.spec(i))
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
	if a.dropped {
		return nil
	}
	b.carryOut(b.engine.Follow(e.Plan, now), now)
	return nil
}
