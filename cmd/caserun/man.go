package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/runner/harness"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page of each command",
		Long: `Write a manual page of each command to DIR, which is made if it does not
exist. make install puts them where man(1) finds them.`,
		Example:     "  caserun man ~/.local/share/man/man1 && man caserun-mix",
		Args:        named("DIR"),
		Annotations: map[string]string{ownConfig: "none"},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: verb(func(_ *cobra.Command, args []string) (string, error) {
			if args[0] == "" {
				return "", fmt.Errorf("the directory's name is empty: name one, such as man1")
			}
			return args[0], nil
		}, func(c *cobra.Command, dir string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("make the directory for manual pages: %w", err)
			}
			return writePages(c.Root(), dir)
		}),
	}
}

// writePages writes the pages of a command and of those below it.
func writePages(c *cobra.Command, dir string) error {
	path := filepath.Join(dir, pageName(c)+".1")
	if err := os.WriteFile(path, []byte(manualPage(c)), 0o644); err != nil {
		return fmt.Errorf("write manual page: %w", err)
	}
	for _, sub := range c.Commands() {
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// pageName is what man(1) is asked for: caserun-mixes-show.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage is a command's help in the format of man(7). It has no date, so that the same build
// writes the same page. (cobra/doc reads help as Markdown, which joins the lines of its lists.)
func manualPage(c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	version, _ := harness.Version()
	var p page
	p.line(`.TH "%s" 1 "" "caserun %s" "caserun"`, roff(strings.ToUpper(pageName(c))), roff(version))
	p.line(".nh")
	p.line(".SH NAME\n%s \\- %s", roff(pageName(c)), roff(c.Short))
	p.line(".SH SYNOPSIS\n\\fB%s\\fR", roff(c.UseLine()))
	if c.Long != "" {
		p.line(".SH DESCRIPTION")
		p.text(c.Long)
	}
	var also []string
	if c.HasParent() {
		also = append(also, pageName(c.Parent()))
	}
	if c.HasSubCommands() {
		p.line(".SH COMMANDS")
		for _, sub := range c.Commands() {
			p.line(".TP\n\\fB%s\\fR\n%s", roff(sub.Name()), roff(sub.Short))
			also = append(also, pageName(sub))
		}
	}
	p.flags("OPTIONS", c.NonInheritedFlags())
	p.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		p.line(".SH EXAMPLES")
		p.text(c.Example)
	}
	p.line(".SH SEE ALSO")
	for i, name := range also {
		comma := ","
		if i == len(also)-1 {
			comma = ""
		}
		p.line(".BR %s (1)%s", roff(name), comma)
	}
	return p.String()
}

// page is text in the format of man(7).
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text fills paragraphs, and keeps lines that are indented as they are.
func (p *page) text(s string) {
	kept := false
	for line := range strings.Lines(strings.Trim(s, "\n") + "\n") {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			p.line(".PP")
			continue
		}
		if keep := line[0] == ' ' || line[0] == '\t'; keep != kept {
			kept = keep
			p.line("%s", map[bool]string{true: ".nf", false: ".fi"}[keep])
		}
		p.line("%s", roff(line))
	}
	if kept {
		p.line(".fi")
	}
}

func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.line(".SH %s", title)
	flags.VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		p.line(".TP\n\\fB%s\\fR \\fI%s\\fR", roff(name), roff(kind))
		p.line("%s", roff(usage+defaultOf(f)))
	})
}

// defaultOf says a flag's default unless it is empty or zero.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return fmt.Sprintf(" (default %s)", f.DefValue)
}

// roff escapes a line of text. No line begins with a request by accident.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "\t", "        ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}
