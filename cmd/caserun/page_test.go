package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// isLastPage fails unless a page is the one that caserun report --html writes.
func isLastPage(t *testing.T, path string, selecting ...string) {
	t.Helper()
	status, want, errs := caserun(t, append([]string{"report", "--html", "-"}, selecting...)...)
	if got, err := os.ReadFile(path); err != nil || status != exitOK || string(got) != want {
		t.Errorf("%s has %d bytes (%v), and report --html %q %d: exit %d: %s", path, len(got), err, selecting, len(want), status, errs)
	}
}

// A sweep and a mix leave the page that report writes, also where the sweep is resumed.
func TestSweepHTML(t *testing.T) {
	inTempDir(t)
	t.Setenv("CASERUN_NODE", "sim:1xV100")
	sweep := []string{"sweep", "--mixes", "W1", "--scheds", "sa,cg", "--reps", "2", "--html", "page.html"}
	if status, _, errs := caserun(t, append(sweep, "--jobs", "2")...); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	isLastPage(t, "page.html", "--sweep", "1")
	status, out, errs := caserun(t, append(sweep, "--seed", "2", "--part", "1/2")...)
	if text, err := os.ReadFile("page.html"); err != nil || status != exitOK || strings.Contains(string(text), `role="status"`) {
		t.Errorf("a part: exit %d (%v): %s%s", status, err, out, errs)
	}
	isLastPage(t, "page.html", "--sweep", "2")
	for _, resumed := range []string{"left.html", "complete.html"} {
		if status, _, errs := caserun(t, "sweep", "--resume", "2", "--html", resumed); status != exitOK {
			t.Errorf("exit %d: %s", status, errs)
		}
		isLastPage(t, resumed, "--sweep", "2")
	}
	t.Setenv("CASERUN_HTML", "mix.html")
	if status, _, errs := caserun(t, "mix", "W1"); status != exitOK {
		t.Errorf("exit %d: %s", status, errs)
	}
	isLastPage(t, "mix.html", "latest")
	for _, args := range [][]string{{"sweep", "--mixes", "W1", "--scheds", "sa", "--dry-run"}, {"sweep", "--mixes", "W1", "--scheds", "sa", "--plan-only"}, {"report"}} {
		t.Setenv("CASERUN_HTML", "none.html")
		if status, _, errs := caserun(t, args...); status != exitOK {
			t.Errorf("%q: exit %d: %s", args, status, errs)
		}
		if _, err := os.Stat("none.html"); err == nil {
			t.Errorf("%q with CASERUN_HTML writes a page", args)
		}
	}
}

// What cannot have a page is refused before anything is stored.
func TestSweepHTMLIsRefused(t *testing.T) {
	inTempDir(t)
	if err := os.WriteFile("notes.txt", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, says := range map[string]string{
		"--html notes.txt":             "it exists and is not a page of caserun report",
		"--html caserun.db":            "that is a file of the store",
		"--html -":                     "html -: it cannot be standard input or output",
		"--html log --log-json log":    "--html log: that is the file of --log-json",
		"--html none/page.html":        "the directory none does not exist",
		"--html page.html --dry-run":   "--html cannot be combined with --dry-run",
		"--html page.html --plan-only": "--html cannot be combined with --plan-only: give it with --resume",
		"--html page.html --slurm":     "caserun report --sweep NUMBER --html FILE writes the page of the runs that are collected",
		"--html page.html --reps 1001": "the sweep has 1001 runs and a page takes 1000",
	} {
		status, _, errs := caserun(t, append([]string{"sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:1xV100"}, strings.Fields(flags)...)...)
		if status != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, want %q: %s", flags, status, says, errs)
		}
	}
	if status, out, _ := caserun(t, "sweep", "list", "--format", "json"); status != exitOK || strings.Contains(out, "W1") {
		t.Errorf("exit %d: %s", status, out)
	}
}

// A sweep that is stopped leaves a page that says how far it was.
func TestInterruptedSweepHTML(t *testing.T) {
	dir := t.TempDir()
	c := process(dir, "sweep", "--mixes", "D-128", "--scheds", "sa", "--node", "sim:2xV100", "--reps", "1000", "--html", "page.html")
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "page.html"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	for ended := false; !ended && !strings.Contains(read(), " of 1000 runs, written at "); { // until the first run has ended
		pid, err := syscall.Wait4(c.Process.Pid, nil, syscall.WNOHANG, nil)
		ended = pid != 0 || err != nil
	}
	if !strings.Contains(read(), `http-equiv="refresh"`) {
		t.Error("the page of an unfinished sweep does not reload itself")
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	mustStop(t, c, exitInterrupted)
	if text := read(); !strings.Contains(text, "The command was stopped before the last run.") || strings.Contains(text, `http-equiv="refresh"`) {
		t.Errorf("the last page does not say that the sweep was stopped: %s", said.String())
	}
}
