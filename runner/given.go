package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// given is a job that a batch got while it ran.
type given struct {
	spec        *mixes.Job
	arrived     time.Duration
	faultsAlone string
	expected    *schedulers.Prediction // nil: nothing is known of it
	span        *Span                  // nil: it is whole
}

// spec is what the mix says of a job, or who gave it.
func (b *Batch) spec(i int) *mixes.Job {
	if n := len(b.config.Jobs); i >= n {
		return b.given[i-n].spec
	}
	return &b.config.Jobs[i]
}

// arrival is when a job arrives that is of the present group, or that was given. A job with a time of its own arrives then,
// however late the batch hears of it.
func (b *Batch) arrival(i int) time.Duration {
	if n := len(b.config.Jobs); i >= n {
		return b.given[i-n].arrived
	}
	return b.groupAt + b.config.Jobs[i].At
}

// faultsAlone says where a job has faulted without neighbours before.
func (b *Batch) faultsAlone(i int) string {
	if n := len(b.config.Jobs); i >= n {
		return b.given[i-n].faultsAlone
	}
	return b.config.FaultsAlone[i]
}

// span is the ranks of a job that is a part of one; nil: the job is whole.
func (b *Batch) span(i int) *Span {
	if n := len(b.config.Jobs); i >= n {
		return b.given[i-n].span
	}
	return nil
}

// prediction is what a job is expected to do; nil: nothing is known of it.
func (b *Batch) prediction(i int) *schedulers.Prediction {
	if n := len(b.config.Jobs); i >= n {
		return b.given[i-n].expected
	}
	if i < len(b.config.Predictions) {
		return b.config.Predictions[i]
	}
	return nil
}

// nextToAdmit is the job that is admitted next; false: all that have arrived were admitted. The present group of the mix
// comes before the jobs that were given during it, unless there is a backlog. The next group does not arrive before all of
// them have ended.
func (b *Batch) nextToAdmit() (job int, ok bool) {
	switch {
	case b.backlog != nil:
		return b.backlog.next()
	case b.next < b.arrived:
		return b.next, true
	case b.nextGiven < len(b.given):
		return len(b.config.Jobs) + b.nextGiven, true
	}
	return 0, false
}

// takeNext takes out the job that is admitted next.
func (b *Batch) takeNext() {
	switch {
	case b.backlog != nil:
		b.backlog.admit()
	case b.next < b.arrived:
		b.next++
	default:
		b.nextGiven++
	}
}

// toAdmit are the jobs that are admitted next, n at most.
func (b *Batch) toAdmit(n int) (jobs []int) {
	for i := b.next; i < b.arrived && len(jobs) < n; i++ {
		jobs = append(jobs, i)
	}
	for i := b.nextGiven; i < len(b.given) && len(jobs) < n; i++ {
		jobs = append(jobs, len(b.config.Jobs)+i)
	}
	return jobs
}

func (e Given) apply(b *Batch, now time.Duration) error {
	switch {
	case b.cancelled:
		return errors.New("the batch is cancelled and takes no more jobs")
	case !b.open:
		return errors.New("the batch takes no more jobs")
	}
	if err := b.config.check(&e.Job); err != nil {
		return fmt.Errorf("the job %w", err)
	}
	i := len(b.records)
	b.alone = false
	b.add(given{&e.Job, now, e.FaultsAlone, e.Expected, e.Span})
	b.wait(i)
	b.recordJob(&b.records[i])
	if len(b.given) == 1 {
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventGiven, Job: &i, Detail: "this job and those after it were given to the batch while it ran"})
	}
	for _, note := range e.Notes {
		note.AtS, note.Job = seconds(now), &i
		b.recordEvent(note)
	}
	b.noteShare(i, now)
	if b.ahead != nil {
		b.ahead.more = e.More
	}
	b.expectGiven(&e.Job, e.Expected, now)
	if !e.More {
		b.admit(now)
	}
	return nil
}

// add makes the records of one more job, which has arrived.
func (b *Batch) add(g given) {
	had := cap(b.records)
	r := b.said.record(len(b.records), g.spec)
	r.ArrivalS = new(seconds(g.arrived))
	b.records = append(b.records, r)
	b.jobs = append(b.jobs, nil)
	b.given = append(b.given, g)
	b.countOther(len(b.records)-1, 1)
	if cap(b.records) == had {
		return
	}
	for i, j := range b.jobs { // the records are elsewhere
		if j != nil {
			j.record = &b.records[i]
		}
	}
}

// expectGiven takes in what is expected of the job that was given last. The plan is dropped if too little is known.
func (b *Batch) expectGiven(spec *mixes.Job, p *schedulers.Prediction, now time.Duration) {
	if why := b.expectNext(spec, p); why != "" {
		b.ahead.dropped = true
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventUnplanned, Detail: why})
		b.carryOut(b.engine.Follow(schedulers.Plan{}, now), now)
	}
}

// expectNext takes in what is expected of the job that has arrived last. It was unknown until then. why says that too little
// is known of the jobs so far.
func (b *Batch) expectNext(spec *mixes.Job, p *schedulers.Prediction) (why string) {
	level := 0
	if b.nice != nil {
		level = b.levelOf(p)
		b.nice = append(b.nice, level)
	}
	if b.ahead == nil || b.ahead.dropped {
		return ""
	}
	return b.ahead.extend(b.config, spec, p, level)
}

func (OnlyCompanions) apply(b *Batch, _ time.Duration) error {
	b.alone = true
	b.endCompanions()
	return nil
}

func (NoMore) apply(b *Batch, now time.Duration) error {
	if !b.open {
		return errors.New("the batch takes no more jobs anyway")
	}
	b.open = false
	b.said = commands{}
	return nil
}
