package selection

import (
	"context"
	"fmt"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers/policies"
)

// observe reads the selected runs with what their comparison needs. If scheduler is not empty,
// it takes only the runs under that scheduler, or of the arm of that name.
func observe(ctx context.Context, db *store.Store, side regress.Side, f store.Filter, scheduler string) (regress.Side, error) {
	if f.Sweep == 0 && f.Tag == "" && len(f.IDs) == 0 {
		return side, sideError(side.Label)
	}
	side.Scheduler = scheduler
	runs, err := Observations(ctx, db, f)
	if err != nil {
		return side, err
	}
	notes, err := LeftOut(ctx, db, f)
	for _, note := range notes {
		side.Notes = append(side.Notes, side.Label+": "+note)
	}
	if scheduler == "" {
		side.Runs = runs
		return side, err
	}
	under := results.NamesOf(regress.Rows(runs)).Under(scheduler, policies.Omitted)
	for _, o := range runs {
		if under(results.ArmOf(o.Run)) {
			side.Runs = append(side.Runs, o)
		}
	}
	return side, err
}

// LeftOut says how many runs a filter leaves out that a user has excluded; nil if it leaves out none.
func LeftOut(ctx context.Context, db *store.Store, f store.Filter) (notes []string, err error) {
	excluded, err := db.Excluded(ctx, f)
	if excluded > 0 {
		notes = []string{results.SaysExcluded(excluded)}
	}
	return notes, err
}

// Observations reads the selected runs, oldest first, with what comparing them needs.
func Observations(ctx context.Context, db *store.Store, f store.Filter) ([]regress.Observation, error) {
	runs, err := db.RunsWithJobs(ctx, f)
	if err != nil {
		return nil, err
	}
	devices, err := db.DevicesOf(ctx, f)
	if err != nil {
		return nil, err
	}
	commands, err := db.CommandsOf(ctx, f)
	if err != nil {
		return nil, err
	}
	slowdowns, err := kernelSlowdowns(ctx, db, runs)
	if err != nil {
		return nil, err
	}
	planned, err := plannedMixes(ctx, db)
	if err != nil {
		return nil, err
	}
	var out []regress.Observation
	for _, r := range runs {
		r.Metrics.Slowdown = slowdowns[r.ID]
		o := regress.Observation{Run: r, Devices: devices[r.ID], Commands: commands[r.ID]}
		if r.Sweep != nil {
			o.Definition, o.PlannedBy = planned(*r.Sweep, r.Mix)
		}
		out = append(out, o)
	}
	return out, nil
}

// plannedMixes returns a function that says how a sweep's plan defines a mix's jobs, as a digest,
// and which build made the plan. Both are empty if the plan cannot be read or lacks the mix.
func plannedMixes(ctx context.Context, db *store.Store) (func(sweep int64, mix string) (definition, plannedBy string), error) {
	sweeps, err := db.Sweeps(ctx)
	if err != nil {
		return nil, err
	}
	specs := map[int64]results.Spec{}
	for _, w := range sweeps {
		if spec, unreadable := results.ReadSpec(w); unreadable == nil {
			specs[w.ID] = spec
		}
	}
	return func(sweep int64, mix string) (string, string) {
		spec := specs[sweep]
		for _, m := range spec.Mixes {
			if m.Name == mix && m.Jobs != "" {
				return fmt.Sprintf("sha256 %.12s", m.Jobs), spec.Program.Revision
			}
		}
		return "", ""
	}, nil
}

// kernelSlowdowns gives the kernel slowdown of each traced run against the pooled runs of the
// same batch and probe under sa.
func kernelSlowdowns(ctx context.Context, db *store.Store, runs []results.Run) (map[int64]*float64, error) {
	of := func(r results.Run) results.Arm { return results.ArmOf(r).Alone() }
	usable := func(r results.Run) bool { return r.Traced && r.Status == results.Complete }
	alone := map[results.Arm]*results.Traced{}
	for _, r := range runs {
		if !usable(r) || r.Scheduler != "sa" {
			continue
		}
		more, err := traced(ctx, db, r.ID)
		if err != nil {
			return nil, err
		}
		if alone[of(r)] == nil {
			alone[of(r)] = &results.Traced{}
		}
		alone[of(r)].Pool(more)
	}
	out := map[int64]*float64{}
	for _, r := range runs {
		base, ok := alone[of(r)]
		if !ok || !usable(r) || r.Scheduler == "sa" {
			continue
		}
		own, err := traced(ctx, db, r.ID)
		if err != nil {
			return nil, err
		}
		out[r.ID] = results.KernelSlowdown(own, *base).Mean
	}
	return out, nil
}

// traced reads the jobs and kernels of a run.
func traced(ctx context.Context, db *store.Store, run int64) (results.Traced, error) {
	jobs, err := db.Jobs(ctx, run)
	if err != nil {
		return results.Traced{}, err
	}
	t := results.Traced{Jobs: jobs}
	err = db.EachLaunch(ctx, run, func(l results.Launch) error {
		t.Add(l)
		return nil
	})
	return t, err
}
