package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/html"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/results/trend"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile/output"
)

// reportOptions are what report is asked for.
type reportOptions struct {
	asked
	runs     []string
	filter   filterFlags
	verbose  bool
	baseline string // run
	page     string // file
	trend    string // metric
	base     string // scheduler, of the page
}

func newReport() *cobra.Command {
	var o reportOptions
	c := &cobra.Command{
		Use:   "report [RUN|latest]...",
		Short: "List the stored runs, or show some of them again",
		Example: `  caserun report
  caserun report latest -v
  caserun report --mix W7 --format csv
  caserun report 12 --slowdown 11
  caserun report --sweep latest -o report.html
  caserun report --trend throughput --mix W7`,
		ValidArgsFunction: others(fromStore(selection.OfferRuns)),
		RunE:              verb(onStore{&o}),
	}
	o.filter.addTo(c)
	config.AddStoreFlag(c.Flags())
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print every column and, of each run, all its records")
	addFormatFlag(c)
	c.Flags().StringVar(&o.baseline, "slowdown", "", "compare kernel times of traced runs with a traced `RUN`, which should be under sa")
	c.Flags().StringVar(&o.trend, "trend", "", "show a `METRIC` of each arm over time, night by night, and its steps: "+strings.Join(metricNames(), ", "))
	addBaseFlag(c, &o.base)
	c.Flags().StringVarP(&o.page, "html", "o", "", "write a page with timelines and comparisons to `FILE`; -: standard output")
	return c
}

func (o *reportOptions) settle(c *cobra.Command, args []string) error {
	o.runs = args
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	for _, other := range []string{"slowdown", "verbose", "format"} {
		if o.page != "" && c.Flags().Changed(other) {
			return fmt.Errorf("--html does not go with --%s, which is for tables: leave one of them out", other)
		}
	}
	if o.page == "" && o.base != "" {
		return errors.New("--base is for --html: for a table, caserun compare --base " + o.base)
	}
	if o.trend != "" {
		return o.checkTrend()
	}
	if len(o.runs) == 0 && o.page == "" && o.baseline != "" {
		return errors.New("--slowdown: which run? name it, as in caserun report latest --slowdown " + o.baseline)
	}
	return nil
}

// checkTrend refuses what a trend has no use for.
func (o *reportOptions) checkTrend() error {
	if _, err := regress.LookupMetric(o.trend); err != nil {
		return fmt.Errorf("--trend: %w", err)
	}
	switch {
	case o.baseline != "":
		return errors.New("--trend does not go with --slowdown RUN: for kernel slowdowns over time use --trend slowdown")
	case len(o.runs) > 0:
		return fmt.Errorf("--trend is of all runs over time: leave out %s, and select with --mix, --sched, --node or --last", strings.Join(o.runs, " "))
	}
	return nil
}

// trendOf follows a metric over the selected runs.
func trendOf(ctx context.Context, db *store.Store, metric string, selected store.Filter) (trend.Trend, error) {
	m, err := regress.LookupMetric(metric)
	if err != nil {
		return trend.Trend{}, err
	}
	runs, err := selection.Observations(ctx, db, selected)
	if err != nil {
		return trend.Trend{}, err
	}
	t := trend.Of(m, runs)
	if len(t.Lines) == 0 {
		return t, nothingError{fmt.Errorf("--trend %s: no complete run in %s has a value of it%s", metric, db.Path(), m.Needs)}
	}
	return t, nil
}

func (o *reportOptions) look(c *cobra.Command, db *store.Store) error {
	ctx := c.Context()
	selected, err := o.filter.Settle(ctx, db, o.runs)
	if err != nil {
		return err
	}
	if o.page != "" {
		return o.writePage(c, db, selected)
	}
	if o.trend != "" {
		t, err := trendOf(ctx, db, o.trend, selected)
		if err != nil {
			return err
		}
		return render(c, o.settings.Format, report.TrendTables(t, report.Format(o.settings.Format), o.verbose)...)
	}
	if len(o.runs) == 0 {
		runs, err := db.Runs(ctx, selected)
		if err != nil {
			return err
		}
		if len(runs) == 0 && o.filter.Narrow() {
			return nothingMatches(ctx, db, "report", o.settings, o.filter.Filter)
		}
		return render(c, o.settings.Format, report.RunList(runs))
	}
	var tables []*report.Table
	for _, arg := range o.runs {
		run, err := selection.Run(ctx, db, arg, selected)
		if err != nil {
			return err
		}
		more, err := runTables(ctx, db, run, o.verbose)
		if err != nil {
			return err
		}
		tables = append(tables, more...)
		if o.baseline != "" {
			if more, err = slowdownTables(ctx, db, run, o.baseline); err != nil {
				return err
			}
			tables = append(tables, more...)
		}
	}
	return render(c, o.settings.Format, tables...)
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
	swaps, err := db.Swaps(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	expected, err := db.Predictions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	tables = append(tables, report.DeviceTable(run, devices), report.JobTable(run, jobs), report.TaskTable(run, tasks))
	if len(expected) > 0 {
		tables = append(tables, report.PredictionTable(run, jobs, expected))
	}
	if len(swaps) > 0 {
		tables = append(tables, report.SwapTable(run, swaps))
	}
	return append(tables, report.KernelTable(run, kernels), report.EventTable(run, events)), nil
}

// slowdownTables compares a run's kernels with those of the baseline that arg names.
func slowdownTables(ctx context.Context, db *store.Store, run results.Run, arg string) ([]*report.Table, error) {
	base, err := selection.Run(ctx, db, arg, store.Filter{})
	if err != nil {
		return nil, err
	}
	var both [2]results.Traced
	for i, r := range []results.Run{run, base} {
		if !r.Traced {
			return nil, refuse("--slowdown: run %d was not traced: run the mix again with caserun mix --trace", r.ID)
		}
		if both[i], err = selection.Traced(ctx, db, r.ID); err != nil {
			return nil, err
		}
	}
	return report.SlowdownTables(run, base, results.KernelSlowdown(both[0], both[1])), nil
}

// writePage writes the runs that are named, or all that the filter selects, as one page, and
// prints the page's path. The path - is standard output.
func (o *reportOptions) writePage(c *cobra.Command, db *store.Store, selected store.Filter) error {
	ctx, args, path := c.Context(), o.runs, o.page
	policy := output.Policy{Own: &html.File, Waiting: waiting(c)}
	if !isStdout(path) {
		if err := output.Check(path, policy); err != nil {
			return err
		}
		if err := spareStore(o.settings.DB, path); err != nil {
			return err
		}
	}
	runs, err := selection.Named(ctx, db, args, selected)
	if err == nil && len(args) == 0 {
		runs, err = db.Runs(ctx, selected)
	}
	if err != nil {
		return err
	}
	switch {
	case len(runs) == 0:
		return nothingError{fmt.Errorf("--html: no run of %s is selected", db.Path())}
	case len(runs) > html.MaxRuns && o.trend != "":
		sayTo(c)("--html: the page shows the last %d of %d runs; its trend is of all", html.MaxRuns, len(runs))
		runs = runs[len(runs)-html.MaxRuns:]
	case len(runs) > html.MaxRuns:
		return refuse("--html: %d runs are selected and a page takes %d: name some, or narrow them with --sweep, --mix, --tag or --last", len(runs), html.MaxRuns)
	}
	overTime, err := o.pageTrend(ctx, db, selected)
	if err != nil {
		return err
	}
	version, _ := harness.Version()
	write := func(w io.Writer) error {
		return html.Write(ctx, w, db, runs, html.Options{Store: filepath.Base(db.Path()), Generator: version, Base: o.base, Trend: overTime})
	}
	if isStdout(path) {
		return write(c.OutOrStdout())
	}
	if err := output.Write(ctx, path, policy, write); err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), path)
	return nil
}

// pageTrend is the trend that a page shows: of the metric that is asked for, or of throughput if
// a line has enough points to be a line. A page of named runs has none.
func (o *reportOptions) pageTrend(ctx context.Context, db *store.Store, selected store.Filter) (*trend.Trend, error) {
	const fewest = 3
	if o.trend != "" {
		t, err := trendOf(ctx, db, o.trend, selected)
		return &t, err
	}
	if len(o.runs) > 0 {
		return nil, nil
	}
	t, err := trendOf(ctx, db, "throughput", selected)
	var nothing nothingError
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
