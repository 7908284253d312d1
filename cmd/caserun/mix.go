package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers"
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
	_ = c.RegisterFlagCompletionFunc("sched", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, s := range schedulers.All() {
			names = append(names, s.Name+"\t"+s.Rule)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	_ = c.RegisterFlagCompletionFunc("node", cobra.FixedCompletions(
		[]string{"local", "sim:4xV100", "sim:2xP100", "sim:4xH200", "sim:8xA100"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func completeMixes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, m := range mixes.Catalog() {
		names = append(names, m.Name+"\t"+m.Description)
	}
	return names, cobra.ShellCompDirectiveDefault
}

// loadMix reads a mix file or looks a name up in the catalog.
func loadMix(arg string) (mixes.Mix, error) {
	if strings.ContainsRune(arg, filepath.Separator) || slices.Contains([]string{".yaml", ".yml", ".wl"}, filepath.Ext(arg)) {
		m, err := mixes.Load(arg)
		return m, usageError(err)
	}
	m, err := mixes.Lookup(arg)
	return m, usageError(err)
}

func runMix(c *cobra.Command, arg string, verbose bool) (err error) {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	if _, err := report.ParseFormat(settings.Format); err != nil {
		return usageError(err)
	}
	mix, err := loadMix(arg)
	if err != nil {
		return err
	}
	db, err := openStore(settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, infrastructureError(db.Close())) }()
	o, runErr := execute(c.Context(), request{config: settings, mix: mix, store: db, stderr: c.ErrOrStderr()})
	if o.run.ID == 0 {
		return runErr
	}
	tables := []*report.Table{report.RunSummary(o.run, o.jobs, o.devices, db.Path())}
	if verbose {
		tables = append(tables, report.DeviceTable(o.run, o.devices), report.JobTable(o.run, o.jobs))
	}
	if err := render(c, settings.Format, tables...); err != nil || runErr != nil {
		return errors.Join(runErr, err)
	}
	switch m := o.run.Metrics; {
	case m.OK == 0:
		return withStatus(exitNothing, fmt.Errorf("run %d measured nothing: none of its %d jobs ended ok", o.run.ID, o.run.Jobs))
	case o.run.Status == results.Complete && m.OK < o.run.Jobs:
		return withStatus(exitJobsFailed, fmt.Errorf("run %d: %d of %d jobs did not end ok; caserun report %d -v shows them",
			o.run.ID, o.run.Jobs-m.OK, o.run.Jobs, o.run.ID))
	}
	return nil
}
