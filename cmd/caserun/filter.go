package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results/store"
)

// filterFlags select runs of a store.
type filterFlags struct {
	mix, sched, node, sweep, tag string
	last                         int
	warmups                      bool
}

func (f *filterFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.mix, "mix", "", "only runs of this `MIX`")
	c.Flags().StringVar(&f.sched, "sched", "", "only runs under this `SCHEDULER`")
	c.Flags().StringVar(&f.node, "node", "", "only runs on this `NODE`")
	c.Flags().StringVar(&f.sweep, "sweep", "", "only runs of this `SWEEP`: its number, or latest")
	c.Flags().StringVar(&f.tag, "tag", "", "only runs with this `TAG`")
	c.Flags().IntVar(&f.last, "last", 0, "only the last `N` of those")
	c.Flags().BoolVar(&f.warmups, "warmups", false, "also the warm-up runs of sweeps, which are no measurements")
	_ = c.RegisterFlagCompletionFunc("mix", completeMixes)
}

// filter selects the runs that the flags describe; args are the runs that are named
// beside them.
func (f *filterFlags) filter(ctx context.Context, db *store.Store, args []string) (store.Filter, error) {
	out := store.Filter{Mix: f.mix, Scheduler: f.sched, Node: f.node, Tag: f.tag, Last: f.last, Warmups: f.warmups}
	if f.last < 0 {
		return out, usageError(fmt.Errorf("--last %d: want 0 or more", f.last))
	}
	if f.last > 0 && len(args) > 0 {
		return out, usageError(fmt.Errorf("--last %d is for a list of runs: leave it out where runs are named", f.last))
	}
	switch f.sweep {
	case "":
	case "latest":
		sweep, err := db.LatestSweep(ctx)
		if err != nil {
			return out, notFound(err)
		}
		out.Sweep = sweep.ID
	default:
		id, err := strconv.ParseInt(f.sweep, 10, 64)
		if err != nil {
			return out, usageError(fmt.Errorf("--sweep %q: want a sweep's number, or latest", f.sweep))
		}
		if _, err := db.Sweep(ctx, id); err != nil {
			return out, notFound(err)
		}
		out.Sweep = id
	}
	return out, nil
}

// narrow reports whether the flags select some runs only, however many there are.
func (f *filterFlags) narrow() bool {
	return f.mix != "" || f.sched != "" || f.node != "" || f.sweep != "" || f.tag != ""
}

// nothingMatches is the error of a command whose flags select no run.
func nothingMatches(command string, settings config) error {
	return withStatus(exitNothing, fmt.Errorf("%s: no runs match in %s; caserun report%s lists what there is", command, settings.DB, settings.storeFlag()))
}

// chosen narrows the flags' selection to the runs that arguments name, if any, as
// findRun does.
func (f *filterFlags) chosen(ctx context.Context, db *store.Store, args []string) (store.Filter, error) {
	selected, err := f.filter(ctx, db, args)
	if err != nil {
		return selected, err
	}
	var ids []int64
	for _, arg := range args {
		run, err := findRun(ctx, db, arg, selected)
		if err != nil {
			return selected, err
		}
		ids = append(ids, run.ID)
		selected.Warmups = selected.Warmups || run.Warmup // it was asked for by number
	}
	slices.Sort(ids)
	selected.IDs = slices.Compact(ids)
	return selected, nil
}

// notFound is a mistake of the user's where the error says that a run or a sweep
// does not exist.
func notFound(err error) error {
	if errors.Is(err, store.ErrNoRun) || errors.Is(err, store.ErrNoSweep) {
		return usageError(err)
	}
	return infrastructureError(err)
}
