package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
)

func newRoot() *cobra.Command {
	version, revision := harness.Version()
	root := &cobra.Command{
		Use:   "caserun",
		Short: "Run batches of GPU jobs under co-scheduling policies, measure them, report",
		Long: `caserun turns job mixes (Rodinia, Darknet, or your own) into batches of
processes. It runs each batch under CASE or a baseline scheduler, on the GPUs of
this machine or on a simulated node. It measures what happens, keeps it in
SQLite and reports.

Settings come from flags, then CASERUN_* in the environment (CASERUN_MEM_CAP
for --mem-cap), then caserun.yaml in the working directory or the file that
--config or CASERUN_CONFIG names, then defaults. They are what caserun mix
--show-config prints; other flags are flags only. An unknown CASERUN_* variable
gives a warning.

Exit status:

  0              ok
  1              jobs failed, or a policy broke a rule
  2              usage or configuration
  3              infrastructure
  4              nothing or too little measured
  99             a regression
  129, 130, 143  stopped by SIGHUP, SIGINT, SIGTERM
  141            nobody reads standard output any more`,
		Version:       fmt.Sprintf("%s (revision %s)", version, revision),
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{ownConfig: "none"},
		RunE:          helpAlone,
	}
	root.SetVersionTemplate("caserun {{.Version}}\n")
	fitHelp(root, 0)
	root.PersistentFlags().String("config", "", "configuration `FILE` (default: CASERUN_CONFIG, or caserun.yaml if it exists)")
	root.PersistentFlags().Bool("show-config", false, "print the configuration in effect and exit")
	schedulers := newSchedulers()
	schedulers.AddCommand(newSchedulersTest())
	root.AddCommand(newMix(), newSweep(), newMixes(), schedulers, newReport(), newExport(), newCompare(), newReplay(), newRegress(), newPaper(), newProfile(), newHistory(), newStore(), newDoctor(), newData(), newMan())
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		warnOfVariables(os.Environ(), sayTo(c))
		if show, _ := c.Flags().GetBool("show-config"); !show {
			if err := requireFlags(c); err != nil {
				return err
			}
		}
		return refuseEmptyNames(c)
	}
	root.SetFlagErrorFunc(sayWanted)
	showConfig(root)
	takeDecimals(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	completeBashLists(root)
	refuseUnknown(root)
	return root
}

// fitHelp makes the help of flags as wide as tables, and not wider than the terminal of so many
// columns, 0 for none.
func fitHelp(root *cobra.Command, columns int) {
	width := report.Width
	if columns > 0 {
		width = min(width, columns)
	}
	root.SetUsageTemplate(strings.ReplaceAll(usageTemplate, ".FlagUsages", ".FlagUsagesWrapped "+strconv.Itoa(width)))
}

var usageTemplate = (&cobra.Command{}).UsageTemplate()

// refuseUnknown makes an unknown word an error after help, and after a command that only has
// subcommands.
func refuseUnknown(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch {
		case c.Name() == "help":
			c.RunE = func(c *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err == nil {
					err = cobra.NoArgs(about, rest)
				}
				if err != nil {
					return err
				}
				about.InitDefaultHelpFlag()
				about.InitDefaultVersionFlag()
				return about.Help()
			}
		case !c.Runnable():
			c.Args, c.RunE = noCommand, helpAlone
		}
	}
}

// noCommand refuses a word after a command that has subcommands, and none of that name.
func noCommand(c *cobra.Command, args []string) error {
	err := cobra.NoArgs(c, args)
	if err == nil {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	if hint := near.DidYouMean("", args[0], names); hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return err
}

// noArguments refuses arguments of a command that takes none.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%q: %s takes no arguments, only flags: see %[2]s --help", args[0], c.CommandPath())
}

// helpAlone is the work of a command that only has subcommands.
func helpAlone(c *cobra.Command, _ []string) error {
	if show, _ := c.Flags().GetBool("show-config"); show {
		return errors.New("--show-config: each command has settings of its own: name one, as in caserun mix --show-config")
	}
	return c.Help()
}

// sayWanted replaces a library's error about a flag's value by what the flag wants.
func sayWanted(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var flags []string
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if hint := near.DidYouMean("--", unknown.GetSpecifiedName(), flags); hint != "" {
			return fmt.Errorf("%w: %s", err, hint)
		}
	}
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		f := missing.GetFlag()
		kind, usage := pflag.UnquoteUsage(f)
		return fmt.Errorf("--%s needs a value, %s: %s", f.Name, kind, usage)
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		return fmt.Errorf("--%s %q: %w", bad.GetFlag().Name, bad.GetValue(), config.Wanted(bad.GetFlag(), bad.GetValue(), bad.Unwrap()))
	}
	return err
}

// requireFlags names a required flag that is missing, and what it is for.
func requireFlags(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed && err == nil {
			kind, usage := pflag.UnquoteUsage(f)
			err = fmt.Errorf("--%s %s is missing: %s", f.Name, kind, usage)
		}
	})
	return err
}

// takeDecimals makes the whole numbers of all commands decimal.
func takeDecimals(c *cobra.Command) {
	for _, sub := range c.Commands() {
		takeDecimals(sub)
	}
	config.Decimal(c.Flags())
}

// warnOfVariables names the variables that look like settings and are not.
func warnOfVariables(environment []string, say harness.Say) {
	var known []string
	for _, name := range config.Variables() {
		known = append(known, strings.TrimPrefix(name, config.VariablePrefix))
	}
	for _, name := range config.UnknownVariables(environment) {
		hint := near.DidYouMean(config.VariablePrefix, strings.TrimPrefix(name, config.VariablePrefix), known)
		if hint == "" {
			hint = "caserun help environment lists all settings"
		}
		say("unknown setting %s (ignored): %s", name, hint)
	}
}

// refuseEmptyNames refuses a file or a directory without a name, such as the value of an unset
// variable, because its absence would go unnoticed. An empty setting is allowed: it undoes the
// setting of a file or of the environment.
func refuseEmptyNames(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		kind, _ := pflag.UnquoteUsage(f)
		what := map[string]string{"FILE": "file", "DIR": "directory"}[kind]
		if what != "" && f.Value.String() == "" && !config.IsKey(f.Name) && f.Name != "config" {
			err = fmt.Errorf("--%s is empty: name a %s, or leave it out", f.Name, what)
		}
	})
	return err
}

// ownConfig annotates a command that answers --show-config itself.
const ownConfig = "own-config"

// showConfig makes every command with settings answer --show-config.
func showConfig(c *cobra.Command) {
	for _, sub := range c.Commands() {
		showConfig(sub)
	}
	if c.RunE == nil || c.Annotations[ownConfig] != "" {
		return
	}
	work, args := c.RunE, c.Args
	c.Args = func(c *cobra.Command, a []string) error {
		if show, _ := c.Flags().GetBool("show-config"); show || args == nil {
			return nil
		}
		return args(c, a)
	}
	c.RunE = func(c *cobra.Command, a []string) error {
		if show, _ := c.Flags().GetBool("show-config"); show {
			settings, err := load(c)
			if err != nil {
				return err
			}
			return printSettings(c, settings)
		}
		return work(c, a)
	}
}

// verb is a command's RunE in two steps. settle reads arguments, flags and settings. What settle
// refuses is wrong usage. work does what was asked.
func verb[Options any](settle func(*cobra.Command, []string) (Options, error), work func(*cobra.Command, Options) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		o, err := settle(c, args)
		if err != nil {
			return err
		}
		if err := work(c, o); err != nil {
			return workError{err}
		}
		return nil
	}
}
