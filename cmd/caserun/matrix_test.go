package main

import (
	"encoding/csv"
	"os"
	"strings"
	"testing"
)

// One argument, or none, compares the schedulers of one side.
func TestCompareSchedulers(t *testing.T) {
	inTempDir(t)
	if status, out, errs := caserun(t, "compare", "--db", "empty.db"); status == exitOK || out != "" || errs == "" {
		t.Errorf("without a store: exit %d: %s", status, errs)
	}
	simulate(t, "--scheds", "sa,cg:workers=8,case-alg3", "--reps", "5", "--mixes", "W7")
	status, latest, errs := caserun(t, "compare")
	if status != exitOK || errs != "" {
		t.Fatalf("compare: exit %d: %s", status, errs)
	}
	for _, want := range []string{"SIMULATED sweep:1 on sim:2xP100: 2 mixes, geometric means of ratios to sa", "scheduler  runs  crashed  throughput", "sa (base)", "survivors only"} {
		if !strings.Contains(latest, want) {
			t.Errorf("compare lacks %q:\n%s", want, latest)
		}
	}
	if _, named, _ := caserun(t, "compare", "sweep:1"); named != latest {
		t.Errorf("compare sweep:1 differs from compare:\n%s", named)
	}
	if _, out, _ := caserun(t, "compare", "--base", "cg"); !strings.Contains(out, "ratios to cg") || !strings.Contains(out, "cg (base)") {
		t.Errorf("--base cg:\n%s", out)
	}
	_, out, _ := caserun(t, "compare", "--by", "mix", "--metrics", "throughput,crashes")
	for _, want := range []string{"throughput, ratio to sa by mix", "crashed jobs by mix", "\nW1 ", "\nW7 ", "\ngeometric mean ", "\nall mixes ", " crashed"} {
		if !strings.Contains(out, want) {
			t.Errorf("--by mix lacks %q:\n%s", want, out)
		}
	}
	_, out, _ = caserun(t, "compare", "--by", "mix", "--format", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 7 || rows[0][0] != "mix" || rows[1][0] != "W1" || rows[6][0] != "W7" {
		t.Errorf("--by mix as csv: %v\n%s", err, out)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--base", "zero"}, exitUsage, "--base zero: sweep:1 has no run under it: want one of sa, cg, case-alg3"},
		{[]string{"--by", "node"}, exitUsage, "--by node: want mix"},
		{[]string{"latest/sa", "latest/cg", "--by", "mix"}, exitUsage, "--by is for one side"},
		{[]string{"latest/sa", "latest/cg", "--base", "sa"}, exitUsage, "--base is for one side"},
		{[]string{"--min-effect", "3"}, exitUsage, "--min-effect is for two sides"},
		{[]string{"a", "b", "c"}, exitUsage, "one argument too many"},
		{[]string{"sweep:1/sa"}, exitNothing, "under one scheduler alone"},
		{[]string{"no-such-tag"}, exitUsage, "no run has the tag no-such-tag"},
		{[]string{"sweep:9"}, exitUsage, "9"},
	} {
		status, out, errs := caserun(t, append([]string{"compare"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("compare %q: exit %d, want %d with %q: %s", c.args, status, c.status, c.says, errs)
		}
	}
}

// LaTeX tables and figures are of whatever runs are selected.
func TestExportMatrix(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,cg:workers=8", "--reps", "5", "--mixes", "W7", "--tag", "t")
	status, out, errs := caserun(t, "export", "--sweep", "latest", "--latex", "tables.tex", "--figures", "figures/of/sweep")
	if status != exitOK || errs != "" {
		t.Fatalf("exit %d: %s", status, errs)
	}
	for _, want := range []string{"tables.tex\n", "figures/of/sweep/throughput.svg\n", "figures/of/sweep/turnaround.png\n", "figures/of/sweep/makespan.pdf\n", "figures/of/sweep/crashes.pdf\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("export lacks %q:\n%s", want, out)
		}
	}
	status, tex, _ := caserun(t, "export", "--tag", "t", "--latex", "-", "--base", "cg")
	if status != exitOK {
		t.Fatalf("--latex -: exit %d", status)
	}
	for _, want := range []string{`\caption{The schedulers over 2 mixes, with geometric means of the ratios to cg, SIMULATED on sim:2xP100: t. The best of each column is in bold.}\label{tab:caserun-schedulers}`,
		"cg (base) &", `Throughput by mix and scheduler, as a ratio to that under cg (higher is better)`, `\label{tab:caserun-by-mix-turnaround}`, `\label{tab:caserun-medians}`} {
		if !strings.Contains(tex, want) {
			t.Errorf("LaTeX lacks %q:\n%s", want, tex)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--latex", "tables.tex"}, exitUsage, "tables.tex: file already exists"},
		{[]string{"--latex", "new.tex", "--figures", "figures/of/sweep"}, exitUsage, "figures/of/sweep/throughput.svg: file already exists"},
		{[]string{"--figures", "-"}, exitUsage, "--figures writes several files: name a directory"},
		{[]string{"--latex", "-", "--markdown", "-"}, exitUsage, "cannot both be standard output"},
		{[]string{"--csv", "c", "--base", "sa"}, exitUsage, "--base requires --latex or --figures"},
		{[]string{"--latex", "new.tex", "--base", "zero"}, exitUsage, "--base zero: the selection (20 runs, 1 to 20) has no run under it"},
		{[]string{"--figures", "f", "--sched", "sa"}, exitNothing, "are under one alone"},
	} {
		status, out, errs := caserun(t, append([]string{"export"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("export %q: exit %d, want %d with %q: %s", c.args, status, c.status, c.says, errs)
		}
	}
	if _, err := os.Stat("new.tex"); err == nil {
		t.Error("new.tex was written beside figures that could not be")
	}
	if status, out, errs := caserun(t, "export", "--latex", "-", "--sched", "sa"); status != exitOK || !strings.Contains(out, "Medians over the runs of each scheduler and mix, SIMULATED on sim:2xP100: the selection (10 runs, 2 to 19)") || strings.Contains(out, "ratio") {
		t.Errorf("LaTeX of one scheduler: exit %d: %s%s", status, errs, out)
	}
}
