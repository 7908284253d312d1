package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
)

func newReport() *cobra.Command {
	var f filterFlags
	var verbose bool
	var baseline, page string
	c := &cobra.Command{
		Use:   "report [RUN|latest]...",
		Short: "List the stored runs, or show some of them again",
		Example: `  caserun report
  caserun report latest -v
  caserun report --mix W7 --format csv
  caserun report 12 --slowdown 11
  caserun report --sweep latest --html report.html`,
		RunE: func(c *cobra.Command, args []string) error { return runReport(c, args, f, verbose, baseline, page) },
	}
	f.addTo(c)
	addStoreFlags(c.Flags())
	addFormatFlag(c)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print devices, jobs, tasks, kernels and events of each run")
	c.Flags().StringVar(&baseline, "slowdown", "", "compare kernel times of traced runs with those of the traced `RUN`, which is to be one under sa")
	c.Flags().StringVar(&page, "html", "", "write the runs to `FILE` instead, as one page with timelines and a comparison of the schedulers; -: standard output")
	return c
}

func runReport(c *cobra.Command, args []string, f filterFlags, verbose bool, baseline, page string) (err error) {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	for _, other := range []string{"slowdown", "verbose", "format"} {
		if page != "" && c.Flags().Changed(other) {
			return usageError(fmt.Errorf("--html does not go with --%s, which is for tables: leave one of them out", other))
		}
	}
	db, done, err := openForReading(c.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	ctx := c.Context()
	if err := f.settle(ctx, db); err != nil {
		return err
	}
	selected, err := f.filter(ctx, db, args)
	if err != nil {
		return err
	}
	if page != "" {
		return reportHTML(c, db, args, selected, page)
	}
	if len(args) == 0 && baseline != "" {
		return usageError(errors.New("--slowdown: which run? name it, as in caserun report latest --slowdown " + baseline))
	}
	if len(args) == 0 {
		runs, err := db.Runs(ctx, selected)
		if err != nil {
			return infrastructureError(err)
		}
		if len(runs) == 0 && f.narrow() {
			return nothingMatches("report", settings)
		}
		return render(c, settings.Format, report.RunList(runs))
	}
	var tables []*report.Table
	for _, arg := range args {
		run, err := findRun(ctx, db, arg, selected)
		if err != nil {
			return err
		}
		more, err := runTables(ctx, db, run, verbose)
		if err != nil {
			return infrastructureError(err)
		}
		tables = append(tables, more...)
		if baseline != "" {
			if more, err = slowdownTables(ctx, db, run, baseline); err != nil {
				return err
			}
			tables = append(tables, more...)
		}
	}
	return render(c, settings.Format, tables...)
}

// addTo adds the flags, which are no settings even where they have a setting's name,
// and their completions.
func (f *filterFlags) addTo(c *cobra.Command) {
	f.add(c)
	for _, name := range []string{"sched", "node", "tag"} {
		_ = c.Flags().SetAnnotation(name, noSetting, []string{})
	}
	_ = c.RegisterFlagCompletionFunc("sched", completeSchedulers)
	_ = c.RegisterFlagCompletionFunc("sweep", fromStore(offerSweeps))
	_ = c.RegisterFlagCompletionFunc("tag", fromStore(offerTags))
}

// settle makes a catalog mix's name in any case the one that the store has. A mix of
// the user's own of that name goes first.
func (f *filterFlags) settle(ctx context.Context, db *store.Store) error {
	if name, _, more := strings.Cut(f.sched, ":"); more {
		return usageError(fmt.Errorf("--sched %s: want a scheduler's name alone, such as %s: only caserun compare and regress select by parameters", f.sched, name))
	}
	own, err := db.Modes(ctx, store.Filter{Mix: f.mix, Warmups: true})
	if m, unknown := mixes.Lookup(f.mix); unknown == nil && len(own) == 0 {
		f.mix = m.Name
	}
	return infrastructureError(err)
}

// findRun finds the run of a number, which the filter must select too (warm-ups or
// not), or the latest of those that it selects.
func findRun(ctx context.Context, db *store.Store, arg string, f store.Filter) (results.Run, error) {
	if arg == "latest" {
		run, err := db.Latest(ctx, f)
		return run, notFound(err)
	}
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return results.Run{}, usageError(fmt.Errorf("run %q: want a run's number from caserun report, or latest", arg))
	}
	run, err := db.Run(ctx, id)
	if err != nil {
		return run, notFound(err)
	}
	f.IDs, f.Warmups = []int64{id}, true
	selected, err := db.Modes(ctx, f)
	if err == nil && len(selected) == 0 {
		return run, usageError(fmt.Errorf("run %d (%s) is not among those that the flags select", id, results.ArmOf(run)))
	}
	return run, infrastructureError(err)
}

func runTables(ctx context.Context, db *store.Store, run results.Run, verbose bool) ([]*report.Table, error) {
	jobs, err := db.Jobs(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	devices, err := db.Devices(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	tables := []*report.Table{report.RunSummary(run, jobs, devices, db.Path())}
	if !verbose {
		return tables, nil
	}
	tasks, err := db.Tasks(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	events, err := db.Events(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	kernels, err := db.Kernels(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	return append(tables, report.DeviceTable(run, devices), report.JobTable(run, jobs),
		report.TaskTable(run, tasks), report.KernelTable(run, kernels), report.EventTable(run, events)), nil
}

// slowdownTables compares a run's kernels with those of the baseline that arg
// names.
func slowdownTables(ctx context.Context, db *store.Store, run results.Run, arg string) ([]*report.Table, error) {
	base, err := findRun(ctx, db, arg, store.Filter{})
	if err != nil {
		return nil, err
	}
	var sides [2]results.Traced
	for i, r := range []results.Run{run, base} {
		if !r.Traced {
			return nil, usageError(fmt.Errorf("--slowdown: run %d was not traced: run the mix again with caserun mix --trace", r.ID))
		}
		jobs, err := db.Jobs(ctx, r.ID)
		if err != nil {
			return nil, infrastructureError(err)
		}
		kernels, err := db.Kernels(ctx, r.ID)
		if err != nil {
			return nil, infrastructureError(err)
		}
		sides[i] = results.Traced{Jobs: jobs, Kernels: kernels}
	}
	return report.SlowdownTables(run, base, results.KernelSlowdown(sides[0], sides[1])), nil
}
