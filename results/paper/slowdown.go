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
	alone []int64               // the runs that are in the pool; nil: not read yet
	pool  results.Traced
}

// slowdown gives the kernel slowdown of a mix, against traced runs of the mix under sa, repetition by repetition. A mix without
// such runs is compared with all traced runs under sa: each of their jobs had a device to itself.
func (a *arms) slowdown(mix, scheduler string) (out samples, err error) {
	key := [2]string{mix, scheduler}
	if known, ok := a.slow.mixes[key]; ok {
		return known, nil
	}
	runs, err := a.find(mix, scheduler, true)
	if err != nil {
		return out, fmt.Errorf("traced: %w", err)
	}
	base, err := a.find(mix, "sa", true)
	pairs := matched(runs, base)
	pooled := errors.As(err, new(noRuns))
	switch {
	case pooled:
		if err := a.readAlone(noRuns{mix, "sa"}); err != nil {
			return out, err
		}
		for _, r := range runs {
			pairs = append(pairs, [2]results.Run{r})
		}
		out.runs = slices.Clone(a.slow.alone)
	case err != nil:
		return out, fmt.Errorf("traced: %w", err)
	case len(pairs) == 0:
		return out, fmt.Errorf("no repetition of %s has both traced %s and traced sa", mix, scheduler)
	}
	for _, pair := range pairs {
		baseline, against := a.slow.pool, "the traced runs under sa"
		if !pooled {
			if baseline, err = a.node.Trace(pair[1].ID); err != nil {
				return out, fatal{err}
			}
			out.runs, against = append(out.runs, pair[1].ID), fmt.Sprintf("run %d under sa", pair[1].ID)
		}
		own, err := a.node.Trace(pair[0].ID)
		if err != nil {
			return out, fatal{err}
		}
		slower := results.KernelSlowdown(own, baseline)
		lacks := slices.IndexFunc(slower.Jobs, func(j results.JobSlowdown) bool { return j.Why == results.NotInBaseline })
		switch {
		case pooled && lacks >= 0:
			return out, fmt.Errorf("traced: %w, and no run under sa has its %s", noRuns{mix, "sa"}, slower.Jobs[lacks].Name)
		case slower.Mean == nil:
			return out, fmt.Errorf("run %d of %s has no kernels in common with %s", pair[0].ID, mix, against)
		}
		out.add(*slower.Mean, pair[0].ID)
	}
	a.slow.mixes[key] = out
	return out, nil
}

// readAlone reads the traced runs of all mixes under sa into the pool. If there are none, the error is none.
func (a *arms) readAlone(none error) error {
	if a.slow.alone != nil {
		return nil
	}
	var alone []results.Run
	mixes := map[string]bool{}
	for key := range a.runs {
		mixes[key.Mix] = true
	}
	for _, mix := range slices.Sorted(maps.Keys(mixes)) {
		runs, err := a.find(mix, "sa", true)
		if err != nil && !errors.As(err, new(noRuns)) {
			return fmt.Errorf("traced: %w", err)
		}
		alone = append(alone, runs...)
	}
	if len(alone) == 0 {
		return fmt.Errorf("traced: %w", none)
	}
	for _, r := range alone {
		more, err := a.node.Trace(r.ID)
		if err != nil {
			return fatal{err}
		}
		a.slow.pool.Pool(more)
		a.slow.alone = append(a.slow.alone, r.ID)
	}
	return nil
}
