package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/pages"
)

// mixOptions are what mix is asked for.
type mixOptions struct {
	asked
	mix     string
	verbose bool
	log     logFlag
}

// largeMix is how many jobs a mix has whose run takes so much memory that it is worth some processor
// time to have less garbage beside it: about 1 KiB a job.
const largeMix = 100_000

func newMix() *cobra.Command {
	var o mixOptions
	c := &cobra.Command{
		Use:   "mix MIX",
		Short: "Run a mix under a scheduler and print what was measured",
		Long: `Run all jobs of a mix as one batch under a scheduler. MIX is a name from
caserun mixes list, or a file: .yaml, or .wl with one command line per job.
caserun mixes new writes a commented one.

Without an NVIDIA GPU the batch runs SIMULATED on sim:4xV100. A line on stderr
and every output say so.`,
		Example: `  caserun mix W7 --sched case-alg3
  caserun mix W7 --sched cg --workers 8 --mem-cap 16GiB
  caserun mix my.yaml --node sim:2xP100 --format json`,
		Args:              named("MIX"),
		ValidArgsFunction: atMost(1, completeMix),
		RunE:              verb(&o),
	}
	config.AddRunFlags(c.Flags())
	config.AddStoreFlag(c.Flags())
	config.AddPageFlag(c.Flags())
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "also print tables of devices and jobs")
	addFormatFlag(c)
	o.log.addTo(c)
	return c
}

func (o *mixOptions) settle(c *cobra.Command, args []string) error {
	o.mix = args[0]
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if err := config.NoRange(o.mix); err != nil {
		return err
	}
	if len(nodes.Split(o.settings.Node)) > 1 {
		return fmt.Errorf("--node %s: want one node, with + between its devices: caserun paper takes several", o.settings.Node)
	}
	if err := config.Check("node", o.settings.Node); err != nil {
		return fmt.Errorf("--node: %w", err)
	}
	if err := config.Check("sched", o.settings.Sched); err != nil {
		return fmt.Errorf("--sched: %w", err)
	}
	return nil
}

func (o *mixOptions) do(c *cobra.Command) (err error) {
	ctx, say := c.Context(), sayTo(c)
	mix, known, err := nodes.Read(ctx, o.settings.Options, o.mix, say)
	if err != nil {
		return err
	}
	if len(mix.Jobs) > largeMix {
		defer debug.SetGCPercent(debug.SetGCPercent(50))
	}
	before, err := o.settings.KnownHistory(ctx)
	if err != nil {
		return err
	}
	return o.write(c, func(db *store.Store) error { // not before the mix is known to be one
		return o.record(c, db, harness.Request{Configuration: o.settings.Configuration, AllowSimulated: o.settings.AllowSimulated,
			Mix: mix, Profiles: known, History: before, Store: db, Say: say})
	})
}

// record makes the run, and prints it.
func (o *mixOptions) record(c *cobra.Command, db *store.Store, r harness.Request) (err error) {
	log, logged, err := o.log.open(c, o.settings.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logged()) }()
	page, err := o.log.openPage(c, o.settings, db, 1)
	if err != nil {
		return err
	}
	r.Log, r.Display = log, func(m mixes.Mix, mode results.Mode) harness.Display {
		return display.NewRun(c.ErrOrStderr(), m, mode, r.Profiles)
	}
	var session nodes.Session
	defer func() { err = errors.Join(err, session.Close()) }()
	runs, failed, runErr := harness.RunIsolating(c.Context(), r, session.Run)
	var tables []*report.Table
	ids := ""
	for _, run := range runs {
		tables, ids = append(tables, o.tables(run, db.Path())...), ids+fmt.Sprintf(" %d", run.Run.ID)
	}
	if len(tables) > 0 {
		if page != nil {
			page.Write(context.WithoutCancel(c.Context()), pages.Wanted{Runs: strings.Fields(ids)}, nil)
		}
		again := fmt.Sprintf("caserun report%s%s prints it again", ids, o.settings.StoreFlag())
		runErr = errors.Join(runErr, orAgain(render(c, o.settings.Format, tables...), "what was measured is stored", again))
	}
	if runErr != nil {
		return runErr
	}
	return o.judge(len(r.Mix.Jobs), failed)
}

// judge is the error of a batch of which jobs failed.
func (o *mixOptions) judge(jobs int, failed []harness.Failure) error {
	if len(failed) == 0 {
		return nil
	}
	if len(failed) == jobs {
		return nothingError{fmt.Errorf("nothing was measured: none of the %d jobs ended ok", jobs)}
	}
	args := ""
	for i, f := range failed { // those of one run are next to each other
		if i == 0 || f.Run != failed[i-1].Run {
			args += fmt.Sprintf(" %d", f.Run)
		}
	}
	return jobsFailedError{fmt.Errorf("%d of %d jobs did not end ok; caserun report%s -v%s shows them",
		len(failed), jobs, args, o.settings.StoreFlag())}
}

// tables show a run.
func (o *mixOptions) tables(run harness.Outcome, store string) []*report.Table {
	tables := []*report.Table{report.RunSummary(run.Run, run.Jobs, run.Devices, store)}
	if o.verbose {
		tables = append(tables, report.DeviceTable(run.Run, run.Devices), report.JobTable(run.Run, run.Jobs))
	}
	return tables
}
