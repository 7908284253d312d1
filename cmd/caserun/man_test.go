package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has a page, which has its purpose, its subcommands' names and all its flags.
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
		flag := func(f *pflag.Flag) {
			if f.Deprecated == "" && !f.Hidden {
				wants = append(wants, "--"+f.Name)
			}
		}
		c.NonInheritedFlags().VisitAll(flag)
		c.InheritedFlags().VisitAll(flag)
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() {
				continue
			}
			wants = append(wants, "\\fB"+strings.ReplaceAll(sub.CommandPath(), " ", "-")+"(1)\\fP")
			check(sub)
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	check(newRoot())
	for _, topic := range newRoot().Commands() {
		if topic.IsAdditionalHelpTopicCommand() {
			check(topic)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "caserun.1")); err != nil || !strings.Contains(strings.ReplaceAll(string(text), `\-`, "-"), "caserun-exit-codes(1)") {
		t.Errorf("caserun.1 does not lead to the help topics: %v", err)
	}
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

// The lists in help keep their lines, and no text is lost.
func TestManualPageKeepsLists(t *testing.T) {
	dir := inTempDir(t)
	if status, _, errs := caserun(t, "man", dir); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	page, err := os.ReadFile(filepath.Join(dir, "caserun-compare.1"))
	if err != nil {
		t.Fatal(err)
	}
	text, list := strings.ReplaceAll(string(page), `\-`, "-"), newCompare().Long
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "  ") && !strings.Contains(text, line) {
			t.Errorf("the page lacks %q", line)
		}
	}
	if !strings.Contains(text, ".EX\n") {
		t.Errorf("no list keeps its lines:\n%s", text)
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

// A page is not written through a link.
func TestManFollowsNoLink(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"precious": "precious", "man1/other": ""})
	if err := os.Symlink(filepath.Join(dir, "precious"), "man1/caserun-mix.1"); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "man", "man1"); status != exitInfrastructure || !strings.Contains(errs, "man1/caserun-mix.1: it exists and is not a regular file") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if text := mustRead(t, "precious"); text != "precious" {
		t.Errorf("the file of others has %.20q", text)
	}
}
