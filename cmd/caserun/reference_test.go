package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/schedulers/policies"
)

// The reference of commands and of schedulers is what the program has. Each part stands between the
// comments <!-- begin NAME --> and <!-- end NAME -->; -update writes it.
func TestReferencePages(t *testing.T) {
	c := commandReference(newRoot())
	for page, parts := range map[string]map[string]string{
		"commands.md":      {"list": c.list(), "settings": c.shared(true), "shared": c.shared(false), "commands": c.sections()},
		"exit-statuses.md": {"statuses": statusReference()},
		"configuration.md": {"variables": variableReference()},
		"schedulers.md":    {"schedulers": schedulerReference(policies.Listed()), "parameters": parameterReference(policies.Listed())},
	} {
		t.Run(page, func(t *testing.T) {
			path := filepath.Join("../../docs/reference", page)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := string(text)
			for _, name := range slices.Sorted(maps.Keys(parts)) {
				begin, end := "<!-- begin "+name+" -->\n", "\n<!-- end "+name+" -->\n"
				before, rest, found := strings.Cut(got, begin)
				_, after, closed := strings.Cut(rest, end)
				if !found || !closed {
					t.Fatalf("%s has no place for %s", page, name)
				}
				got = before + begin + "\n" + parts[name] + end + after
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("%s is not what the program has (-update writes it):\n%s", page, diff)
			}
		})
	}
}

// reference is what a page says of the program's commands. A flag that means the same in several
// commands is described once.
type reference struct {
	root     *cobra.Command
	commands []*cobra.Command // without the root
	uses     map[flagText]int // in how many commands a flag has this text
}

// flagText is a flag as the page describes it.
type flagText struct {
	name, value, standard, meaning string
	setting                        bool // a configuration file can give it too
}

func commandReference(root *cobra.Command) reference {
	r := reference{root: root, uses: map[flagText]int{}}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() {
				continue
			}
			r.commands = append(r.commands, sub)
			for _, f := range flagsOf(sub) {
				r.uses[f]++
			}
			if sub.Name() != "completion" { // its subcommands are the shells
				add(sub)
			}
		}
	}
	add(root)
	return r
}

// flagsOf are a command's own flags, without --help, which every command has.
func flagsOf(c *cobra.Command) (out []flagText) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		value, meaning := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		standard := f.DefValue
		if slices.Contains([]string{"", "0", "0s", "false", "[]"}, standard) {
			standard = ""
		}
		out = append(out, flagText{name, value, standard, meaning, config.IsSetting(f)})
	})
	return out
}

// list links to the commands, by the groups of the program's help.
func (r reference) list() string {
	titles := map[string]string{"": "Others"}
	groups := []string{}
	for _, g := range r.root.Groups() {
		titles[g.ID] = strings.TrimSuffix(g.Title, ":")
		groups = append(groups, g.ID)
	}
	var b strings.Builder
	for _, id := range append(groups, "") {
		var links []string
		group := ""
		for _, c := range r.commands {
			if c.Parent() == r.root {
				group = c.GroupID
			}
			if group == id {
				name := strings.TrimPrefix(c.CommandPath(), r.root.Name()+" ")
				links = append(links, "["+name+"](#"+strings.ReplaceAll(c.CommandPath(), " ", "-")+")")
			}
		}
		switch {
		case len(links) == 0:
		case len(groups) == 0:
			b.WriteString(strings.Join(links, ", ") + "\n")
		default:
			b.WriteString("- " + titles[id] + ": " + strings.Join(links, ", ") + "\n")
		}
	}
	return b.String()
}

// isShared reports whether a flag is described before the commands: it has one text in several
// commands, or is a setting that one command has.
func (r reference) isShared(f flagText) bool {
	commands := 0
	for other, n := range r.uses {
		if other.long() == f.long() {
			commands += n
		}
	}
	return r.uses[f] > 1 || f.setting && commands == 1
}

// shared are the flags that are described before the commands: settings, or the others.
func (r reference) shared(settings bool) string {
	rows := [][]string{{"flag", "default", "meaning"}}
	flags := slices.SortedFunc(maps.Keys(r.uses), func(a, b flagText) int { return strings.Compare(a.long()+a.meaning, b.long()+b.meaning) })
	for _, f := range flags {
		if f.setting == settings && r.isShared(f) {
			rows = append(rows, f.row())
		}
	}
	return referenceTable(rows)
}

// sections are the commands with the flags that only they have, and the names of the others.
func (r reference) sections() string {
	var b strings.Builder
	for i, c := range r.commands {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "### %s\n\n%s: `%s`\n", c.CommandPath(), cell(c.Short), strings.TrimSuffix(c.UseLine(), " [flags]"))
		rows, also := [][]string{{"flag", "default", "meaning"}}, []string(nil)
		for _, f := range flagsOf(c) {
			if r.isShared(f) {
				also = append(also, "`"+f.long()+"`")
			} else {
				rows = append(rows, f.row())
			}
		}
		if len(rows) > 1 {
			b.WriteString("\n" + referenceTable(rows))
		}
		if len(also) > 0 {
			fmt.Fprintf(&b, "\nShared flags: %s.\n", strings.Join(also, ", "))
		}
	}
	return b.String()
}

// statusReference are the exit statuses.
func statusReference() string {
	rows := [][]string{{"status", "meaning"}}
	for _, s := range exitStatuses() {
		rows = append(rows, []string{s.numbers(), s.meaning})
	}
	return referenceTable(rows)
}

// variableReference are the variables that are not settings. Variables with one meaning share a row.
func variableReference() string {
	rows := [][]string{{"variable", "meaning"}}
	for _, v := range config.OtherVariables() {
		name := "`" + v.Name + "`"
		if strings.HasSuffix(v.Name, "_") {
			name = "`" + v.Name + "*`"
		}
		if last := rows[len(rows)-1]; last[1] == v.Meaning {
			last[0] += ", " + name
		} else {
			rows = append(rows, []string{name, v.Meaning})
		}
	}
	return referenceTable(rows)
}

// long is a flag's name without its letter.
func (f flagText) long() string { return f.name[strings.Index(f.name, "--"):] }

func (f flagText) row() []string {
	flag, standard := "`"+strings.TrimSpace(f.name+" "+f.value)+"`", ""
	if f.standard != "" {
		standard = "`" + f.standard + "`"
	}
	return []string{flag, standard, cell(f.meaning)}
}

func schedulerReference(all []policies.Info) string {
	rows := [][]string{{"scheduler", "chooses a device for each", "rule", "source"}}
	for _, s := range all {
		rows = append(rows, []string{"`" + s.Name + "`", string(s.Binds), cell(s.Rule), cell(s.Source)})
	}
	return referenceTable(rows)
}

// parameterReference has a parameter of several schedulers once, with the default of each.
func parameterReference(all []policies.Info) string {
	type parameter struct{ name, meaning string }
	type standard struct {
		value      string
		schedulers []string
	}
	defaults := map[parameter][]standard{}
	var order []parameter
	for _, s := range all {
		for _, p := range s.Params {
			key := parameter{p.Name, p.Help}
			if defaults[key] == nil {
				order = append(order, key)
			}
			i := slices.IndexFunc(defaults[key], func(d standard) bool { return d.value == p.Default })
			if i < 0 {
				i = len(defaults[key])
				defaults[key] = append(defaults[key], standard{value: p.Default})
			}
			defaults[key][i].schedulers = append(defaults[key][i].schedulers, s.Name)
		}
	}
	rows := [][]string{{"parameter", "meaning", "default: schedulers"}}
	for _, key := range order {
		var texts []string
		for _, d := range defaults[key] {
			value := "none"
			if d.value != "" {
				value = "`" + d.value + "`"
			}
			texts = append(texts, value+": "+strings.Join(d.schedulers, ", "))
		}
		rows = append(rows, []string{"`" + key.name + "`", cell(key.meaning), strings.Join(texts, "; ")})
	}
	return referenceTable(rows)
}

var namedPage = regexp.MustCompile(`docs/([\w-]+/([\w-]+\.md))`)

// cell is text as a table of Markdown shows it, with links to the pages that it names.
func cell(text string) string {
	text = strings.ReplaceAll(namedPage.ReplaceAllString(text, "[$2](../$1)"), "(../reference/", "(")
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, "\n", " ").Replace(text)
}

func referenceTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}
