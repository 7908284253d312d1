package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile/output"
)

// regressOptions are what regress is asked for.
type regressOptions struct {
	asked
	baseline, candidate, junit string
	only                       []string // kinds of checks to print
	alpha                      float64
	doubted                    bool
	limits                     []regress.Limit
}

// defaultLimits are those of --max-regression.
const defaultLimits = "throughput=3%,turnaround=5%,crashes=0"

func newRegress() *cobra.Command {
	var o regressOptions
	c := &cobra.Command{
		Use:   "regress --baseline TAG --candidate TAG --max-regression METRIC=LIMIT,...",
		Short: "Fail if a candidate is worse than a baseline beyond its limits",
		Long: `Compare a candidate's runs with a baseline's, mix by mix and scheduler by
scheduler, and hold the changes to limits. A check fails if the metric is
significantly worse and the change is beyond its limit. Checks are of each mix,
and of each scheduler over all its mixes, which takes fewer repetitions. What
failed is printed first. Each finding names its cause: regression, environment
changed (driver, GPU, clocks, throttling, binary, host, the caller's variables
and limits, settings), crash, noise, not comparable (lost jobs), nothing
measured.

Baseline and candidate are each

` + selection.Help + `
` + selection.RollingHelp + `

Limits: throughput, turnaround, makespan, energy and energy-per-job in percent
(3%), slowdown and deadlines-met in percentage points (1pp), crashes in jobs per
run (0). A limit may be for a scheduler or a mix, as cg:crashes=2,
W7/cg:throughput=10% or W7/*:crashes=1; cg:turnaround=none checks nothing. The
limit that names most of an arm counts, and of equal ones the last. Limits may
be in the configuration file, as max-regression: throughput=3%,cg:crashes=2.

Crashes are checked with crashes=0 unless a limit or crashes=none says
otherwise. Their numbers are tested too, so that chance is not an alarm. Metrics
of a candidate that lost significantly more jobs than its limit allows cannot
pass, also with crashes=none: they are not comparable, exit status 4.

Live runs are not compared with simulated ones without --allow-simulated.

Exit status: 0 within the limits; 99 a check fails; 4 too little was measured to
say; 2 wrong usage, such as a baseline or a candidate that matches no run.`,
		Example: `  caserun regress --baseline nightly-2026-11-20 --candidate nightly-2026-11-21
  caserun regress --baseline v1.4 --max-regression throughput=3%,crashes=0 \
      --report-junit gate.xml
  caserun regress --baseline v1.4 \
      --max-regression throughput=3%,cg:crashes=2 --only failed
  caserun regress --baseline rolling:14`,
		Args: noArguments,
		RunE: verb(onStore{&o}),
	}
	config.AddStoreFlag(c.Flags())
	config.AddAllowSimulatedFlag(c.Flags())
	config.AddDoubtedFlag(c.Flags(), &o.doubted)
	addFormatFlag(c)
	config.AddAlphaFlag(c.Flags(), &o.alpha)
	c.Flags().StringVar(&o.baseline, "baseline", "", "`RUNS` to hold it against: a tag, sweep:N, a run, or rolling:N for the last N nights that passed")
	c.Flags().StringVar(&o.candidate, "candidate", "latest", "`RUNS` to judge: a tag, sweep:N, a run, or latest for the last sweep")
	config.AddLimitsFlag(c.Flags(), defaultLimits)
	config.AddListFlag(c.Flags(), &o.only, "only", "print only these `KINDS` of checks: "+strings.Join(regress.Kinds, ", "))
	c.Flags().StringVarP(&o.junit, "report-junit", "o", "", "also write the result to `FILE` as JUnit XML")
	_ = c.MarkFlagRequired("baseline")
	return c
}

func (o *regressOptions) settle(c *cobra.Command, args []string) (err error) {
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if o.limits, err = o.check(o.settings.MaxRegression); err != nil {
		return err
	}
	if err := harness.SpareStore(o.settings.DB, o.junit); err != nil {
		return err
	}
	if o.junit != "" {
		if err := output.Check(o.junit, output.Policy{Own: &report.JUnitFile}); err != nil {
			return fmt.Errorf("--report-junit: %w", err)
		}
	}
	return nil
}

// check refuses options that contradict themselves, and reads the limits.
func (o *regressOptions) check(text string) ([]regress.Limit, error) {
	if err := config.CheckAlpha(o.alpha); err != nil {
		return nil, err
	}
	if o.baseline == "" || o.candidate == "" {
		return nil, errors.New("regress: --baseline and --candidate each need the runs that they are")
	}
	if selection.IsRolling(o.baseline) {
		if _, _, err := selection.ParseRolling(o.baseline); err != nil {
			return nil, fmt.Errorf("--baseline: %w", err)
		}
	}
	if o.junit == stdoutName {
		return nil, errors.New("--report-junit -: standard output has the table: name a file")
	}
	for i, kind := range o.only {
		if !slices.Contains(regress.Kinds, kind) {
			return nil, fmt.Errorf("--only %s: want some of %s", kind, strings.Join(regress.Kinds, ", "))
		}
		if slices.Contains(o.only[:i], kind) {
			return nil, fmt.Errorf("--only: %s is named twice", kind)
		}
	}
	limits, err := regress.ParseLimits(text)
	if err != nil {
		return nil, fmt.Errorf("--max-regression: %w", err)
	}
	if err := regress.CheckLimits(limits, text); err != nil {
		return nil, fmt.Errorf("--max-regression %w", err)
	}
	return regress.WithCrashes(limits), nil
}

// fits refuses sides that do not fit the options.
func (o *regressOptions) fits(baseline, candidate regress.Side) error {
	check := func(scheduler string) error { return config.Check("sched", scheduler) }
	if unknown, err := regress.UnknownScheduler(o.limits, check, baseline, candidate); err != nil {
		return selection.Refuse("--max-regression %s: %v", unknown, err)
	}
	if !o.settings.AllowSimulated {
		if err := regress.OneMode(baseline, candidate); err != nil {
			return fmt.Errorf("regress: %w", err)
		}
	}
	return nil
}

func (o *regressOptions) look(c *cobra.Command, db *store.Store) error {
	missing := func(flag, text string) error { return o.matchesNothing(c, db, flag+" "+text, text) }
	of := selection.Gated{Baseline: o.baseline, Candidate: o.candidate, Doubted: o.doubted, Limits: o.limits, Alpha: o.alpha}
	baseline, candidate, err := of.Sides(c.Context(), db, missing)
	if err != nil {
		return err
	}
	if err := o.fits(baseline, candidate); err != nil {
		return err
	}
	r := regress.Gate(baseline, candidate, o.limits, o.alpha)
	if err := selection.Explain(c.Context(), db, &r, baseline, candidate); err != nil {
		return err
	}
	r.Notes = append(r.Notes, r.Settle(extendHint(c, db, o.settings))...)
	warnUnseen(c, o.settings.Format, r.Notes)
	if err := render(c, o.settings.Format, report.GateTable(r, o.only...)); err != nil {
		return err
	}
	if o.junit != "" {
		if err := writeJUnit(c.Context(), o.junit, r, waiting(c)); err != nil {
			return fmt.Errorf("%s against %s: %s; but %w", r.Candidate, r.Baseline, r.Summary(), err)
		}
	}
	if len(candidate.Runs) == 0 { // the report has said so too, for who reads nothing else
		return missing("--candidate", o.candidate)
	}
	return verdict(r)
}

// verdict is the gate's answer as an error; nil if the candidate passes.
func verdict(r regress.Report) error {
	switch {
	case r.Failed() > 0:
		return regressionError{fmt.Errorf("%s against %s: %s", r.Candidate, r.Baseline, r.Summary())}
	case r.Unsettled() > 0 || len(r.Checks) == 0:
		return nothingError{fmt.Errorf("%s against %s: %s", r.Candidate, r.Baseline, r.Summary())}
	}
	return nil
}

func writeJUnit(ctx context.Context, path string, r regress.Report, waiting func(string)) error {
	host, _ := os.Hostname() // the report has a word for none
	err := output.Write(ctx, path, output.Policy{Own: &report.JUnitFile, Waiting: waiting},
		func(w io.Writer) error { return report.JUnit(w, r, host, time.Now()) })
	if err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	return nil
}
