package nodes

import (
	"context"
	"errors"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
)

// Used are the footprints that the jobs of a live run of the mix had, by command; nil if the latest is asked for and there
// is none. named is a run, or latest.
func Used(ctx context.Context, db *store.Store, mix mixes.Mix, named string, say harness.Say) (map[string]mixes.Footprint, error) {
	selected := store.Filter{}
	if named == selection.Latest {
		selected = store.Filter{Mix: mix.Name, Mode: results.Live}
	}
	run, err := selection.Run(ctx, db, named, selected)
	if named == selection.Latest && errors.Is(err, store.ErrNoRun) {
		return nil, nil // nothing is known
	}
	if err != nil {
		return nil, err
	}
	if run.Mode != results.Live {
		return nil, selection.Refuse("run %d is simulated, and measured nothing: name another", run.ID)
	}
	jobs, err := db.Jobs(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	tasks, err := db.Tasks(ctx, run.ID)
	say("footprints come from run %d (%s)", run.ID, results.ArmOf(run))
	used := profiles.Used(jobs, tasks)
	for _, j := range mix.Jobs {
		if j.Ranks > 1 {
			delete(used, j.Command()) // it is what all ranks used together
		}
	}
	return used, err
}
