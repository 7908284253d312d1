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
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
)

// compareOptions are what compare is asked for.
type compareOptions struct {
	asked
	sides            []string // one or two
	metrics          []string
	alpha, minEffect float64
	base, by         string // of the schedulers of one side
	doubted          bool
	regress.Options  // of metrics, alpha and minEffect
}

func newCompare() *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use:   "compare [A [B]]",
		Short: "Compare the schedulers of a sweep, or two sides",
		Long: `Compare the schedulers of A, or of the latest sweep, with one another: a row for
each scheduler, and each metric as a ratio to --base, over all mixes. --by mix
prints the matrix of mixes and schedulers. Crashes stand beside throughput: a
scheduler can gain throughput by losing jobs.

With B, compare B with A, metric by metric: better, worse, same, or
inconclusive. A and B are each

` + selection.Help + `

Runs of the same mix, number of jobs, scheduler with parameters, and node are
repetitions of one arm. A note says where their settings differ. Compared are

  1. the arms that both sides have
  2. if there are none, arms that differ in the scheduler alone
  3. if each side has only one arm, these two, with a warning of what differs

Traced and untraced runs are only compared in case 3. Simulated and live runs
are only compared there, and only with --allow-simulated. If a run is on both
sides, it counts for the side that has no other runs.
docs/reference/statistics.md describes the tests.`,
		Example: `  caserun compare
  caserun compare sweep:3 --base cg --by mix
  caserun compare sweep:3/sa sweep:3/case-alg3
  caserun compare nightly-2026-11-20 nightly-2026-11-21
  caserun compare 11 12 --metrics makespan`,
		Args:              atMostArgs(2),
		ValidArgsFunction: atMost(2, others(fromStore(selection.OfferSides))),
		RunE:              verb(onStore{&o}),
	}
	config.AddStoreFlag(c.Flags())
	config.AddAllowSimulatedFlag(c.Flags())
	addFormatFlag(c)
	config.AddDoubtedFlag(c.Flags(), &o.doubted)
	config.AddAlphaFlag(c.Flags(), &o.alpha)
	c.Flags().Float64Var(&o.minEffect, "min-effect", 100*stats.DefaultMinEffect, "the smallest change that matters, in `PERCENT`")
	addMetricsFlag(c, &o.metrics)
	addBaseFlag(c, &o.base)
	c.Flags().StringVar(&o.by, "by", "", "of one side, print the matrix by `WHAT`: "+byMix)
	return c
}

func (o *compareOptions) settle(c *cobra.Command, args []string) error {
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if o.sides = args; len(args) == 0 {
		o.sides = []string{selection.Latest}
	}
	if err := o.check(); err != nil {
		return err
	}
	return o.fits(c)
}

// fits refuses flags that say nothing about the number of sides that are given.
func (o *compareOptions) fits(c *cobra.Command) error {
	if o.by != "" && o.by != byMix {
		return fmt.Errorf("--by %s: want %s", o.by, byMix)
	}
	unfit, of := []string{"base", "by"}, "is for one side, whose schedulers are compared"
	if len(o.sides) < 2 {
		unfit, of = []string{"min-effect"}, "is for two sides"
	}
	for _, name := range unfit {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s %s: leave it out, or see caserun compare --help", name, of)
		}
	}
	return nil
}

// check checks the options and gives them to the library.
func (o *compareOptions) check() error {
	o.Options = regress.Options{Alpha: o.alpha, MinEffect: o.minEffect / 100}
	if err := config.CheckAlpha(o.alpha); err != nil {
		return err
	}
	if !(o.minEffect >= 0 && o.minEffect < 100) {
		return fmt.Errorf("--min-effect %g: want a percentage from 0 to 100", o.minEffect)
	}
	var err error
	if o.Metrics, err = regress.LookupMetrics(o.metrics); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}

func (o *compareOptions) look(c *cobra.Command, db *store.Store) (err error) {
	both := make([]regress.Side, len(o.sides))
	for i, text := range o.sides {
		if both[i], err = o.selectSide(c, db, "compare", text); err != nil {
			return err
		}
		both[i].Doubted = o.doubted
	}
	if len(both) == 1 {
		return o.compareSchedulers(c, both[0])
	}
	if both[0], both[1], err = regress.Apart(both[0], both[1]); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	if !o.settings.AllowSimulated {
		if err := regress.OneMode(both[:]...); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	r, err := regress.Compare(both[0], both[1], o.Options)
	if err != nil {
		return err
	}
	if len(r.Rows) == 0 {
		return nothingError{errors.Join(fmt.Errorf("compare: %s and %s have nothing in common that was measured", o.sides[0], o.sides[1]),
			errors.New(strings.Join(r.Notes, "\n")))}
	}
	r.Notes = append(r.Notes, r.Settle(extendHint(c, db, o.settings))...)
	warnUnseen(c, o.settings.Format, r.Notes)
	if err := render(c, o.settings.Format, report.CompareTable(r)); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.Rows, func(row regress.Row) bool { return row.A.N > 0 && row.B.N > 0 }) {
		return nothingError{fmt.Errorf("compare: no metric has values on both sides: %s", r.Rows[0].Reason)}
	}
	return nil
}

// compareSchedulers compares the schedulers of one side with one another.
func (o *compareOptions) compareSchedulers(c *cobra.Command, side regress.Side) error {
	matrices, err := regress.Matrices(side, o.base, o.Options)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	wide, _ := c.Flags().GetBool("verbose")
	wide = wide || display.Columns(c.OutOrStdout()) == 0
	var tables []*report.Table
	for _, m := range matrices {
		if len(m.Rows) >= 2 {
			warnUnseen(c, o.settings.Format, m.Notes)
			tables = append(tables, report.MatrixTables(m, report.Format(o.settings.Format), o.by == byMix, wide)...)
		}
	}
	if len(tables) == 0 {
		return nothingError{fmt.Errorf("compare: %s has complete runs under one scheduler alone, or none: name a second side to compare it with, as in caserun compare A B", side.Label)}
	}
	return render(c, o.settings.Format, tables...)
}
