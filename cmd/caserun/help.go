package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
)

// fitHelp makes help as wide as tables, and not wider than the terminal of so many columns, 0 for none.
func fitHelp(root *cobra.Command, columns int) {
	width := report.Width
	if columns > 0 {
		width = min(width, columns)
	}
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(c.OutOrStderr(), usage(c, width))
		return err
	})
}

// usage says how a command is called.
func usage(c *cobra.Command, width int) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	b.WriteString(subcommands(c))
	if own := flagsOfTopic(c, ""); own.HasAvailableFlags() {
		b.WriteString("\nFlags:\n" + own.FlagUsagesWrapped(width))
	}
	if flagsOfTopic(c, topicSlurm).HasAvailableFlags() {
		fmt.Fprintf(&b, "  caserun help %s has the flags that go with --slurm\n", topicSlurm)
	}
	if c.HasAvailableInheritedFlags() {
		var names []string
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			names = append(names, strings.TrimSpace("--"+f.Name+" "+value))
		})
		fmt.Fprintf(&b, "\nFlags of every command (caserun --help): %s\n", strings.Join(names, ", "))
	}
	return b.String()
}

// subcommands lists the commands of a command, in their groups if it has any, and its help topics.
func subcommands(c *cobra.Command) string {
	var b strings.Builder
	var topics [][2]string
	listed := map[string][][2]string{}
	for _, sub := range c.Commands() {
		switch row := [2]string{sub.Name(), sub.Short}; {
		case sub.IsAvailableCommand() || sub.Name() == "help":
			listed[sub.GroupID] = append(listed[sub.GroupID], row)
		case sub.IsAdditionalHelpTopicCommand():
			topics = append(topics, row)
		}
	}
	groups := append([]*cobra.Group{{Title: "Commands:"}}, c.Groups()...)
	for _, g := range groups {
		if len(listed[g.ID]) > 0 {
			if g.ID == "" || g == groups[1] {
				b.WriteString("\n")
			}
			b.WriteString(g.Title + "\n" + report.Pairs(listed[g.ID], 11))
		}
	}
	if len(topics) > 0 {
		fmt.Fprintf(&b, "\nAdditional help topics (%s help TOPIC):\n%s", c.CommandPath(), report.Pairs(topics, 11))
	}
	return b.String()
}

// ofTopic annotates a flag that a help topic describes, and not the help of its command.
const ofTopic = "help-topic"

const topicSlurm = "slurm"

// flagsOfTopic are the flags of a command that a topic describes; "": those that its own help describes.
func flagsOfTopic(c *cobra.Command, topic string) *pflag.FlagSet {
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if of := append(f.Annotations[ofTopic], ""); of[0] == topic {
			out.AddFlag(f)
		}
	})
	return out
}

func aboutStatuses() string {
	var rows [][2]string
	for _, s := range exitStatuses() {
		rows = append(rows, [2]string{s.numbers(), plainText.ReplaceAllString(s.meaning, "")})
	}
	return "An exit status names a kind of end, and is never a count. stderr has the reason.\n\n" +
		report.Pairs(rows, 0) + "\ndocs/reference/exit-statuses.md says when each command has which."
}

// plainText matches what marks text in documents.
var plainText = regexp.MustCompile("[`\\\\]")

func aboutFormats(root *cobra.Command) string {
	var tables [][2]string
	for _, f := range report.Formats() {
		tables = append(tables, [2]string{string(f), f.About()})
	}
	return "--format of the commands that print tables:\n\n" + report.Pairs(tables, 0) +
		"\nFiles that caserun export writes:\n\n" + report.Pairs(fileFlags(root, "export"), 0) +
		"\ndocs/reference/exports.md has the columns and fields."
}

// fileFlags are the flags of a command that name a file or a directory to write.
func fileFlags(root *cobra.Command, command string) (rows [][2]string) {
	c, _, err := root.Find([]string{command})
	if err != nil {
		panic(err) // it is in the list above
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		value, meaning := pflag.UnquoteUsage(f)
		if (value == "FILE" || value == "DIR") && !config.IsSetting(f) {
			rows = append(rows, [2]string{"--" + f.Name + " " + value, meaning})
		}
	})
	return rows
}

func aboutMetrics() string {
	var rows [][2]string
	for _, m := range regress.Metrics() {
		unit := m.Unit
		if unit == "" {
			unit = "-"
		}
		name := m.Name
		if m.Compared == results.IfNamed {
			name += " *"
		}
		rows = append(rows, [2]string{fmt.Sprintf("%-20s%s", name, unit), m.About + m.Needs})
	}
	return `These metrics can be named in --metrics of caserun compare and caserun export,
--max-regression of caserun regress and --trend of caserun report. A run has one
value of each. Those with * are shown only if they are named. Of an open load
turnaround-p95 is shown, and throughput and makespan are only if they are named.

` + report.Pairs(rows, 0) + "\ndocs/reference/statistics.md describes the tests of comparisons, and\ndocs/reference/store.md what a run has."
}

func aboutSlurm(root *cobra.Command) string {
	c, _, err := root.Find([]string{"sweep"})
	if err != nil {
		panic(err) // it is in the list above
	}
	return `caserun sweep --slurm cuts the plan into parts and submits them as an array job:
each task does one part on one node. --dry-run shows the parts and the call of
sbatch, and submits nothing. docs/guide/cluster.md has the whole way.

  caserun sweep nightly.yaml --slurm --gres gpu:4 --time 1h --dry-run
  caserun sweep nightly.yaml --slurm --gres gpu:4 --time 1h --collect
  caserun sweep --resume latest --slurm --collect
  caserun sweep status
  caserun sweep cancel

Flags of caserun sweep that go with --slurm:
` + strings.TrimSuffix(flagsOfTopic(c, topicSlurm).FlagUsagesWrapped(report.TextWidth), "\n")
}

// helpCommand makes an unknown word after help an error, and completes topics too.
func helpCommand(root, help *cobra.Command) {
	help.Example = "  caserun help sweep status\n  caserun help metrics"
	help.Args = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		switch {
		case err != nil:
			return err
		case about.IsAdditionalHelpTopicCommand():
			return unknownWord(about, rest)
		}
		return noCommand(about, rest)
	}
	help.RunE = func(_ *cobra.Command, args []string) error {
		about, _, err := root.Find(args)
		if err != nil {
			return err
		}
		about.InitDefaultHelpFlag()
		about.InitDefaultVersionFlag()
		return about.Help()
	}
	help.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
		about, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, sub := range about.Commands() {
			if !sub.Hidden && (sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() || sub == help) {
				offers = append(offers, sub.Name()+"\t"+sub.Short)
			}
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
}
