package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/schedulers/policies"
)

// knownProfiles are the catalog's and those of --profiles.
func (c config) knownProfiles(ctx context.Context) (profiles.Set, error) {
	known := profiles.Catalog()
	if c.Profiles == "" {
		return known, nil
	}
	more, err := profiles.Load(ctx, c.Profiles)
	return known.With(more), usageError(err)
}

// bind settles how the jobs of a live run get their devices, and returns what
// the run's record must say about it.
func (r *request) bind(s policies.Scheduler, programs []string, warn func(string, ...any)) ([]results.Event, error) {
	var notes []results.Event
	if s.Binds == policies.BindsTask {
		jobs, declared, err := live.BindPrograms(r.mix.Jobs, programs)
		if err != nil {
			return nil, usageError(toMeasure(err, r.config, r.mix))
		}
		r.mix.Jobs = jobs
		for _, d := range declared {
			notes = append(notes, results.Event{Kind: results.EventDeclared, Job: &d.Job, Detail: d.Why})
		}
	}
	for i, j := range r.mix.Jobs {
		if j.Pin && (s.Binds == policies.BindsJob || j.Binding == mixes.BindDeclared) {
			notes = append(notes, results.Event{Kind: results.EventPinIgnored, Job: &i,
				Detail: "pin: true has no effect: the whole job is bound, and it sees that device only"})
		}
	}
	r.tell(notes, warn)
	return notes, nil
}

// tell warns of each thing once, with the jobs that it concerns.
func (r *request) tell(notes []results.Event, warn func(string, ...any)) {
	const shown = 4
	var order []string
	jobs := map[string][]string{}
	for _, e := range notes {
		if _, seen := jobs[e.Detail]; !seen {
			order = append(order, e.Detail)
		}
		jobs[e.Detail] = append(jobs[e.Detail], fmt.Sprintf("%d (%s)", *e.Job, r.mix.Jobs[*e.Job].Name))
	}
	for _, detail := range order {
		names := jobs[detail]
		more := ""
		if len(names) > shown {
			more = fmt.Sprintf(" and %d more", len(names)-shown)
		}
		warn("job %s%s: %s", strings.Join(names[:min(shown, len(names))], ", "), more, detail)
	}
}
