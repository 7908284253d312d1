package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile"
)

func newRoot() *cobra.Command {
	version, revision := harness.Version()
	root := &cobra.Command{
		Use:   "caserun",
		Short: "Run batches of GPU jobs under co-scheduling policies, measure them, report",
		Long: `caserun turns job mixes (Rodinia, Darknet, or your own) into batches of
processes. It runs each batch under CASE or another scheduler, on the GPUs of
this machine or on a simulated node, measures it, stores it and reports.`,
		Example: `  caserun mix W7 --sched case-alg3 --node sim:4xV100
  caserun sweep --mixes W1..W8 --scheds sa,cg,case-alg3
  caserun compare latest`,
		Version:       fmt.Sprintf("%s (revision %s)", version, revision),
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{ownConfig: "none"},
		Args:          noCommand,
		RunE:          helpAlone,
	}
	root.SetVersionTemplate("caserun {{.Version}}\n")
	fitHelp(root, 0)
	root.PersistentFlags().String("config", "", "configuration `FILE` (default: CASERUN_CONFIG, or caserun.yaml if it exists)")
	root.PersistentFlags().Bool("show-config", false, "print the configuration in effect and exit")
	addCommands(root)
	completeFlags(root, flagCompletions())
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		config.WarnOfVariables(os.Environ(), sayTo(c))
		if err := refuseEmpty(c, args); err != nil {
			return err
		}
		return requireFlags(c)
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return config.SayWanted(c.Flags(), err) })
	showConfig(root)
	makeStrict(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	completionExamples(root)
	root.SetGlobalNormalizationFunc(config.FlagName)
	printCompletions(root)
	refuseUnknown(root)
	return root
}

// commandGroups are the groups of the program's help, each with its commands.
func commandGroups() []commandGroup {
	schedulers := newSchedulers()
	schedulers.AddCommand(newSchedulersTest())
	return []commandGroup{
		{"run", "Run", []*cobra.Command{newMix(), newSweep(), newProfile(), newReplay(), newDrain()}},
		{"look", "Look", []*cobra.Command{newReport(), newHistory(), newMixes(), schedulers}},
		{"compare", "Compare", []*cobra.Command{newCompare(), newPaper(), newPlace()}},
		{"files", "Files", []*cobra.Command{newExport(), newStore(), newData(), newMan()}},
		{"check", "Check", []*cobra.Command{newDoctor(), newRegress()}},
	}
}

type commandGroup struct {
	id, title string
	commands  []*cobra.Command
}

// addCommands adds all commands in their groups, and the help topics.
func addCommands(root *cobra.Command) {
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("look")
	root.SetCompletionCommandGroupID("files")
	root.AddCommand(
		&cobra.Command{Use: "environment", Short: "Settings as variables and in files", Long: config.About()},
		&cobra.Command{Use: "exit-codes", Aliases: []string{"exit-statuses"}, Short: "What each exit status means", Long: aboutStatuses()},
		&cobra.Command{Use: "formats", Short: "What --format prints, and the files of caserun export", Long: aboutFormats(root)},
		&cobra.Command{Use: "metrics", Short: "What runs are compared by", Long: aboutMetrics()},
		&cobra.Command{Use: topicSlurm, Short: "Spread a sweep over the nodes of a Slurm cluster", Long: aboutSlurm(root)})
}

// completionExamples gives each shell's command an example.
func completionExamples(root *cobra.Command) {
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // it has just been made
	}
	for _, shell := range c.Commands() {
		shell.Example = "  caserun completion " + shell.Name() + " >caserun." + shell.Name()
	}
}

// refuseUnknown makes an unknown word an error after help, and after a command that only has
// subcommands.
func refuseUnknown(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch {
		case c.Name() == "help":
			helpCommand(root, c)
		case c.IsAdditionalHelpTopicCommand():
		case !c.Runnable():
			c.Args, c.RunE = noCommand, helpAlone
		}
	}
}

// noCommand refuses a word after a command that has subcommands, and none of that name.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := near.DidYouMean("", args[0], subcommandsOf(c))
	if hint == "" {
		hint = c.CommandPath() + " --help lists them"
	}
	return fmt.Errorf("unknown command %q for %q: %s", args[0], c.CommandPath(), hint)
}

// subcommandsOf are the names of a command's subcommands, as users know them.
func subcommandsOf(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return names
}

// refuseHelp refuses to show help where a word of the call is unknown, because the help would be of another command than
// the one that is meant. The program does not tell cobra, which shows help, of errors: they are found in what it returns.
func refuseHelp(root *cobra.Command) (refused *error) {
	refused = new(error)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if *refused = unknownWord(c, c.Flags().Args()); *refused == nil {
			help(c, args)
		}
	})
	return refused
}

// unknownWord refuses a word after a help topic, and after help or a command with subcommands if it means nothing there.
func unknownWord(c *cobra.Command, words []string) error {
	switch {
	case len(words) == 0:
		return nil
	case c.IsAdditionalHelpTopicCommand():
		return fmt.Errorf("%q: %s is a help topic, and takes no arguments", words[0], c.CommandPath())
	case !c.HasSubCommands() && c.Name() != "help":
		return nil
	}
	if err := c.ValidateArgs(words); err != nil {
		return err
	}
	if hint := near.DidYouMean(c.CommandPath()+" ", words[0], subcommandsOf(c)); hint != "" && userfile.Absent(words[0]) {
		return fmt.Errorf("unknown command %q for %q: %s", words[0], c.CommandPath(), hint)
	}
	return nil
}

// noArguments refuses arguments of a command that takes none.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if hint := ofList(c); hint != "" {
		return fmt.Errorf("%q: %s takes no arguments: %s", args[0], c.CommandPath(), hint)
	}
	return fmt.Errorf("%q: %s takes no arguments, only flags: see %[2]s --help", args[0], c.CommandPath())
}

// ofList says how a list is written, after a flag that takes one. A word after its value may be meant for it.
func ofList(c *cobra.Command) string {
	for _, name := range []string{"mixes", "scheds", "probes"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return fmt.Sprintf("separate names of a list with commas, as in --%s a,b", name)
		}
	}
	return ""
}

// helpAlone is the work of a command that only has subcommands.
func helpAlone(c *cobra.Command, _ []string) error {
	if show, _ := c.Flags().GetBool("show-config"); show {
		return errors.New("--show-config: each command has settings of its own: name one, as in caserun mix --show-config")
	}
	return c.Help()
}

// requireFlags names a required flag that is missing, and what it is for. --show-config requires none; cobra, which
// would look for them once more, is not told of them.
func requireFlags(c *cobra.Command) (err error) {
	show, _ := c.Flags().GetBool("show-config")
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] == nil {
			return
		}
		if !show && !f.Changed && err == nil {
			kind, usage := pflag.UnquoteUsage(f)
			err = fmt.Errorf("--%s %s is missing: %s", f.Name, kind, usage)
		}
		if show {
			delete(f.Annotations, cobra.BashCompOneRequiredFlag)
		}
	})
	return err
}

// refuseEmpty refuses an empty argument, such as an unset variable. A program that the command runs may have some.
func refuseEmpty(c *cobra.Command, args []string) error {
	if c.Name() == cobra.ShellCompRequestCmd { // what is typed so far may be nothing
		return nil
	}
	if before := c.ArgsLenAtDash(); before >= 0 {
		args = args[:min(before+1, len(args))]
	}
	if at := slices.IndexFunc(args, func(arg string) bool { return strings.TrimSpace(arg) == "" }); at >= 0 {
		return fmt.Errorf("argument %d is empty: %s", at+1, c.UseLine())
	}
	return nil
}

// makeStrict makes all flags of a command and its subcommands strict.
func makeStrict(c *cobra.Command) {
	for _, sub := range c.Commands() {
		makeStrict(sub)
	}
	config.Strict(c.Flags())
	config.Strict(c.PersistentFlags())
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

// request is what a command is asked for.
type request interface {
	// settle reads arguments, flags and settings. What it refuses is wrong usage.
	settle(c *cobra.Command, args []string) error
	do(c *cobra.Command) error
}

// verb is a command's RunE.
func verb(r request) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := r.settle(c, args); err != nil {
			return err
		}
		if err := r.do(c); err != nil {
			return workError{err}
		}
		return nil
	}
}
