package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/pages"
	"github.com/caserun/caserun/runner/runlog"
	"github.com/caserun/caserun/userfile/output"
)

// addFormatFlag adds --format with its completion, and -v for wide tables unless the command
// has a -v of its own.
func addFormatFlag(c *cobra.Command) {
	config.AddFormatFlag(c.Flags())
	if c.Flags().Lookup("verbose") == nil {
		c.Flags().BoolP("verbose", "v", false, "print every column of tables")
	}
}

// filterFlags are the flags that select runs of a store.
type filterFlags struct{ selection.Filter }

// addTo adds the flags, which are not settings even if they have a setting's name, and their
// completions.
func (f *filterFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Mix, "mix", "", "only runs of this `MIX`")
	flags.StringVar(&f.Sched, "sched", "", "only runs under this `SCHEDULER`, or of the arm of that name")
	flags.StringVar(&f.Node, "node", "", "only runs on this `NODE`")
	flags.StringVar(&f.Sweep, "sweep", "", "only runs of this `SWEEP`: its number, or latest")
	flags.StringVar(&f.Tag, "tag", "", "only runs with this `TAG`")
	config.AddCountFlag(flags, &f.Last, "last", "only the last `N` of the selected runs")
	flags.BoolVar(&f.Warmups, "warmups", false, "also the warm-up runs of sweeps, which are not measurements")
	flags.BoolVar(&f.Excluded, "excluded", false, "also the runs that caserun store exclude has taken out")
	config.NoSetting(flags, "sched", "node", "tag")
	_ = c.RegisterFlagCompletionFunc("mix", fromStore(selection.OfferMixes))
	_ = c.RegisterFlagCompletionFunc("sched", fromStore(selection.OfferArms))
	_ = c.RegisterFlagCompletionFunc("node", fromStore(selection.OfferNodes))
}

// addBaseFlag adds the flag that names the scheduler to which ratios are.
func addBaseFlag(c *cobra.Command, base *string) {
	c.Flags().StringVar(base, "base", "", "`ARM` to which ratios are (default: sa, or the first)")
	_ = c.RegisterFlagCompletionFunc("base", fromStore(selection.OfferArms))
}

// addMetricsFlag adds the flag that names what is compared.
func addMetricsFlag(c *cobra.Command, names *[]string) {
	config.AddListFlag(c.Flags(), names, "metrics", "compare only these `METRICS`; caserun help metrics lists them")
}

// byMix is the only value of --by.
const byMix = "mix"

// named takes an argument for each name. An error says which argument is missing.
func named(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing: %s", names[len(args)], c.UseLine())
		}
		return atMostArgs(len(names))(c, args)
	}
}

// atMostArgs takes up to so many arguments.
func atMostArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%q is one argument too many: %s", args[n], c.UseLine())
		}
		return nil
	}
}

// atMostOne takes one argument or none.
var atMostOne = atMostArgs(1)

// logFlag is --log-json of a command that makes runs.
type logFlag struct{ path string }

func (f *logFlag) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "log-json", "", "add what happens in the runs to `FILE`, one JSON object a line")
}

// open opens the log, or gives none if the flag is not set. The store must exist, so that it can
// be spared. done must be called at the end of the runs.
func (f logFlag) open(c *cobra.Command, db string) (log harness.Log, done func() error, err error) {
	if f.path == "" {
		return nil, func() error { return nil }, nil
	}
	if f.path == "-" {
		return nil, nil, refuse("--log-json -: standard output has the tables: name a file, or /dev/stderr")
	}
	if err := harness.SpareStore(db, f.path); err != nil {
		return nil, nil, err
	}
	l, err := runlog.Open(c.Context(), f.path, waiting(c))
	if err != nil {
		return nil, nil, err
	}
	return l, l.Close, nil
}

// openPage checks the file of --html, of so many runs, before the first run. It is nil if there is none. The store must
// exist, so that it can be spared.
func (f logFlag) openPage(c *cobra.Command, settings config.Settings, db *store.Store, runs int) (*pages.Growing, error) {
	switch {
	case settings.HTML == "":
		return nil, nil
	case f.path != "" && output.Same(f.path, settings.HTML):
		return nil, refuse("--html %s: that is the file of --log-json: name another", settings.HTML)
	}
	return pages.Open(c.Context(), settings.HTML, db, runs, sayTo(c))
}

// conflict is two flags that cannot be combined, and why or what to do.
type conflict struct{ flag, other, says string }

// refuseConflicts refuses flags that cannot be combined.
func refuseConflicts(flags *pflag.FlagSet, conflicts []conflict) error {
	for _, c := range conflicts {
		if isGiven(flags, c.flag) && isGiven(flags, c.other) {
			return fmt.Errorf("--%s cannot be combined with --%s: %s", c.flag, c.other, c.says)
		}
	}
	return nil
}

// requireFlag refuses a flag that requires another.
func requireFlag(flags *pflag.FlagSet, name, other string) error {
	if isGiven(flags, name) && !isGiven(flags, other) {
		return fmt.Errorf("--%s requires --%s", name, other)
	}
	return nil
}

// isGiven reports whether a flag is given, and not as --flag=false.
func isGiven(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	return f != nil && f.Changed && (f.Value.Type() != "bool" || f.Value.String() == "true")
}
