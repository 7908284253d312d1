package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReportHTML(t *testing.T) {
	inTempDir(t)
	for _, sched := range []string{"sa", "case-alg3"} {
		if status, _, errs := caserun(t, "mix", "W1", "--sched", sched, "--node", "sim:2xP100"); status != exitOK {
			t.Fatalf("exit status %d: %s", status, errs)
		}
	}
	page := func(args ...string) string {
		t.Helper()
		status, out, errs := caserun(t, append([]string{"report", "--html", "page.html"}, args...)...)
		if status != exitOK || out != "page.html\n" || errs != "" {
			t.Fatalf("report --html %q: exit %d, stdout %q, stderr %q", args, status, out, errs)
		}
		text, err := os.ReadFile("page.html")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	both := page()
	for _, want := range []string{"SIMULATED Run 1: W1 under sa on sim:2xP100", "SIMULATED Run 2: W1 under case-alg3", `id="comparison"`} {
		if !strings.Contains(both, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if both != page("1", "2", "latest") {
		t.Error("the same runs, one of them named twice, give another page")
	}
	if second := page("--sched", "case-alg3"); strings.Contains(second, "Run 1:") || !strings.Contains(second, "Run 2:") {
		t.Error("--sched does not select")
	}

	if based := page("--base", "case-alg3"); based == both || !strings.Contains(based, "ratios to case-alg3") || !strings.Contains(both, "ratios to sa") {
		t.Error("--base does not say what ratios are to")
	}
	page()

	if status, out, errs := caserun(t, "report", "--html", "-"); status != exitOK || out != both || errs != "" {
		t.Errorf("--html -: exit %d, stderr %q, and %d bytes on stdout, want the page's %d", status, errs, len(out), len(both))
	}
	if status, out, errs := caserun(t, "report", "1", "--sched", "sa", "--mix", "W1"); status != exitOK || !strings.Contains(out, "W1") {
		t.Errorf("a run that the flags select: exit %d: %s", status, errs)
	}
	if err := os.WriteFile("notes.txt", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--html", "notes.txt"}, exitUsage, "notes.txt: it exists and is not a page"},
		{[]string{"--html", "caserun.db"}, exitUsage, "caserun.db: it exists and is not a page"},
		{[]string{"--html", "none/page.html"}, exitUsage, "write none/page.html: the directory none does not exist: make it, or name another"},
		{[]string{"--html", ""}, exitUsage, "--html is empty: name a file, or leave it out"},
		{[]string{"--html", "x.html", "--mix", "W2"}, exitNothing, "no run"},
		{[]string{"--html", "x.html", "9"}, exitUsage, "run 9"},
		{[]string{"--html", "x.html", "1", "--sched", "case-alg3"}, exitUsage, "run 1 (W1 under sa on sim:2xP100, simulated) is not among"},
		{[]string{"1", "--mix", "W2"}, exitUsage, "is not among those that the flags select"},
		{[]string{"1", "--last", "1"}, exitUsage, "--last 1 is for a list"},
		{[]string{"--html", "x.html", "--base", "zero"}, exitUsage, "--base zero: this page has no run under it: want one of sa, case-alg3"},
		{[]string{"--base", "sa"}, exitUsage, "--base requires --html: for a table, caserun compare --base sa"},
		{[]string{"--html", "x.html", "--format", "csv"}, exitUsage, "--html cannot be combined with --format, which is for tables"},
		{[]string{"--html", "x.html", "-v"}, exitUsage, "--html cannot be combined with --verbose"},
		{[]string{"--html", "x.html", "1", "--slowdown", "1"}, exitUsage, "--html cannot be combined with --slowdown"},
	} {
		status, out, errs := caserun(t, append([]string{"report"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("report %q: exit %d, want %d with %q: %s", c.args, status, c.status, c.says, errs)
		}
	}
	if text, err := os.ReadFile("notes.txt"); err != nil || string(text) != "mine" {
		t.Errorf("notes.txt is %q now (%v)", text, err)
	}
	if _, err := os.Lstat("-"); err == nil {
		t.Error("--html - made a file of that name")
	}
	if left, err := filepath.Glob("*.html"); err != nil || len(left) != 1 {
		t.Errorf("pages: %v (%v)", left, err)
	}
	if left, err := filepath.Glob(".caserun-*"); err != nil || len(left) != 0 {
		t.Errorf("files left behind: %v (%v)", left, err)
	}
}
