package live

import (
	"context"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
)

// job is what an Executor starts.
type job struct {
	spec         *mixes.Job
	program, dir string // absolute
	check        mixes.Check
	span         *runner.Span // of its ranks, if others are on other nodes; nil: it is whole
}

// several reports whether each of its processes is known by its rank.
func (j job) several() bool { return j.spec.Processes() > 1 || j.span != nil }

// job is a job of the mix, or one that was given.
func (x *Executor) job(i int) job {
	if n := len(x.config.Jobs); i >= n {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.given[i-n]
	}
	return job{&x.config.Jobs[i], x.config.Programs[i], x.config.Dirs[i], x.config.Checks[i], nil}
}

// takeJobs gives the batch what the feed has, until no more comes or the batch has ended.
func (x *Executor) takeJobs(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	x.clean.Go(func() {
		select {
		case <-x.loop.Done():
			stop()
		case <-ctx.Done():
		}
	})
	for {
		t, more := x.config.Feed.Next(ctx)
		if !more {
			break
		}
		t.Answer(x.give(t))
	}
	if ctx.Err() == nil {
		x.post(runner.NoMore{})
	}
}

// give gives the batch a job, and returns its index, or an event.
func (x *Executor) give(t harness.Taken) (int, error) {
	if t.Event != nil {
		return 0, x.loop.TryPost(x.now(), t.Event)
	}
	j, err := x.config.Admit(&t)
	if err != nil {
		return 0, err
	}
	x.mu.Lock()
	i, given := len(x.procs), len(x.given)
	x.given, x.procs, x.bound = append(x.given, j), append(x.procs, nil), append(x.bound, nil) // before the batch starts it
	x.mu.Unlock()
	if err := x.loop.TryPost(x.now(), t.Given); err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.given, x.procs, x.bound = x.given[:given], x.procs[:i], x.bound[:i]
		return 0, err
	}
	return i, nil
}

// admit finds what a given job needs, as Open does for the jobs of the mix, and notes what the run's record must say of it.
func (n *node) admit(t *harness.Taken) (job, error) {
	m := mixes.Mix{Name: n.Mix.Name, Source: n.Mix.Source, Jobs: []mixes.Job{t.Job}}
	programs, dirs, err := Resolve(n.Options, n.Probe, m)
	if err != nil {
		return job{}, err
	}
	jobs, notes, err := n.bound(m, programs)
	if err != nil {
		return job{}, err
	}
	for _, note := range notes {
		n.Say("given job %s: %s", t.Job.Name, note.Detail)
	}
	if err := n.hash(programs...); err != nil {
		return job{}, err
	}
	t.Job, t.Notes = jobs[0], notes
	return job{&t.Job, programs[0], dirs[0], suites.Checks(n.Suite, jobs)[0], t.Span}, nil
}
