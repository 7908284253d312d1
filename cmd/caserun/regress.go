package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
)

// regressOptions are what regress has beyond the shared settings.
type regressOptions struct {
	baseline, candidate, limits, junit string
	alpha                              float64
}

func newRegress() *cobra.Command {
	var o regressOptions
	c := &cobra.Command{
		Use:   "regress --baseline TAG --candidate TAG --max-regression METRIC=LIMIT,...",
		Short: "Fail if a candidate is worse than a baseline by more than its limits",
		Long: `Hold the runs of a candidate to limits against those of a baseline, mix by mix
and scheduler by scheduler. A check fails where the metric is significantly worse
and the change is beyond its limit, or more jobs crashed than the limit allows.
Each finding names its cause: regression, environment changed (driver, GPU,
clocks, throttling, binary, host, settings), crash, noise, nothing measured.

Baseline and candidate are each

` + sideHelp + `

Limits: throughput, turnaround and makespan in percent (3%), slowdown in
percentage points (1pp), crashes in jobs per run (0).

Exit status: 0 within the limits; 99 a check fails; 4 too little was measured to
say; 2 wrong usage, such as a baseline without runs.`,
		Example: `  caserun regress --baseline nightly-2026-11-20 --candidate nightly-2026-11-21
  caserun regress --baseline v1.4 --candidate latest --max-regression throughput=3%,turnaround=5%,crashes=0 --report-junit gate.xml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runRegress(c, o) },
	}
	addStoreFlags(c.Flags())
	addFormatFlag(c)
	addAlphaFlag(c.Flags(), &o.alpha)
	c.Flags().StringVar(&o.baseline, "baseline", "", "`RUNS` to hold it against: a tag, sweep:N, or a run")
	c.Flags().StringVar(&o.candidate, "candidate", "latest", "`RUNS` to judge: a tag, sweep:N, a run, or latest for the last sweep")
	c.Flags().StringVar(&o.limits, "max-regression", "throughput=3%,turnaround=5%,crashes=0", "`LIMITS` by metric")
	c.Flags().StringVar(&o.junit, "report-junit", "", "also write the result to `FILE` as JUnit XML")
	_ = c.MarkFlagRequired("baseline")
	_ = c.RegisterFlagCompletionFunc("baseline", completeSides)
	_ = c.RegisterFlagCompletionFunc("candidate", completeSides)
	return c
}

// settle checks the options.
func (o regressOptions) settle() ([]regress.Limit, error) {
	if err := validateAlpha(o.alpha); err != nil {
		return nil, err
	}
	if o.baseline == "" || o.candidate == "" {
		return nil, errors.New("regress: --baseline and --candidate each need the runs that they are")
	}
	if o.junit == "-" {
		return nil, errors.New("--report-junit -: standard output has the table: name a file")
	}
	limits, err := regress.ParseLimits(o.limits)
	if err != nil {
		return nil, fmt.Errorf("--max-regression: %w", err)
	}
	for _, l := range limits {
		if m := l.Metric; m.HigherIsBetter && !m.Absolute && l.Bound >= 1 {
			return nil, fmt.Errorf("--max-regression %s: %s cannot fall by more than all of it, so that no run would fail the check: want less than 100%%", l, m.Name)
		}
	}
	return limits, nil
}

func runRegress(c *cobra.Command, o regressOptions) (err error) {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	if _, err := report.ParseFormat(settings.Format); err != nil {
		return usageError(err)
	}
	limits, err := o.settle()
	if err != nil {
		return usageError(err)
	}
	if err := settings.spareStore(o.junit); err != nil {
		return err
	}
	if o.junit != "" {
		if err := report.CheckJUnit(o.junit); err != nil {
			return usageError(fmt.Errorf("--report-junit: %w", err))
		}
	}
	db, done, err := openForReading(c.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	baseline, err := selectSide(c.Context(), db, o.baseline)
	if err != nil {
		return err
	}
	if len(baseline.Runs) == 0 { // a slip, where a candidate without runs is a night that failed
		return usageError(fmt.Errorf("--baseline %s: %s", o.baseline, nothingOf(o.baseline)))
	}
	candidate, err := selectSide(c.Context(), db, o.candidate)
	if err != nil {
		return err
	}
	if baseline, candidate, err = regress.Apart(baseline, candidate); err != nil {
		return usageError(fmt.Errorf("regress: %w", err))
	}
	r := regress.Gate(baseline, candidate, limits, o.alpha)
	warnUnseen(c, settings.Format, r.Notes)
	if err := render(c, settings.Format, report.GateTable(r)); err != nil {
		return err
	}
	if o.junit != "" {
		if err := writeJUnit(c.Context(), o.junit, r); err != nil {
			return infrastructureError(fmt.Errorf("%s against %s: %s; but %w", r.Candidate, r.Baseline, r.Summary(), err))
		}
	}
	return verdict(r)
}

// verdict is the error that ends the program with the gate's status.
func verdict(r regress.Report) error {
	switch {
	case r.Failed() > 0:
		return withStatus(exitRegression, fmt.Errorf("%s against %s: %s", r.Candidate, r.Baseline, r.Summary()))
	case r.Unsettled() > 0:
		return withStatus(exitNothing, fmt.Errorf("%s against %s: %s", r.Candidate, r.Baseline, r.Summary()))
	}
	return nil
}

func writeJUnit(ctx context.Context, path string, r regress.Report) error {
	host, _ := os.Hostname() // the report has a word for none
	err := report.WriteFile(ctx, path, true, func(w io.Writer) error { return report.JUnit(w, r, host, time.Now()) })
	if err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	return nil
}
