package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results/report"
)

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	version, revision := buildVersion()
	root := &cobra.Command{
		Use:   "caserun",
		Short: "Run batches of GPU jobs under co-scheduling policies, measure them, report",
		Long: `caserun turns job mixes (Rodinia, Darknet, or your own) into batches of
processes, runs each batch under CASE or a baseline scheduler on the GPUs of
this machine or on a simulated node, measures what happens, keeps it in SQLite
and reports.

Settings come from flags, then CASERUN_* in the environment (CASERUN_MEM_CAP
for --mem-cap), then caserun.yaml in the working directory, then defaults.

Exit status: 0 ok; 1 jobs failed; 2 usage or configuration; 3 infrastructure;
4 nothing or too little measured; 99 a regression; 130 and 143 stopped by a
signal.`,
		Version:       fmt.Sprintf("%s (revision %s)", version, revision),
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{ownConfig: "none"},
		RunE: func(c *cobra.Command, _ []string) error {
			if show, _ := c.Flags().GetBool("show-config"); show {
				return usageError(errors.New("--show-config: each command has settings of its own: name one, as in caserun mix --show-config"))
			}
			return c.Help()
		},
	}
	root.SetVersionTemplate("caserun {{.Version}}\n")
	root.PersistentFlags().String("config", "", "configuration `FILE` (default caserun.yaml where it exists)")
	root.PersistentFlags().Bool("show-config", false, "print the configuration in effect and exit")
	root.AddCommand(newMix(), newSweep(), newMixes(), newSchedulers(), newReport(), newExport(), newCompare(), newRegress(), newPaper(), newProfile(), newDoctor(), newData())
	showConfig(root)
	return root
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
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			return settings.print(c.OutOrStdout())
		}
		return work(c, a)
	}
}

// render prints tables in the configured format, with an empty line between.
func render(c *cobra.Command, format string, tables ...*report.Table) error {
	f, err := report.ParseFormat(format)
	if err != nil {
		return usageError(err)
	}
	w := c.OutOrStdout()
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := t.Render(w, f, report.Options{Color: isTerminal(w) && os.Getenv("NO_COLOR") == ""}); err != nil {
			return infrastructureError(fmt.Errorf("print table: %w", err))
		}
	}
	return nil
}
