package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page of each command and help topic",
		Long: `Write a manual page of each command and help topic to DIR, which is made if
it does not exist. make install puts them where man(1) finds them.`,
		Example:     "  caserun man ~/.local/share/man/man1 && man caserun-mix",
		Args:        named("DIR"),
		Annotations: map[string]string{ownConfig: "none"},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: verb(func(_ *cobra.Command, args []string) (string, error) { return args[0], nil }, func(c *cobra.Command, dir string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("make the directory for manual pages: %w", err)
			}
			if err := checkPages(dir); err != nil {
				return err
			}
			version, _ := harness.Version()
			root := c.Root()
			asMarkdown(root)
			var topics []*cobra.Command // which doc leaves out
			var names []string
			for _, sub := range root.Commands() {
				if sub.IsAdditionalHelpTopicCommand() {
					topics = append(topics, sub)
					names = append(names, strings.ReplaceAll(sub.CommandPath(), " ", "-")+"(1)")
				}
			}
			root.Long += "\n\nHelp topics: " + strings.Join(names, ", ")
			// The pages have today's date, or that of SOURCE_DATE_EPOCH.
			header := &doc.GenManHeader{Section: "1", Source: "caserun " + version, Manual: "caserun"}
			if err := doc.GenManTree(root, header, dir); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			for _, topic := range topics {
				if err := doc.GenManTree(topic, header, dir); err != nil {
					return fmt.Errorf("write manual pages: %w", err)
				}
			}
			return nil
		}),
	}
}

// checkPages refuses pages of an earlier version that are not files, because they would be written through links.
func checkPages(dir string) error {
	pages, err := fs.Glob(os.DirFS(dir), "caserun*.1")
	for _, name := range pages {
		err = errors.Join(err, report.CheckChosen(filepath.Join(dir, name)))
	}
	return err
}

// asMarkdown turns the help of a command and of its subcommands into what package doc reads. Lines
// that are indented are kept as they are.
func asMarkdown(c *cobra.Command) {
	c.DisableAutoGenTag = true
	var b strings.Builder
	kept := false
	for line := range strings.Lines(c.Long) {
		blank := strings.TrimSpace(line) == ""
		if keep := strings.HasPrefix(line, " ") || kept && blank; keep != kept {
			kept = keep
			b.WriteString("\n```\n")
		}
		b.WriteString(line)
	}
	if kept {
		b.WriteString("\n```\n")
	}
	c.Long = b.String()
	for _, sub := range c.Commands() {
		asMarkdown(sub)
	}
}
