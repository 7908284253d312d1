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

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/schedulers/policies"
)

func newMix() *cobra.Command {
	c := &cobra.Command{
		Use:   "mix MIX",
		Short: "Run a mix under a scheduler and print what was measured",
		Long: `Run all jobs of a mix as one batch under a scheduler. MIX is a name from
caserun mixes list, or a file: .yaml, or .wl with one command line per job.

Without an NVIDIA GPU the batch runs SIMULATED on sim:4xV100, which is said on
stderr and in every output.`,
		Example: `  caserun mix W7 --sched case-alg3
  caserun mix W7 --sched cg --workers 8 --mem-cap 16GiB
  caserun mix my.yaml --node sim:2xP100 --format json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMixes,
		RunE: func(c *cobra.Command, args []string) error {
			verbose, err := c.Flags().GetBool("verbose")
			if err != nil {
				return err
			}
			return runMix(c, args[0], verbose)
		},
	}
	addRunFlags(c.Flags())
	addStoreFlags(c.Flags())
	addFormatFlag(c)
	c.Flags().BoolP("verbose", "v", false, "also print a row for each job and each device")
	_ = c.RegisterFlagCompletionFunc("sched", completeSchedulers)
	_ = c.RegisterFlagCompletionFunc("tag", fromStore(offerTags))
	completeNode(c)
	return c
}

func completeSchedulers(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, s := range policies.All() {
		names = append(names, s.Name+"\t"+s.Rule)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func completeNode(c *cobra.Command) {
	_ = c.RegisterFlagCompletionFunc("node", cobra.FixedCompletions(
		[]string{"local", "sim:4xV100", "sim:2xP100", "sim:4xH200", "sim:8xA100"}, cobra.ShellCompDirectiveNoFileComp))
}

func completeMixes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, m := range mixes.Catalog() {
		names = append(names, m.Name+"\t"+m.Description)
	}
	return names, cobra.ShellCompDirectiveDefault
}

// loadMix reads a mix file or looks a name up in the catalog. Files may name programs
// of the user's suite, and those that known has profiles of.
func loadMix(arg string, c config, known profiles.Set, stderr io.Writer) (mixes.Mix, error) {
	m, _, err := readMix(arg, c, known, stderr)
	return m, err
}

// readMix is loadMix, with which programs beside SuitePrograms the file may name: nil is
// none, because nobody has said where others come from.
func readMix(arg string, c config, known profiles.Set, stderr io.Writer) (m mixes.Mix, has func(program string) bool, err error) {
	suite, err := ownSuite(c)
	if err != nil {
		return m, nil, err
	}
	if isMixFile(arg) {
		if suite.Name != "" || c.Profiles != "" {
			has = func(program string) bool { return suite.Has(program) || known.HasProgram(program) }
		}
		m, err = mixes.Load(arg, has)
	} else {
		m, err = mixes.Lookup(arg)
	}
	if err != nil {
		return m, nil, usageError(err)
	}
	for _, note := range m.Notes {
		fmt.Fprintf(stderr, "caserun: %s\n", note)
	}
	m.Jobs = suite.Describe(m.Jobs)
	return m, has, nil
}

// ownSuite is the suite that the user named, or one without programs.
func ownSuite(c config) (live.Suite, error) {
	if c.Suite == "" || c.Suite == live.BuiltinSuite {
		return live.Suite{}, nil
	}
	suite, err := live.OpenSuite(c.Suite, c.Data)
	var input mixes.InputErrors
	if errors.As(err, &input) {
		return suite, usageError(err)
	}
	return suite, infrastructureError(err)
}

// toMeasure adds to an error that a job has neither footprint nor profile how its
// profile is measured.
func toMeasure(err error, c config, mix mixes.Mix) error {
	if !errors.Is(err, profiles.ErrNone) && !errors.Is(err, live.ErrUnbindable) {
		return err
	}
	what := mix.Source
	if !isMixFile(what) {
		what = mix.Name
	}
	isForeign := func(j mixes.Job) bool { return j.OfSuite() && !slices.Contains(mixes.SuitePrograms(), j.Program) }
	if c.Suite != live.BuiltinSuite {
		what += " --suite " + c.Suite
	} else if slices.ContainsFunc(mix.Jobs, isForeign) {
		what += " --suite DIR"
	}
	return fmt.Errorf("%w; to measure one, run caserun profile --mix %s --out FILE on a GPU, and add --profiles FILE", err, what)
}

// isMixFile tells a mix's file from a name of the catalog.
func isMixFile(arg string) bool {
	return strings.ContainsRune(arg, filepath.Separator) || slices.Contains([]string{".yaml", ".yml", ".wl"}, filepath.Ext(arg))
}

func runMix(c *cobra.Command, arg string, verbose bool) (err error) {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	if _, err := report.ParseFormat(settings.Format); err != nil {
		return usageError(err)
	}
	known, err := settings.knownProfiles(c.Context())
	if err != nil {
		return err
	}
	mix, err := loadMix(arg, settings, known, c.ErrOrStderr())
	if err != nil {
		return err
	}
	mix.Jobs = known.Declare(mix.Jobs)
	if len(nodeNames(settings.Node)) > 1 {
		return usageError(fmt.Errorf("--node %s: want one node: caserun paper takes several", settings.Node))
	}
	if err := checkSetting("node", settings.Node); err != nil { // all this before there is a store
		return usageError(fmt.Errorf("--node: %w", err))
	}
	if err := checkSetting("sched", settings.Sched); err != nil {
		return usageError(fmt.Errorf("--sched: %w", err))
	}
	db, err := openStore(settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, infrastructureError(db.Close())) }()
	r := request{config: settings, mix: mix, profiles: known, store: db, stderr: c.ErrOrStderr()}
	tables, failed, runErr := doRun(c.Context(), r, verbose)
	if apart := toIsolate(failed); runErr == nil && len(apart) > 0 {
		if settings.Isolate {
			var more []*report.Table
			more, failed, runErr = isolate(c.Context(), r, failed, apart, verbose)
			tables = append(tables, more...)
		} else {
			fmt.Fprintf(c.ErrOrStderr(), "caserun: a fault under MPS took %d jobs down: with --isolate-faults they run again after the batch, each alone on a GPU, which shows whose it was and what the others do without it\n", len(apart))
		}
	}
	if len(tables) > 0 {
		runErr = errors.Join(runErr, render(c, settings.Format, tables...))
	}
	if runErr != nil || len(failed) == 0 {
		return runErr
	}
	if len(failed) == len(mix.Jobs) {
		return withStatus(exitNothing, fmt.Errorf("nothing was measured: none of the %d jobs ended ok", len(mix.Jobs)))
	}
	return withStatus(exitJobsFailed, fmt.Errorf("%d of %d jobs did not end ok; caserun report%s -v%s shows them",
		len(failed), len(mix.Jobs), runsOf(failed), settings.storeFlag()))
}

// failure is a job that did not end ok, and the run that has it.
type failure struct {
	run int64
	job results.Job
}

// runsOf names each run of failures once, as arguments: " 1 2". Failures of one run
// are next to each other.
func runsOf(failed []failure) (args string) {
	for i, f := range failed {
		if i == 0 || f.run != failed[i-1].run {
			args += fmt.Sprintf(" %d", f.run)
		}
	}
	return args
}

// doRun does one run, and returns its tables and the jobs that did not end ok.
func doRun(ctx context.Context, r request, verbose bool) ([]*report.Table, []failure, error) {
	o, err := execute(ctx, r)
	return summarize(o, r.store.Path(), verbose, err)
}

// summarize is doRun for a run that has been done, with its error.
func summarize(o outcome, store string, verbose bool, err error) (tables []*report.Table, failed []failure, _ error) {
	if o.run.ID == 0 {
		return nil, nil, err
	}
	tables = append(tables, report.RunSummary(o.run, o.jobs, o.devices, store))
	if verbose {
		tables = append(tables, report.DeviceTable(o.run, o.devices), report.JobTable(o.run, o.jobs))
	}
	if err != nil { // jobs may have no outcome
		return tables, nil, err
	}
	for _, j := range o.jobs {
		if *j.Outcome != results.OK {
			failed = append(failed, failure{o.run.ID, j})
		}
	}
	return tables, failed, nil
}
