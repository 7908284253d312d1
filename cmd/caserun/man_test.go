package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	if status, _, errs := caserun(t, "man", "file/man1"); status != exitUsage || !strings.Contains(errs, "file") {
		t.Errorf("exit %d: %s", status, errs)
	}
}

// A page of an earlier version is replaced, and its other name keeps it. What is not a page needs --force, and is not written
// through a link even then. A call that is refused writes nothing.
func TestManReplacesItsPagesAlone(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"precious": "precious", "man1/caserun-mix.1": ".nh\n.TH \"CASERUN\\-MIX\" \"1\" an earlier page\n"})
	const page = "man1/caserun-mix.1"
	if err := os.Link(page, "kept.1"); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "man", "man1"); status != exitOK || !strings.Contains(mustRead(t, page), ".SH NAME") || !strings.Contains(mustRead(t, "kept.1"), "an earlier page") {
		t.Errorf("over an earlier page: exit %d: %s", status, errs)
	}
	for _, c := range []struct {
		link  func(string, string) error
		force []string
		says  string
	}{
		{os.Link, nil, page + ": it exists and is not a manual page of caserun: name another, or replace it with --force"},
		{os.Link, []string{"--force"}, ""},
		{os.Symlink, nil, page + ": it exists and is not a regular file"},
		{os.Symlink, []string{"--force"}, page + ": it exists and is not a regular file"},
		{func(_, path string) error { return syscall.Mkfifo(path, 0o600) }, []string{"--force"}, page + ": it exists and is not a regular file"},
	} {
		old, err := os.ReadDir("man1")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range old {
			if err := os.Remove(filepath.Join("man1", f.Name())); err != nil {
				t.Fatal(err)
			}
		}
		precious, err := filepath.Abs("precious")
		if err := errors.Join(err, c.link(precious, page)); err != nil {
			t.Fatal(err)
		}
		want := exitOK
		if c.says != "" {
			want = exitUsage
		}
		if status, _, errs := caserun(t, append([]string{"man", "man1"}, c.force...)...); status != want || !strings.Contains(errs, c.says) {
			t.Errorf("exit %d: %s, want %q", status, errs, c.says)
		}
		if text := mustRead(t, "precious"); text != "precious" {
			t.Errorf("the other file has %.20q", text)
		}
		if left, err := os.ReadDir("man1"); err != nil || (len(left) == 1) != (want == exitUsage) {
			t.Errorf("%d files (%v)", len(left), err)
		}
	}
	if status, _, errs := caserun(t, "man", "-"); status != exitUsage || !strings.Contains(errs, "name a directory, not -") {
		t.Errorf("exit %d: %s", status, errs)
	}
}
