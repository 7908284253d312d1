package main

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"
)

// A sweep's arms keep their names and their order in every command.
func TestNamedArms(t *testing.T) {
	inTempDir(t)
	const list = "fifo:=case-alg3:queue=fifo,sa,case-alg3:age-limit=1/8"
	sweep := func(status int, args ...string) (out, errs string) {
		t.Helper()
		got, out, errs := caserun(t, append([]string{"sweep", "--mixes", "W1", "--node", "sim:2xP100", "--reps", "1"}, args...)...)
		if got != status {
			t.Fatalf("sweep %q: exit %d: %s", args, got, errs)
		}
		return out, errs
	}
	names := []string{"fifo", "sa", "case-alg3:age-limit=1", "case-alg3:age-limit=8"}
	plan, _ := sweep(exitOK, "--scheds", list, "--dry-run", "--format", "csv")
	if got := column(t, plan, "arm"); len(got) != 4 || !slices.Contains(got, names[0]) || !slices.Contains(got, names[3]) {
		t.Errorf("--dry-run: %q", got)
	}
	medians, _ := sweep(exitOK, "--scheds", list, "--tag", "x", "--format", "csv")
	if got := column(t, medians, "arm"); !slices.Equal(got, names) {
		t.Errorf("sweep: %q", got)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"compare --base fifo --format csv", names},
		{"compare --format csv", []string{"sa", "fifo", names[2], names[3]}}, // the base is first
		{"compare tag:x --base case-alg3:age-limit=8 --format csv", []string{names[3], "fifo", "sa", names[2]}},
		{"report --sched fifo --format csv", []string{"fifo"}},
		{"sweep show latest --format csv", names},
		{"regress --baseline latest/fifo --candidate latest/sa --format csv --allow-simulated", []string{"fifo"}},
	} {
		_, out, errs := caserun(t, strings.Fields(c.args)...)
		if got := slices.Compact(column(t, out, "arm")); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q: %s", c.args, got, c.want, errs)
		}
	}
	if status, _, errs := caserun(t, "export", "--csv", "tables"); status != exitOK {
		t.Fatalf("export: %s", errs)
	}
	text, err := os.ReadFile("tables/run.csv")
	if err != nil {
		t.Fatal(err)
	}
	if got := column(t, string(text), "arm"); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(names))) {
		t.Errorf("exported: %q", got)
	}
	if _, errs := sweep(exitUsage, "--scheds", strings.Replace(list, "fifo:=", "first:=", 1), "--resume", "latest"); !strings.Contains(errs, "was planned with --scheds fifo:=case-alg3:queue=fifo,") {
		t.Errorf("--resume with another name: %s", errs)
	}
	sweep(exitOK, "--scheds", list, "--resume", "latest")
	if _, errs := sweep(exitUsage, "--scheds", "a:=sa,a:=cg"); !strings.Contains(errs, "a is the name of sa and of cg: give each a name of its own") {
		t.Errorf("a name twice: %s", errs)
	}
	if _, errs := sweep(exitUsage, "--scheds", "a:=sa,b:=sa"); !strings.Contains(errs, "a:=sa and b:=sa are both sa") {
		t.Errorf("an arm twice: %s", errs)
	}
	sweep(exitOK, "--scheds", "sa,fifo:=case-alg3:queue=sjf", "--tag", "x", "--seed", "2")
	status, out, errs := caserun(t, "compare", "tag:x")
	if status != exitOK || !strings.Contains(out, "several arms are named fifo, so they are called by their schedulers here") || strings.Contains(out, "\nfifo ") {
		t.Errorf("two arms of one name: exit %d: %s\n%s", status, errs, out)
	}
	if out, _ := mustRun(t, "store", "merge", "--add", "all.db", "caserun.db"); !strings.Contains(out, "several arms are named fifo, so they are called by their schedulers here") {
		t.Errorf("a merge of two arms of one name does not say so:\n%s", out)
	}
}

// A sweep's file names and scans arms too.
func TestArmsOfSweepFiles(t *testing.T) {
	inTempDir(t)
	dry := func(scheds string) (status int, out, errs string) {
		t.Helper()
		file := "mixes: [W1]\nreps: 1\nnode: sim:2xP100\nscheds:\n  - " + scheds + "\n"
		if err := os.WriteFile("s.yaml", []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		return caserun(t, "sweep", "s.yaml", "--dry-run", "--format", "csv")
	}
	for scheds, want := range map[string][]string{
		"fifo:=case-alg3:queue=fifo": {"fifo"},
		"cg:workers=2/4":             {"cg:workers=2", "cg:workers=4"},
		"{sched: case-alg3, name: old, queue: fifo, age-limit: [1, 8]}": {"old-1", "old-8"},
		"{sched: cg, workers: 3}":  {"cg"},
		"{sched: sa, name: alone}": {"alone"},
	} {
		status, out, errs := dry(scheds)
		if got := column(t, out, "arm"); status != exitOK || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s: exit %d, %q: %s", scheds, status, got, errs)
		}
	}
	for scheds, says := range map[string]string{
		"fifo: case-alg3:queue=fifo":              "s.yaml:5:9: an item of scheds is without sched: write sched: case-alg3",
		"{sched: case-alg3, age-limit: []}":       "age-limit is an empty list",
		"{sched: case-alg3, age-limit: [1, 1]}":   "want values that differ",
		"{sched: case-alg3, age-limit: [1/2, 3]}": `age-limit "1/2": want a value without a comma, and in a list without /`,
		"{sched: [sa, cg]}":                       "sched is a list: want one",
		"{sched: sa, name: cg}":                   "cg is the name of a scheduler",
		"{sched: sa, name: }":                     "name has no value",
	} {
		if status, out, errs := dry(scheds); status != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, want %q: %s", scheds, status, says, errs)
		}
	}
}

// column is a column of a table as csv.
func column(t *testing.T, text, name string) (values []string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("not a table: %v: %s", err, text)
	}
	at := slices.Index(rows[0], name)
	if at < 0 {
		t.Fatalf("no column %s: %q", name, rows[0])
	}
	for _, row := range rows[1:] {
		values = append(values, row[at])
	}
	return values
}
