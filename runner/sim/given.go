package sim

import (
	"context"
	"errors"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
)

// job is what the mix says of a job, or who gave it.
func (x *Executor) job(i int) *mixes.Job {
	if n := len(x.config.Jobs); i >= n {
		return x.given[i-n]
	}
	return &x.config.Jobs[i]
}

// takeNext waits for what the feed has next, and has it given when its time has come. Virtual time stands still meanwhile, so
// a run does not depend on when jobs are sent.
func (x *Executor) takeNext(ctx context.Context) {
	if x.config.Feed == nil {
		return
	}
	t, more := x.config.Feed.Next(ctx)
	switch {
	case more:
		x.coming = &t
		x.at(t.At, func() {
			x.coming = nil
			t.Answer(x.give(t, &t.Job))
			x.takeNext(ctx)
		})
	case ctx.Err() == nil:
		x.loop.Post(x.now, runner.NoMore{})
	}
}

// give gives the batch a job, and returns its index, or an event. Of a job on several nodes the batch gets a part.
func (x *Executor) give(t harness.Taken, whole *mixes.Job) (int, error) {
	if t.Event != nil {
		return 0, x.loop.TryPost(x.now, t.Event)
	}
	x.config.Profiles = t.Profiles
	kind, _, err := x.placeOf(whole, nil)
	if err != nil {
		return 0, err
	}
	i, given := len(x.kindOf), len(x.given)
	x.kindOf, x.given = append(x.kindOf, kind), append(x.given, whole) // before the batch starts it
	if err := x.loop.TryPost(x.now, t.Given); err != nil {
		x.kindOf, x.given = x.kindOf[:i], x.given[:given]
		return 0, err
	}
	return i, nil
}

// leaveNext answers what has not come when the batch ends.
func (x *Executor) leaveNext() {
	if x.coming != nil {
		x.coming.Answer(0, errors.New("the batch has ended before its time"))
	}
}
