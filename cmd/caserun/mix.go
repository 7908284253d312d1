package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
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
		return fmt.Errorf("--node %s: want one node: caserun paper takes several", o.settings.Node)
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
	known, err := o.settings.KnownProfiles(ctx)
	if err != nil {
		return err
	}
	mix, _, err := o.settings.ReadMix(ctx, o.mix, known, say)
	if err != nil {
		return err
	}
	if len(mix.Jobs) > largeMix {
		defer debug.SetGCPercent(debug.SetGCPercent(50))
	}
	if known, err = nodes.Know(ctx, o.settings.Options, &mix, known, say); err != nil {
		return refusal{err}
	}
	before, err := o.settings.KnownHistory(ctx)
	if err != nil {
		return err
	}
	db, err := harness.OpenStore(o.settings.DB) // not before the mix is known to be one
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, logged, err := o.log.open(c, o.settings.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logged()) }()
	r := harness.Request{Configuration: o.settings.Configuration, AllowSimulated: o.settings.AllowSimulated, Mix: mix, Profiles: known, History: before,
		Store: db, Say: say, Log: log, Display: func(m mixes.Mix, mode results.Mode) harness.Display {
			return display.NewRun(c.ErrOrStderr(), m, mode, known)
		}}
	var session nodes.Session
	defer func() { err = errors.Join(err, session.Close()) }()
	first, runErr := session.Run(ctx, r)
	tables, ids := o.tables(first, db.Path()), fmt.Sprintf(" %d", first.Run.ID)
	var failed []failure
	if runErr == nil {
		failed = failuresOf(first)
	}
	if apart := takenDown(failed); len(apart) > 0 {
		if o.settings.Isolate {
			var again harness.Outcome
			again, runErr = harness.Isolate(ctx, r, first.Run.ID, apart, session.Run)
			if again.Run.ID != 0 {
				tables, ids = append(tables, o.tables(again, db.Path())...), ids+fmt.Sprintf(" %d", again.Run.ID)
			}
			if runErr == nil {
				failed = slices.DeleteFunc(failed, func(f failure) bool { return harness.TookDown(f.job) })
				failed = append(failed, failuresOf(again)...)
			}
		} else {
			say("a fault under MPS took %d jobs down: with --isolate-faults each of them runs again after the batch, alone on a GPU, which shows the culprit", len(apart))
		}
	}
	if len(tables) > 0 {
		again := fmt.Sprintf("caserun report%s%s prints it again", ids, o.settings.StoreFlag())
		runErr = errors.Join(runErr, orAgain(render(c, o.settings.Format, tables...), "what was measured is stored", again))
	}
	if runErr != nil || len(failed) == 0 {
		return runErr
	}
	if len(failed) == len(mix.Jobs) {
		return nothingError{fmt.Errorf("nothing was measured: none of the %d jobs ended ok", len(mix.Jobs))}
	}
	return jobsFailedError{fmt.Errorf("%d of %d jobs did not end ok; caserun report%s -v%s shows them",
		len(failed), len(mix.Jobs), runsOf(failed), o.settings.StoreFlag())}
}

// tables show a run, if there is one.
func (o *mixOptions) tables(run harness.Outcome, store string) []*report.Table {
	if run.Run.ID == 0 {
		return nil
	}
	tables := []*report.Table{report.RunSummary(run.Run, run.Jobs, run.Devices, store)}
	if o.verbose {
		tables = append(tables, report.DeviceTable(run.Run, run.Devices), report.JobTable(run.Run, run.Jobs))
	}
	return tables
}

// failure is a job that did not end ok, and the run that has it.
type failure struct {
	run int64
	job results.Job
}

// failuresOf are the failures of a run whose jobs all have ended.
func failuresOf(o harness.Outcome) (failed []failure) {
	for _, j := range o.Failed() {
		failed = append(failed, failure{o.Run.ID, j})
	}
	return failed
}

// takenDown are the jobs that a fault took down that was, or may have been, another job's.
func takenDown(failed []failure) (jobs []results.Job) {
	for _, f := range failed {
		if harness.TookDown(f.job) {
			jobs = append(jobs, f.job)
		}
	}
	return jobs
}

// runsOf names each run of failures once, as arguments: " 1 2". Failures of one run are next to
// each other.
func runsOf(failed []failure) (args string) {
	for i, f := range failed {
		if i == 0 || f.run != failed[i-1].run {
			args += fmt.Sprintf(" %d", f.run)
		}
	}
	return args
}
