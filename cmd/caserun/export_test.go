package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

func TestExportForms(t *testing.T) {
	dir := inTempDir(t)
	for _, sched := range []string{"sa", "cg"} {
		if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:2xP100", "--sched", sched, "--tag", "t-"+sched); status > exitJobsFailed {
			t.Fatalf("exit %d: %s", status, errs)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		out    string // in what is printed
	}{
		{[]string{"--jsonl", "j", "latest"}, exitOK, filepath.Join("j", "run.jsonl")},
		{[]string{"--markdown", "-", "--sched", "sa"}, exitOK, "SIMULATED"},
		{[]string{"--markdown", "runs.md", "--benchfmt", "-"}, exitOK, "BenchmarkMix/mix=W1/jobs=16/sched=sa/node=sim:2xP100 1 "},
		{[]string{"--markdown", "runs.md"}, exitUsage, "runs.md: file already exists: name another, or replace it with --force"},
		{[]string{"--markdown", "runs.md", "--force"}, exitOK, "runs.md"},
		{[]string{"--benchfmt", "b.txt", "--tag", "t-cg"}, exitOK, "b.txt"},
		{[]string{"--benchfmt", filepath.Join("none", "b.txt")}, exitUsage, "none/b.txt: the directory none does not exist: make it, or name another"},
		{[]string{"--bundle", "b.tar.gz", "2"}, exitOK, "b.tar.gz"},
		{[]string{"--bundle", "b.tar.gz"}, exitUsage, "file already exists"},
		{[]string{"--bundle", "/dev/full"}, exitInfrastructure, "bundle /dev/full: write member manifest.json: no space left on device"},
		{[]string{"--bundle", os.DevNull}, exitOK, os.DevNull},
		{[]string{"--bundle", "-", "--markdown", "-"}, exitUsage, "cannot both be standard output"},
		{[]string{"--bundle", "b.zip"}, exitUsage, "want a name that ends in .tar.gz"},
		{[]string{"--bundle", "c.tar.gz", "--mix", "W2"}, exitNothing, "no runs match"},
		{[]string{"--csv", "c", "--jsonl", "c", "--mix", "W2"}, exitNothing, "no runs match"},
		{[]string{"--markdown", "c", "--tag", "typo"}, exitNothing, "no runs match"},
		{[]string{"--benchfmt", "-", "--tag", "typo"}, exitNothing, "no runs match"},
		{[]string{"--csv", "c", "1", "--mix", "W2"}, exitUsage, "run 1 (W1 under sa on sim:2xP100, simulated) is not among those that the flags select"},
		{[]string{"--csv", "c", "1", "2", "--last", "1"}, exitUsage, "--last 1 is for a list"},
		{[]string{"--perfetto", "t.pftrace", "latest"}, exitOK, "t.pftrace"},
		{[]string{"--perfetto", "t.pftrace"}, exitUsage, "t.pftrace: file already exists"},
		{[]string{"--perfetto", "-", "1", "2"}, exitOK, "SIMULATED run 2: W1 under cg on sim:2xP100"},
		{[]string{"--perfetto", "-", "--markdown", "-"}, exitUsage, "--markdown and --perfetto cannot both be standard output"},
		{[]string{"--perfetto", "caserun.db", "--force"}, exitUsage, "write caserun.db: that is a file of the store caserun.db"},
		{[]string{"--parquet", "p", "latest"}, exitOK, filepath.Join("p", "utilization.parquet")},
		{[]string{"--parquet", "p"}, exitUsage, filepath.Join("p", "cell.parquet") + ": file already exists"},
		{[]string{"--parquet", "c", "--tag", "typo"}, exitNothing, "no runs match"},
		{[]string{"--parquet", "-"}, exitUsage, "--parquet writes several files: name a directory, not -"},
		{[]string{"--csv", "-"}, exitUsage, "name a directory"},
		{[]string{"--markdown", "caserun.db", "--force"}, exitUsage, "write caserun.db: that is a file of the store caserun.db"},
		{[]string{"--markdown", os.DevNull, "--benchfmt", os.DevNull}, exitOK, os.DevNull},
		{[]string{"--csv", "tables/csv", "--markdown", filepath.Join(dir, "tables", "csv", "runs.md")}, exitOK, "runs.md"},
		{[]string{"--jsonl", "-"}, exitUsage, "name a directory"},
		{nil, exitUsage, "name at least one of --csv"},
		{[]string{"--markdown", "-", "--benchfmt", "-"}, exitUsage, "cannot both be standard output"},
		{[]string{"--csv", "c", "99"}, exitUsage, "run 99: no such run"},
		{[]string{"--csv", "c", "--sweep", "1"}, exitUsage, "no such sweep"},
		{[]string{"--csv", "c", "--sweep", "last"}, exitUsage, "want a sweep's number, or latest"},
	} {
		status, out, errs := caserun(t, append([]string{"export"}, c.args...)...)
		if status != c.status || !strings.Contains(out+errs, c.out) {
			t.Errorf("export %v: exit %d, want %d with %q:\n%s%s", c.args, status, c.status, c.out, out, errs)
		}
		if c.status == exitNothing && out != "" {
			t.Errorf("export %v: nothing is selected, and stdout has %q", c.args, out)
		}
	}
	for _, name := range []string{"c", "c.tar.gz", "-"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("an export that was refused left %s", name)
		}
	}
	if left, err := filepath.Glob(".*"); err != nil || len(left) != 0 {
		t.Errorf("temporary files are left: %v (%v)", left, err)
	}
	lines := 0
	file, err := os.Open("b.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for r := benchfmt.NewReader(file, "b.txt"); r.Scan(); {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			if lines++; !strings.Contains(string(rec.Name), "sched=cg/") {
				t.Errorf("--tag t-cg exported %s", rec.Name)
			}
		case *benchfmt.SyntaxError:
			t.Error(rec)
		}
	}
	if lines != 1 {
		t.Errorf("%d benchmarks, want 1", lines)
	}
}

// Standard output has the data and nothing else, whatever its name.
func TestExportToStandardOutput(t *testing.T) {
	dir := inTempDir(t)
	simulate(t, "--scheds", "sa")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := caserun(t, "export", "--benchfmt", "-")
	for _, name := range []string{"-", "/dev/stdout", "/proc/self/fd/1", filepath.Join(dir, "out.txt")} {
		out, err := os.Create("out.txt")
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		c := exec.Command(program, "export", "--benchfmt", name, "--markdown", "runs.md", "--force")
		c.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
		c.Stdout, c.Stderr = out, &errs
		if err := errors.Join(c.Run(), out.Close()); err != nil || errs.String() != "caserun: wrote runs.md\n" {
			t.Errorf("--benchfmt %s: %v, stderr %q", name, err, errs.String())
		}
		if text, err := os.ReadFile("out.txt"); err != nil || string(text) != want {
			t.Errorf("--benchfmt %s: %v, stdout\n%s\nwant\n%s", name, err, text, want)
		}
	}
	if status, _, errs := caserun(t, "export", "--benchfmt", "-", "--markdown", "/dev/stdout"); status != exitUsage || !strings.Contains(errs, "cannot both be standard output") {
		t.Errorf("both to standard output: exit %d: %s", status, errs)
	}
}

// An export that cannot be done as a whole leaves nothing.
func TestExportIsRefusedAsAWhole(t *testing.T) {
	dir := inTempDir(t)
	t.Setenv("CASERUN_DB", "store/runs.db")
	if err := os.Mkdir("store", 0o755); err != nil {
		t.Fatal(err)
	}
	simulate(t, "--scheds", "sa")
	if err := errors.Join(os.WriteFile("have.tar.gz", []byte("mine"), 0o644), os.Mkdir("d", 0o755),
		os.WriteFile("d/run.csv", []byte("mine"), 0o644), os.Symlink("d", "link"), os.Symlink("nowhere", "dangling")); err != nil {
		t.Fatal(err)
	}
	before, err := filepath.Glob("*")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--csv", "new", "--bundle", "have.tar.gz"}, "have.tar.gz: file already exists"},
		{[]string{"--parquet", "new", "--csv", "d"}, "d/run.csv: file already exists"},
		{[]string{"--jsonl", "new", "--csv", "d"}, "d/run.csv: file already exists"},
		{[]string{"--markdown", "m.md", "--benchfmt", "none/x"}, "none/x: the directory none does not exist"},
		{[]string{"--markdown", "m.md", "--csv", "have.tar.gz/new"}, "not a directory"},
		{[]string{"--markdown", "same.md", "--benchfmt", "same.md", "--force"}, "same.md: that is same.md, which another export writes: name another"},
		{[]string{"--markdown", filepath.Join(dir, "same.md"), "--benchfmt", "./same.md"}, "which another export writes"},
		{[]string{"--csv", "new", "--parquet", "new/run.csv"}, "new/run.csv: another export makes the directory new/run.csv"},
		{[]string{"--csv", "dangling"}, "dangling: it is a link to nowhere, which does not exist"},
		{[]string{"--csv", "have.tar.gz"}, "have.tar.gz: it is not a directory"},
		{[]string{"--csv", "d", "--markdown", "link/run.csv", "--force"}, "link/run.csv: that is d/run.csv, which another export writes"},
	} {
		if status, out, errs := caserun(t, append([]string{"export"}, c.args...)...); status != exitUsage || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("export %v: exit %d, want %d with %q: %s%s", c.args, status, exitUsage, c.says, out, errs)
		}
		after, err := filepath.Glob("*")
		if err != nil || !slices.Equal(after, before) {
			t.Fatalf("export %v left %v (%v), before were %v", c.args, after, err, before)
		}
	}
	for name, args := range map[string][]string{
		"a directory that the export makes": {"--csv", "new/tables", "--markdown", "new/runs.md"},
		"what is no file, beside others":    {"--markdown", "/dev/null", "--jsonl", "new"},
	} {
		if status, _, errs := caserun(t, append([]string{"export"}, args...)...); status != exitOK {
			t.Errorf("%s: exit %d: %s", name, status, errs)
		}
	}
}

func TestReportOfABundleIsThatOfTheStore(t *testing.T) {
	dir := inTempDir(t)
	if status, _, errs := caserun(t, "sweep", "--mixes", "W1,W7", "--scheds", "sa,case-alg3", "--node", "sim:4xV100", "--reps", "1", "--sim-noise", "0"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "export", "--sweep", "latest", "--bundle", "b.tar.gz"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	for _, args := range [][]string{
		{"report"}, {"report", "latest", "-v"}, {"report", "--format", "json"}, {"report", "2", "--format", "csv"}, {"compare", "1", "2"},
		{"export", "--benchfmt", "-"}, {"sweep", "show", "latest"},
	} {
		status, want, errs := caserun(t, args...)
		if status != exitOK {
			t.Fatalf("%v: exit %d: %s", args, status, errs)
		}
		status, got, errs := caserun(t, append(args, "--db", "b.tar.gz")...)
		got = strings.ReplaceAll(got, filepath.Join(dir, "b.tar.gz"), filepath.Join(dir, "caserun.db"))
		if status != exitOK || got != want {
			t.Errorf("%v of the bundle: exit %d: %s\n%s\nwant\n%s", args, status, errs, got, want)
		}
	}
	whole, err := os.ReadFile("b.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("short.tar.gz", whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	status, _, errs := caserun(t, "report", "--db", "short.tar.gz")
	if status != exitInfrastructure || !strings.Contains(errs, "short.tar.gz: member ") || !strings.Contains(errs, "the file is damaged") {
		t.Errorf("a bundle that is cut short: exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:4xV100", "--db", "b.tar.gz"); status != exitUsage || !strings.Contains(errs, "b.tar.gz is a bundle, which is read only") {
		t.Errorf("a run into a bundle: exit %d: %s", status, errs)
	}
}

// Two sweeps that are alike make bundles that are alike, figures included.
func TestEqualSweepsMakeEqualBundles(t *testing.T) {
	var bundles [2]string
	for i := range bundles {
		inTempDir(t)
		for _, args := range [][]string{
			{"sweep", "--mixes", "W1..W8", "--scheds", "sa,case-alg3", "--node", "sim:4xV100", "--reps", "2", "--db", "runs.db"},
			{"export", "--bundle", "b.tar.gz", "--db", "runs.db"},
		} {
			if status, _, errs := caserun(t, args...); status != exitOK {
				t.Fatalf("%v: exit %d: %s", args, status, errs)
			}
		}
		text, err := os.ReadFile("b.tar.gz")
		if err != nil {
			t.Fatal(err)
		}
		bundles[i] = string(text)
	}
	if bundles[0] != bundles[1] {
		t.Error("the bundles differ")
	}
}
