package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/sides"
	"github.com/caserun/caserun/results/stats"
)

// compareOptions are what compare has beyond the shared settings.
type compareOptions struct {
	metrics          []string
	alpha, minEffect float64
}

// comparison is what compare is asked for.
type comparison struct {
	settings config.Settings
	options  regress.Options
	sides    [2]string
}

func newCompare() *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare sweeps, tags, schedulers of a sweep, or runs",
		Long: `Compare B with A, metric by metric: better, worse, same, or inconclusive. A and
B are each

` + sides.Help + `

Runs of the same mix, number of jobs, scheduler with parameters, and node are
repetitions of one arm. A note says where their settings differ. Compared are

  1. the arms that both sides have
  2. if there are none, arms that differ in the scheduler alone
  3. if each side has only one arm, these two, with a warning of what differs

Traced and untraced runs are only compared in case 3. Simulated and live runs are
only compared there, and only with --allow-simulated. A run on both sides is left
to the side that has no others.
docs/statistics.md describes the tests.`,
		Example: `  caserun compare sweep:3/sa sweep:3/case-alg3
  caserun compare nightly-2026-11-20 nightly-2026-11-21
  caserun compare 11 12 --metrics makespan`,
		Args:              named("A", "B"),
		ValidArgsFunction: atMost(2, others(fromStore(offerSides))),
		RunE: verb(func(c *cobra.Command, args []string) (comparison, error) {
			settings, err := load(c)
			if err != nil {
				return comparison{}, err
			}
			options, err := o.settle()
			return comparison{settings, options, [2]string(args)}, err
		}, runCompare),
	}
	config.AddStoreFlag(c.Flags())
	config.AddAllowSimulatedFlag(c.Flags())
	addFormatFlag(c)
	addAlphaFlag(c.Flags(), &o.alpha)
	c.Flags().Float64Var(&o.minEffect, "min-effect", 100*stats.DefaultMinEffect, "the smallest change that matters, in `PERCENT`")
	c.Flags().StringSliceVar(&o.metrics, "metrics", nil, "only these `METRICS`: "+strings.Join(metricNames(), ", ")+"; the last two only if named")
	_ = c.RegisterFlagCompletionFunc("metrics", inList(cobra.FixedCompletions(metricNames(), cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func metricNames() []string {
	var names []string
	for _, m := range regress.Metrics() {
		names = append(names, m.Name)
	}
	return names
}

// settle checks the options and gives them to the library.
func (o compareOptions) settle() (regress.Options, error) {
	out := regress.Options{Alpha: o.alpha, MinEffect: o.minEffect / 100}
	if err := validateAlpha(o.alpha); err != nil {
		return out, err
	}
	if !(o.minEffect >= 0 && o.minEffect < 100) {
		return out, fmt.Errorf("--min-effect %g: want a percentage from 0 to 100", o.minEffect)
	}
	for _, name := range o.metrics {
		m, err := regress.LookupMetric(name)
		if err != nil {
			return out, fmt.Errorf("--metrics: %w", err)
		}
		if slices.ContainsFunc(out.Metrics, func(other regress.Metric) bool { return other.Name == name }) {
			return out, fmt.Errorf("--metrics: %s is named twice", name)
		}
		out.Metrics = append(out.Metrics, m)
	}
	return out, nil
}

func runCompare(c *cobra.Command, o comparison) (err error) {
	db, done, err := openForReading(c.Context(), o.settings.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var both [2]regress.Side
	for i, text := range o.sides {
		if both[i], err = sides.Select(c.Context(), db, text); err != nil {
			return err
		}
		if len(both[i].Runs) == 0 {
			return refuse("compare: %s: %s in %s; caserun report%s lists what there is", both[i].Label, sides.WhyEmpty(text), o.settings.DB, o.settings.StoreFlag())
		}
	}
	if both[0], both[1], err = regress.Apart(both[0], both[1]); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	if !o.settings.AllowSimulated {
		if err := regress.OneMode(both[:]...); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	r, err := regress.Compare(both[0], both[1], o.options)
	if err != nil {
		return err
	}
	if len(r.Rows) == 0 {
		return nothingError{errors.Join(fmt.Errorf("compare: %s and %s have nothing in common that was measured", o.sides[0], o.sides[1]),
			errors.New(strings.Join(r.Notes, "\n")))}
	}
	r.Notes = append(r.Notes, r.Settle(o.settings.StoreFlag(), both[:]...)...)
	warnUnseen(c, o.settings.Format, r.Notes)
	return render(c, o.settings.Format, report.CompareTable(r))
}
