package main

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile/output"
)

func newMan() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page of each command and help topic",
		Long: `Write a manual page of each command and help topic to DIR, which is made if
it does not exist. Pages of an earlier version are replaced, and another file of
a page's name only with --force. make install puts the pages where man(1) finds
them.`,
		Example:     "  caserun man ~/.local/share/man/man1 && man caserun-mix",
		Args:        named("DIR"),
		Annotations: map[string]string{ownConfig: "none"},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == stdoutName {
				return errors.New("man writes several files: name a directory, not -")
			}
			if err := writeManual(c, args[0], force); err != nil {
				return workError{err}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace files that exist")
	return c
}

// manualPage is the kind of file that writeManual makes.
var manualPage = output.Kind{Name: "a manual page of caserun", Is: func(begin []byte) bool {
	return bytes.HasPrefix(begin, []byte(".nh\n.TH \"CASERUN"))
}}

// writeManual writes the page of each command and help topic to a directory. They get their names together.
func writeManual(c *cobra.Command, dir string, force bool) (err error) {
	if err := output.MakeDirectory(dir); err != nil {
		return err
	}
	policy := output.Chosen(force)
	policy.Own = &manualPage
	pages := output.NewSet(c.Context(), policy)
	defer func() { err = errors.Join(err, pages.Discard()) }()
	root := c.Root()
	asMarkdown(root)
	var topics []string // which doc leaves out
	for _, sub := range root.Commands() {
		if sub.IsAdditionalHelpTopicCommand() {
			topics = append(topics, strings.ReplaceAll(sub.CommandPath(), " ", "-")+"(1)")
		}
	}
	root.Long += "\n\nHelp topics: " + strings.Join(topics, ", ")
	version, _ := harness.Version()
	eachPage(root, func(c *cobra.Command) {
		if err != nil {
			return
		}
		path := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		// The pages have today's date, or that of SOURCE_DATE_EPOCH.
		header := &doc.GenManHeader{Section: "1", Source: "caserun " + version, Manual: "caserun"}
		err = pages.Write(path, func(w io.Writer) error { return doc.GenMan(c, header, w) })
	})
	if err != nil {
		return err
	}
	return pages.Commit()
}

// eachPage visits the commands that have pages.
func eachPage(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			eachPage(sub, visit)
		}
	}
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
