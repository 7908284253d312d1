package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/pages"
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
	csv      csvFlag
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
	c.Flags().StringVar(&o.trend, "trend", "", "show a `METRIC` of each arm over time, night by night, and its steps; caserun help metrics lists them")
	addBaseFlag(c, &o.base)
	o.csv.addTo(c)
	c.Flags().StringVarP(&o.page, "html", "o", "", "write a page with timelines and comparisons to `FILE`; -: standard output")
	config.NoSetting(c.Flags(), "html")
	return c
}

func (o *reportOptions) settle(c *cobra.Command, args []string) error {
	o.runs = args
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if err := o.csv.check(c); err != nil {
		return err
	}
	for _, other := range []string{"slowdown", "verbose", "format", "csv"} {
		if o.page != "" && c.Flags().Changed(other) {
			return fmt.Errorf("--html cannot be combined with --%s, which is for tables", other)
		}
	}
	if o.page == "" && o.base != "" {
		return errors.New("--base requires --html: for a table, caserun compare --base " + o.base)
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
		return errors.New("--trend cannot be combined with --slowdown: for kernel slowdowns over time use --trend slowdown")
	case len(o.runs) > 0:
		return fmt.Errorf("--trend is of all runs over time: leave out %s, and select with --mix, --sched, --node or --last", strings.Join(o.runs, " "))
	}
	return nil
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
		t, err := selection.Trend(ctx, db, o.trend, selected)
		if err != nil {
			return err
		}
		return o.csv.render(c, o.settings, report.TrendTables(t, report.Format(o.settings.Format), o.verbose)...)
	}
	if len(o.runs) == 0 {
		runs, err := db.Runs(ctx, selected)
		notes, failed := selection.LeftOut(ctx, db, selected)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if len(runs) == 0 && o.filter.Narrow() {
			return nothingMatches(ctx, db, "report", o.settings, o.filter.Filter)
		}
		t := report.RunList(runs)
		t.Say(notes...)
		return o.csv.render(c, o.settings, t)
	}
	return o.showRuns(c, db, selected)
}

// showRuns prints the tables of each run that is named.
func (o *reportOptions) showRuns(c *cobra.Command, db *store.Store, selected store.Filter) error {
	ctx := c.Context()
	var tables []*report.Table
	for _, arg := range o.runs {
		run, err := selection.Run(ctx, db, arg, selected)
		if err != nil {
			return err
		}
		more, err := report.RunTables(ctx, db, run, o.verbose)
		if err != nil {
			return err
		}
		tables = append(tables, more...)
		if o.baseline != "" {
			if more, err = selection.SlowdownTables(ctx, db, run, o.baseline); err != nil {
				return err
			}
			tables = append(tables, more...)
		}
	}
	return o.csv.render(c, o.settings, tables...)
}

// writePage writes the runs that are named, or all that the filter selects, as one page, and
// prints the page's path. The path - is standard output.
func (o *reportOptions) writePage(c *cobra.Command, db *store.Store, selected store.Filter) error {
	ctx, path := c.Context(), o.page
	policy := pages.Policy(waiting(c))
	if !isStdout(path) {
		if err := output.Check(path, policy); err != nil {
			return err
		}
		if err := harness.SpareStore(o.settings.DB, path); err != nil {
			return err
		}
	}
	page, err := pages.Wanted{Runs: o.runs, Filter: selected, Base: o.base, Trend: o.trend}.Read(ctx, db, sayTo(c))
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return page.Write(ctx, w, nil) }
	if isStdout(path) {
		return write(c.OutOrStdout())
	}
	if err := output.Write(ctx, path, policy, write); err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), path)
	return nil
}
