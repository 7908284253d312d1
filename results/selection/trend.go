package selection

import (
	"context"
	"errors"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/results/trend"
)

// Trend follows a metric over the selected runs.
func Trend(ctx context.Context, db *store.Store, metric string, selected store.Filter) (trend.Trend, error) {
	m, err := regress.LookupMetric(metric)
	if err != nil {
		return trend.Trend{}, err
	}
	runs, err := Observations(ctx, db, selected)
	if err != nil {
		return trend.Trend{}, err
	}
	sweeps, err := db.Sweeps(ctx)
	if err != nil {
		return trend.Trend{}, err
	}
	t := trend.Of(m, runs).WithMissing(slices.DeleteFunc(sweeps, func(w results.Sweep) bool {
		other := selected.Sweep != 0 && w.ID != selected.Sweep || selected.Tag != "" && w.Tag != selected.Tag
		return other || store.Standing(w) == results.Running
	}))
	notes, err := LeftOut(ctx, db, selected)
	if err != nil {
		return t, err
	}
	t.Notes = append(t.Notes, notes...)
	if len(t.Lines) == 0 {
		return t, Nothing("--trend %s: no complete run in %s has a value of it%s", metric, db.Path(), m.Needs)
	}
	return t, nil
}

// Explain says since when the checks of a gate fail that do, by the trend of the whole store.
func Explain(ctx context.Context, db *store.Store, r *regress.Report, baseline, candidate regress.Side) error {
	if r.Failed() == 0 {
		return nil
	}
	runs, err := Observations(ctx, db, store.Filter{})
	if err != nil {
		return err
	}
	trend.Explain(r, baseline, candidate, runs)
	return nil
}

// PageTrend is the trend that a page shows: of the metric that is asked for, or of the headline if
// a line has enough points to be a line. A page of named runs has none.
func PageTrend(ctx context.Context, db *store.Store, metric string, named bool, selected store.Filter) (*trend.Trend, error) {
	const fewest = 3
	if metric != "" {
		t, err := Trend(ctx, db, metric, selected)
		return &t, err
	}
	if named {
		return nil, nil
	}
	t, err := Trend(ctx, db, results.Headline(false).Name, selected)
	if err == nil && !slices.ContainsFunc(t.Lines, func(l trend.Line) bool { return !l.Arm.Open }) {
		t, err = Trend(ctx, db, results.Headline(true).Name, selected)
	}
	var nothing *NothingError
	switch {
	case errors.As(err, &nothing):
		return nil, nil
	case err != nil:
		return nil, err
	case !slices.ContainsFunc(t.Lines, func(l trend.Line) bool { return len(l.Points) >= fewest }):
		return nil, nil
	}
	return &t, nil
}

// SlowdownTables compares a run's kernels with those of the baseline that arg names.
func SlowdownTables(ctx context.Context, db *store.Store, run results.Run, arg string) ([]*report.Table, error) {
	base, err := Run(ctx, db, arg, store.Filter{})
	if err != nil {
		return nil, err
	}
	var both [2]results.Traced
	for i, r := range []results.Run{run, base} {
		if !r.Traced {
			return nil, Refuse("--slowdown: run %d was not traced: run the mix again with caserun mix --trace", r.ID)
		}
		if both[i], err = traced(ctx, db, r.ID); err != nil {
			return nil, err
		}
	}
	return report.SlowdownTables(run, base, results.KernelSlowdown(both[0], both[1])), nil
}
