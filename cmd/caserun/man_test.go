package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has a page, which has its purpose, its subcommands and all its flags.
func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(inTempDir(t), "share", "man1")
	if status, _, errs := caserun(t, "man", dir); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	pages := map[string]bool{}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		pages[name] = true
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			return
		}
		page := strings.ReplaceAll(string(text), `\-`, "-")
		wants := []string{".SH NAME\n", " - " + c.Short + "\n"}
		c.InitDefaultHelpFlag()
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { wants = append(wants, "--"+f.Name) })
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { wants = append(wants, "--"+f.Name) })
		for _, sub := range c.Commands() {
			wants = append(wants, "\n\\fB"+sub.Name()+"\\fR\n"+sub.Short+"\n")
			check(sub)
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	check(newRoot())
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !pages[f.Name()] {
			t.Errorf("%s is of no command", f.Name())
		}
	}
}

// The lists in help keep their lines, text around them is filled, and no text is a request.
func TestManualPageKeepsLists(t *testing.T) {
	c := &cobra.Command{Use: "x A", Short: "Do x", Long: "Text\n.TH is text, and so is \\n:\n\n  one  1\n  two  2\n\n'More'."}
	want := ".SH DESCRIPTION\nText\n\\&.TH is text, and so is \\en:\n.PP\n.nf\n  one  1\n  two  2\n.PP\n.fi\n\\&'More'.\n.SH OPTIONS\n"
	if got := manualPage(c); !strings.Contains(got, want) {
		t.Errorf("got:\n%s\nwant in it:\n%s", got, want)
	}
}

func TestManWantsADirectory(t *testing.T) {
	dir := inTempDir(t)
	if status, _, errs := caserun(t, "man"); status != exitUsage || !strings.Contains(errs, "DIR is missing") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "man", "file/man1"); status != exitInfrastructure || !strings.Contains(errs, "file") {
		t.Errorf("exit %d: %s", status, errs)
	}
}
