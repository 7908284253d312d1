package paper

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caserun/caserun/results"
)

// slowdowns compares the kernels of traced runs with those of jobs alone on a device. Traces are large: what was computed
// of them is kept, and so is the pool, whose kernels all mixes may need.
type slowdowns struct {
	mixes map[[2]string]samples // by mix and scheduler
	alone []results.Run         // the runs that are in the pool; nil: not read yet
	pool  results.Traced
}

// slowdown gives the kernel slowdown of a mix.
func (a *arms) slowdown(mix, scheduler string) (samples, error) {
	key := [2]string{mix, scheduler}
	if known, ok := a.slow.mixes[key]; ok {
		return known, nil
	}
	found, err := a.slowdownOf(mix, scheduler)
	if err == nil {
		a.slow.mixes[key] = found
	}
	return found, err
}

// slowdownOf compares with traced runs of the mix under sa, repetition by repetition. A mix without such runs is compared
// with all traced runs under sa: each of their jobs had a device to itself.
func (a *arms) slowdownOf(mix, scheduler string) (samples, error) {
	runs, err := a.find(mix, scheduler, true)
	if err != nil {
		return samples{}, fmt.Errorf("traced: %w", err)
	}
	base, err := a.find(mix, "sa", true)
	if errors.As(err, new(noRuns)) {
		return a.slowerThanAlone(mix, runs)
	}
	if err != nil {
		return samples{}, fmt.Errorf("traced: %w", err)
	}
	var out samples
	for _, pair := range matched(runs, base) {
		baseline, err := a.node.Trace(pair[1].ID)
		if err != nil {
			return samples{}, fatal{err}
		}
		slower, err := a.slowerThan(pair[0].ID, baseline)
		if err != nil {
			return samples{}, err
		}
		if slower.Mean == nil {
			return samples{}, fmt.Errorf("runs %d and %d of %s have no kernels in common", pair[0].ID, pair[1].ID, mix)
		}
		out.add(*slower.Mean, pair[0].ID, pair[1].ID)
	}
	if len(out.values) == 0 {
		return samples{}, fmt.Errorf("no repetition of %s has both traced %s and traced sa", mix, scheduler)
	}
	return out, nil
}

// slowerThanAlone compares traced runs of a mix with all traced runs under sa, which need to have all jobs of the mix.
func (a *arms) slowerThanAlone(mix string, runs []results.Run) (samples, error) {
	if err := a.readAlone(); err != nil {
		return samples{}, err
	}
	if len(a.slow.alone) == 0 {
		return samples{}, fmt.Errorf("traced: %w", noRuns{mix, "sa"})
	}
	var out samples
	for _, r := range runs {
		slower, err := a.slowerThan(r.ID, a.slow.pool)
		if err != nil {
			return samples{}, err
		}
		if i := slices.IndexFunc(slower.Jobs, func(j results.JobSlowdown) bool { return j.Why == results.NotInBaseline }); i >= 0 {
			return samples{}, fmt.Errorf("traced: %w, and no run under sa has its %s", noRuns{mix, "sa"}, slower.Jobs[i].Name)
		}
		if slower.Mean == nil {
			return samples{}, fmt.Errorf("run %d of %s has no kernels in common with the traced runs under sa", r.ID, mix)
		}
		out.add(*slower.Mean, r.ID)
	}
	for _, r := range a.slow.alone {
		out.runs = append(out.runs, r.ID)
	}
	return out, nil
}

// readAlone reads the traced runs of all mixes under sa into the pool.
func (a *arms) readAlone() error {
	if a.slow.alone != nil {
		return nil
	}
	mixes := map[string]bool{}
	for key := range a.runs {
		mixes[key.Mix] = true
	}
	alone := []results.Run{}
	for _, mix := range slices.Sorted(maps.Keys(mixes)) {
		runs, err := a.find(mix, "sa", true)
		if err != nil && !errors.As(err, new(noRuns)) {
			return fmt.Errorf("traced: %w", err)
		}
		alone = append(alone, runs...)
	}
	for _, r := range alone {
		more, err := a.node.Trace(r.ID)
		if err != nil {
			return fatal{err}
		}
		a.slow.pool.Pool(more)
	}
	a.slow.alone = alone
	return nil
}

// slowerThan compares a traced run with a baseline.
func (a *arms) slowerThan(run int64, baseline results.Traced) (results.Slowdown, error) {
	candidate, err := a.node.Trace(run)
	if err != nil {
		return results.Slowdown{}, fatal{err}
	}
	return results.KernelSlowdown(candidate, baseline), nil
}
