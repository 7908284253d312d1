package selection

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers/policies"
)

// Latest is the name of the latest run or sweep.
const Latest = "latest"

// Filter narrows the runs of a store, as the flags of caserun report do.
type Filter struct {
	Mix, Sched, Node, Sweep, Tag string
	Last                         int
	Warmups, Excluded            bool
}

// Narrow reports whether the filter takes only some runs, however many there are.
func (f Filter) Narrow() bool {
	return f.Mix != "" || f.Sched != "" || f.Node != "" || f.Sweep != "" || f.Tag != ""
}

// Settle returns the filter for the store. args are the runs that are named in addition. The
// name of a catalog's mix matches in any case, unless the store has a mix of the user's own
// with exactly that name.
func (f Filter) Settle(ctx context.Context, db *store.Store, args []string) (store.Filter, error) {
	f.Mix, f.Tag = input.Name(f.Mix), input.Name(f.Tag)
	out := store.Filter{Mix: f.Mix, Scheduler: f.Sched, Node: f.Node, Tag: f.Tag, Last: f.Last, Warmups: f.Warmups, Excluded: f.Excluded}
	if name, _, more := strings.Cut(f.Sched, ":"); more {
		return out, Refuse("--sched %s: want the name of a scheduler or of an arm alone, such as %s: only caserun compare and regress select by parameters", f.Sched, name)
	}
	own, err := db.Modes(ctx, store.Filter{Mix: f.Mix, Warmups: true, Excluded: true})
	if err != nil {
		return out, err
	}
	if m, unknown := mixes.Lookup(f.Mix); unknown == nil && len(own) == 0 {
		out.Mix = m.Name
	}
	if f.Last > 0 && len(args) > 0 {
		return out, Refuse("--last %d is for a list of runs: leave it out where runs are named", f.Last)
	}
	switch f.Sweep {
	case "":
	case Latest:
		sweep, err := db.LatestSweep(ctx)
		if err != nil {
			return out, err
		}
		out.Sweep = sweep.ID
	default:
		id, err := input.Int64(f.Sweep)
		if err != nil {
			return out, Refuse("--sweep %q: want a sweep's number, or latest", f.Sweep)
		}
		if _, err := db.Sweep(ctx, id); err != nil {
			return out, err
		}
		out.Sweep = id
	}
	return out, nil
}

// Chosen narrows a filter to the runs that args name, if any, as Run does.
func Chosen(ctx context.Context, db *store.Store, selected store.Filter, args []string) (store.Filter, error) {
	runs, err := Named(ctx, db, args, selected)
	if err != nil {
		return selected, err
	}
	for _, run := range runs {
		selected.IDs = append(selected.IDs, run.ID)
		selected.Warmups = selected.Warmups || run.Warmup // the user named it
		selected.Excluded = selected.Excluded || run.Excluded
	}
	slices.Sort(selected.IDs)
	return selected, nil
}

// Named returns the runs that args name, each once, as Run finds them.
func Named(ctx context.Context, db *store.Store, args []string, selected store.Filter) ([]results.Run, error) {
	var runs []results.Run
	seen := map[int64]bool{}
	for _, arg := range args {
		run, err := Run(ctx, db, arg, selected)
		if err != nil {
			return nil, err
		}
		if !seen[run.ID] {
			seen[run.ID] = true
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// Run finds the run with a number, or the latest run that the filter takes. The filter must
// also take the numbered run, unless it is a warm-up or excluded.
func Run(ctx context.Context, db *store.Store, arg string, f store.Filter) (results.Run, error) {
	if arg == Latest {
		return db.Latest(ctx, f)
	}
	id, err := input.Int64(arg)
	if err != nil {
		return results.Run{}, Refuse("run %q: want a run's number from caserun report, or latest", arg)
	}
	run, err := db.Run(ctx, id)
	if err != nil {
		return run, err
	}
	f.IDs, f.Warmups, f.Excluded = []int64{id}, true, true
	selected, err := db.Modes(ctx, f)
	if err == nil && len(selected) == 0 {
		return run, Refuse("run %d (%s) is not among those that the flags select", id, results.ArmOf(run))
	}
	return run, err
}

// Sweep finds the sweep with a number, or the latest.
func Sweep(ctx context.Context, db *store.Store, arg string) (results.Sweep, error) {
	if arg == Latest {
		return db.LatestSweep(ctx)
	}
	id, err := input.Int64(arg)
	if err != nil {
		return results.Sweep{}, Refuse("sweep %q: want a sweep's number from caserun sweep list, or latest", arg)
	}
	return db.Sweep(ctx, id)
}

// Meant names what a filter may mean by a name that neither the program nor the store has.
func (f Filter) Meant(ctx context.Context, db *store.Store) string {
	names, _ := db.Names(ctx) // without them the program's remain
	for _, s := range policies.Listed() {
		names.Schedulers = append(names.Schedulers, s.Name)
	}
	names.Schedulers = append(names.Schedulers, names.Arms...)
	for _, m := range mixes.Catalog() {
		names.Mixes = append(names.Mixes, m.Name)
	}
	for _, asked := range [][2]string{{"--sched", f.Sched}, {"--mix", f.Mix}, {"--node", f.Node}, {"--tag", f.Tag}} {
		parameters := strings.Contains(asked[1], ":") // which have commas
		if !parameters && (strings.ContainsAny(asked[1], ",*") || strings.Contains(asked[1], "..")) {
			return fmt.Sprintf(": %s takes one value, not %q", asked[0], asked[1])
		}
	}
	name, _, _ := strings.Cut(f.Sched, ":")
	for _, asked := range []struct {
		flag, name string
		known      []string
	}{{"--sched ", name, names.Schedulers}, {"--mix ", f.Mix, names.Mixes}, {"--node ", f.Node, names.Nodes}, {"--tag ", f.Tag, names.Tags}} {
		if asked.name == "" || slices.Contains(asked.known, asked.name) {
			continue
		}
		slices.Sort(asked.known)
		if hint := near.DidYouMean(asked.flag, asked.name, slices.Compact(asked.known)); hint != "" {
			return ": " + hint
		}
	}
	return ""
}
