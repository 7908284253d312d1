package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// The example of docs/guide/nightly.md: a baseline, a night as fast, one in which jobs
// take 10 % longer, one that measured nothing.
func TestNightlyExample(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := exec.Command("bash", "../../.ci/nightly.sh", dir)
	c.Env = append(os.Environ(), mainEnv+"=1", "CASERUN="+program, "GORACE=atexit_sleep_ms=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, name := range []string{"unchanged.xml", "unchanged.md", "slower.xml", "slower.md", "missing.xml"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(text) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// simulate makes a sweep of W1, with what is behind it as further flags.
func simulate(t *testing.T, flags ...string) {
	t.Helper()
	args := append([]string{"sweep", "--mixes", "W1", "--node", "sim:2xP100", "--sim-noise", "0.01"}, flags...)
	if status, _, errs := caserun(t, args...); status != exitOK {
		t.Fatalf("%v: exit %d: %s", args, status, errs)
	}
}

func TestRegressStatuses(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "sa")
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "again", "--seed", "2")
	simulate(t, "--scheds", "sa", "--reps", "2", "--tag", "few", "--seed", "3")
	simulate(t, "--scheds", "cg:workers=8", "--reps", "7", "--tag", "last")
	if err := os.WriteFile("mine.csv", []byte("a,b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   []string // on stdout or stderr
	}{
		{[]string{"--baseline", "sa", "--candidate", "again"}, exitOK, []string{"SIMULATED", "all 3 checks pass"}},
		{[]string{"--baseline", "sweep:1", "--candidate", "tag:again"}, exitOK, []string{"all 3 checks pass"}},
		{[]string{"--baseline", "sa", "--candidate", "few"}, exitNothing, []string{"too few: measure", "2 checks measured too little to say (of 3)"}},
		{[]string{"--baseline", "sa", "--candidate", "gone"}, exitUsage, []string{"not measured", "--candidate gone: no run has the tag gone in caserun.db"}},
		{[]string{"--baseline", "sa", "--candidate", "20261121"}, exitUsage, []string{"not measured", "no run has the number or the tag 20261121"}},
		{[]string{"--baseline", "20261121", "--candidate", "sa"}, exitUsage, []string{"no run has the number or the tag 20261121"}},
		{[]string{"--baseline", "gone", "--candidate", "sa"}, exitUsage, []string{"--baseline gone: no run has the tag gone"}},
		{[]string{"--baseline", "tag:gone", "--candidate", "sa"}, exitUsage, []string{"no run has the tag gone"}},
		{[]string{"--baseline", "sweep:1/cg", "--candidate", "sa"}, exitUsage, []string{"--baseline sweep:1/cg: no run of sweep:1 is under cg in caserun.db"}},
		{[]string{"--baseline", "sa"}, exitNothing, []string{"no complete run", "sweep:4", "is new"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "slowdown=1pp"}, exitNothing, []string{"--trace"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "cg:turnaround=none"}, exitUsage, []string{"none of these is a limit"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "throughput=5%,sa:throughput=none,crashes=none"}, exitNothing, []string{"nothing was checked"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "throughput=5%,cg:workers=9:throughput=1%"}, exitOK,
			[]string{"no arm of both sides is of the limit cg:workers=9:throughput=1%"}},
		{[]string{"--baseline", "sa", "--candidate", "sweep:1"}, exitUsage, []string{"same runs"}},
		{[]string{"--baseline", "sa", "--candidate", "sweep:99"}, exitUsage, []string{"sweep 99"}},
		{[]string{"--baseline", "sweep:x", "--candidate", "again"}, exitUsage, []string{"sweep:N"}},
		{[]string{"--baseline", "tag:", "--candidate", "again"}, exitUsage, []string{"tag:TEXT"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "throughput=3"}, exitUsage, []string{"3%"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "turnaround=300%"}, exitOK, []string{"all 2 checks pass"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "crashes=0,throughput=300%"}, exitUsage,
			[]string{"throughput=300%: throughput cannot fall by more than all of it", "less than 100%"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--max-regression", "throughput=100%"}, exitUsage, []string{"less than 100%"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--alpha", "1.5"}, exitUsage, []string{"--alpha"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--format", "xml"}, exitUsage, []string{"want table, csv, tsv, json or md"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--report-junit", "no/where.xml"}, exitUsage, []string{"no/where.xml: the directory no does not exist"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--report-junit", "/dev/full"}, exitInfrastructure, []string{"/dev/full"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--report-junit", "mine.csv"}, exitUsage, []string{"mine.csv: it exists and is not a JUnit report"}},
		{[]string{"--baseline", "sa", "--candidate", "gone", "--report-junit", "/dev/full"}, exitInfrastructure,
			[]string{"SIMULATED", "not measured", "gone against sa: 3 checks measured too little to say (of 3); but write JUnit report", "/dev/full"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--report-junit", "-"}, exitUsage, []string{"name a file"}},
		{[]string{"--baseline", "sa", "--candidate", "again", "--report-junit", "./caserun.db"}, exitUsage, []string{"write ./caserun.db: that is a file of the store"}},
		{[]string{"--candidate", "again"}, exitUsage, []string{"baseline"}},
	} {
		status, out, errs := caserun(t, append([]string{"regress", "-v"}, c.args...)...)
		if status != c.status {
			t.Errorf("regress %v: exit %d, want %d: %s", c.args, status, c.status, errs)
		}
		for _, says := range c.says {
			if !strings.Contains(out+errs, says) {
				t.Errorf("regress %v must say %q:\n%s%s", c.args, says, out, errs)
			}
		}
	}
}

// A candidate does not become better by losing jobs, whatever the limits name. Less memory makes cg lose more
// jobs, and with 1 GiB no job ends ok.
func TestRegressOfLostJobs(t *testing.T) {
	inTempDir(t)
	for tag, memory := range map[string]string{"all": "16GiB", "less": "8GiB", "dead": "1GiB"} {
		status, _, errs := caserun(t, "sweep", "--mixes", "W1", "--scheds", "cg:workers=8", "--node", "sim:2xP100", "--reps", "7", "--tag", tag, "--mem-cap", memory, "--seed", fmt.Sprint(len(tag)*len(memory)))
		if want := map[string]int{"dead": exitNothing}[tag]; status != want {
			t.Fatalf("%s: exit %d: %s", tag, status, errs)
		}
	}
	for _, c := range []struct {
		baseline, candidate, limits string
		status                      int
		says                        string
	}{
		{"all", "less", "makespan=5%,turnaround=5%", exitRegression, "not comparable"},
		{"all", "less", "makespan=5%,crashes=none", exitNothing, "less against all: 1 check cannot be compared, because a side lost more jobs (of 1)"},
		{"all", "dead", "makespan=5%", exitRegression, "no job ended ok"},
		{"all", "dead", "energy=5%,crashes=none", exitNothing, "no job ended ok"},
		{"dead", "all", "makespan=5%,throughput=3%", exitNothing, "no job ended ok in 7 runs of the baseline"},
		{"less", "all", "makespan=5%", exitNothing, "the baseline lost more jobs"},
	} {
		status, out, errs := caserun(t, "regress", "--baseline", c.baseline, "--candidate", c.candidate, "--max-regression", c.limits, "--format", "csv")
		if status != c.status || !strings.Contains(out+errs, c.says) || strings.Contains(out, "better") {
			t.Errorf("%s against %s, %s: exit %d, want %d and %q:\n%s%s", c.candidate, c.baseline, c.limits, status, c.status, c.says, out, errs)
		}
	}
	for _, b := range []string{"less", "dead"} {
		if status, out, errs := caserun(t, "compare", "all", b, "--format", "csv", "--metrics", "makespan"); status != map[string]int{"dead": exitNothing}[b] {
			t.Errorf("compare all %s by makespan: exit %d:\n%s%s", b, status, out, errs)
		}
		if status, out, errs := caserun(t, "compare", "all", b, "--format", "csv"); status != exitOK || strings.Contains(out, "better") {
			t.Errorf("compare all %s: exit %d:\n%s%s", b, status, out, errs)
		}
	}
}

// A report that goes where stdout or stderr goes leaves what is there.
func TestRegressReportsToItsOwnOutput(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "7", "--tag", "sa")
	simulate(t, "--scheds", "sa", "--reps", "2", "--tag", "few")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		junit          string
		stdout, stderr bool // where the file is
	}{{"/dev/stdout", true, false}, {"out.txt", true, false}, {"/dev/stderr", false, true}, {"/dev/stdout", true, true}} {
		file, err := os.Create("out.txt")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(file, "before")
		run := exec.Command(program, "regress", "--baseline", "sa", "--candidate", "few", "--report-junit", c.junit)
		run.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
		want := []string{"before", "<testsuites>", "</testsuites>"}
		if c.stdout {
			run.Stdout, want = file, slices.Insert(want, 1, "SIMULATED regression gate")
		}
		if c.stderr {
			run.Stderr, want = file, append(want, "caserun: few against sa")
		}
		if err := errors.Join(run.Run(), file.Close()); run.ProcessState.ExitCode() != exitNothing {
			t.Errorf("%+v: %v", c, err)
		}
		text, err := os.ReadFile("out.txt")
		if err != nil {
			t.Fatal(err)
		}
		rest := string(text)
		for _, says := range want {
			_, after, found := strings.Cut(rest, says)
			if !found {
				t.Errorf("%+v: no %q, or not in its place, in\n%s", c, says, text)
				break
			}
			rest = after
		}
	}
}

func TestCompareSides(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "5", "--tag", "a/b")
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "5", "--tag", "n2", "--seed", "2")
	verdicts := func(args ...string) []string {
		status, out, errs := caserun(t, append([]string{"compare", "--format", "json", "--metrics", "throughput"}, args...)...)
		if status != exitOK {
			t.Fatalf("compare %v: exit %d: %s", args, status, errs)
		}
		var table struct {
			Title string
			Rows  []map[string]any
		}
		if err := json.Unmarshal([]byte(out), &table); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(table.Title, "SIMULATED") {
			t.Errorf("compare %v: title %q", args, table.Title)
		}
		var got []string
		for _, row := range table.Rows {
			got = append(got, row["scheduler_a"].(string)+" "+row["scheduler_b"].(string)+" "+row["verdict"].(string))
		}
		return got
	}
	for _, c := range []struct{ args, want []string }{
		{[]string{"sweep:1/sa", "sweep:1/case-alg3"}, []string{"sa case-alg3 better"}},
		{[]string{"sweep:2/case-alg3", "latest/sa"}, []string{"case-alg3 sa worse"}},
		{[]string{"a/b/sa", "n2/case-alg3:queue=largest-first"}, []string{"sa case-alg3 better"}},
		{[]string{"tag:a/b", "latest", "--min-effect", "5"}, []string{"sa sa same", "case-alg3 case-alg3 same"}},
		{[]string{"1", "2"}, nil},
	} {
		got := verdicts(c.args...)
		if c.want == nil { // two runs: whatever their order in the sweep
			if len(got) != 1 || !strings.HasSuffix(got[0], "inconclusive") {
				t.Errorf("compare %v: %v", c.args, got)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("compare %v: %s", c.args, diff)
		}
	}
	if _, out, _ := caserun(t, "__complete", "compare", ""); !strings.Contains(out, "sweep:2") || !strings.Contains(out, "\na/b\t") {
		t.Errorf("completion:\n%s", out)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"sweep:1", "gone"}, exitUsage, "no run has the tag gone"},
		{[]string{"sweep:1", "latest/case-alg2"}, exitUsage, "no run of latest is under case-alg2"},
		{[]string{"sweep:1", "a/b"}, exitUsage, "same runs"},
		{[]string{"99", "1"}, exitUsage, "no run has the number or the tag 99"},
		{[]string{"sweep:1", "latest", "--metrics", "makespan,makespan"}, exitUsage, "makespan is named twice"},
		{[]string{"sweep:1", "latest", "--metrics", "slowdown"}, exitNothing, "no run has a value of slowdown: it needs traced runs"},
		{[]string{"sweep:1", "latest", "--metrics", "speed"}, exitUsage, "throughput"},
		{[]string{"sweep:1", "latest", "--min-effect", "-1"}, exitUsage, "--min-effect"},
	} {
		if status, _, errs := caserun(t, append([]string{"compare"}, c.args...)...); status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("compare %v: exit %d, want %d and %q: %s", c.args, status, c.status, c.says, errs)
		}
	}
}

// The slowdown of a traced run is against all traced runs under sa of its own
// side; a simulated run is never compared with a measured one unsaid.
func TestComparesSlowdownsAndModes(t *testing.T) {
	inTempDir(t)
	s, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	traced := func(scheduler, tag string, kernelS float64) {
		run := results.Run{Mix: "W1", MixSource: "catalog", Scheduler: scheduler, Node: "local", Mode: results.Live, Suite: "builtin", StartedAt: &at,
			Jobs: 16, Traced: true, Tag: tag, Provenance: results.Provenance{Binaries: "{}", Configuration: "[]"}}
		id, err := s.BeginRun(t.Context(), run, []results.Device{{UUID: "GPU-1", Name: "H200"}})
		if err != nil {
			t.Fatal(err)
		}
		run.ID, run.Status, run.Metrics = id, results.Complete, results.Metrics{OK: 16, MakespanS: new(60.0), ThroughputJobsPerS: new(16 / 60.0)}
		w := s.Writer(id)
		w.Job(results.Job{Name: "lud", Command: "lud", Outcome: new(results.OK), StartS: new(0.0), EndS: new(60.0)})
		w.Kernel(results.Kernel{Name: "k", Grid: "1,1,1", Block: "32,1,1", EndS: kernelS, BusyS: kernelS})
		if err := w.Finish(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	for tag, kernelS := range map[string]float64{"old": 1.02, "new": 1.10} {
		traced("sa", tag, 0.9) // with the next, 1 s on average
		traced("sa", tag, 1.1)
		for i := range 5 {
			traced("cg", tag, kernelS+0.001*float64(i))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	status, out, errs := caserun(t, "regress", "--baseline", "old", "--candidate", "new", "--max-regression", "slowdown=1pp", "--format", "csv")
	if status != exitRegression || !strings.Contains(out, "worse: +8.0 pp") {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
	if status, out, errs := caserun(t, "mix", "W1", "--node", "sim:2xP100"); status != exitOK {
		t.Fatal(out, errs)
	}
	status, out, errs = caserun(t, "compare", "old/cg", "15", "--allow-simulated")
	if status != exitOK || !strings.Contains(out, "SIMULATED figures are compared with measured ones") {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
}

// Limits come from the configuration file too, what failed is printed first, and --only leaves the
// others out of the table but not out of the status.
func TestRegressLimitsAndOnly(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "7", "--tag", "old")
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "7", "--tag", "new", "--seed", "2")
	sides := []string{"regress", "--baseline", "old", "--candidate", "new", "--format", "csv"}
	for _, c := range []struct {
		file   string
		args   []string
		status int
		rows   int
		says   string
	}{
		{"", nil, exitOK, 6, "throughput,3%"},
		{"max-regression: throughput=5%,case-alg3:throughput=4%", nil, exitOK, 4, "throughput,4%"},
		{"max-regression: throughput=5%", []string{"--max-regression", "W1/*:makespan=9%"}, exitOK, 4, "makespan,9%"},
		{"", []string{"--only", "failed"}, exitOK, 0, "mix,jobs"},
		{"", []string{"--only", "failed,ok"}, exitOK, 6, "crashes,0"},
		{"", []string{"--only", "failed,failed"}, exitUsage, 0, "--only: failed is named twice"},
		{"", []string{"--only", "bad"}, exitUsage, 0, "--only bad: want some of failed, unsettled, ok"},
		{"", []string{"--max-regression", "gc:crashes=1"}, exitUsage, 0, `unknown scheduler "gc"`},
		{"max-regression: speed=3%", nil, exitUsage, 0, "one of throughput"},
	} {
		if err := os.WriteFile("caserun.yaml", []byte(c.file+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		status, out, errs := caserun(t, append(slices.Clone(sides), c.args...)...)
		if rows := strings.Count(out, "\nW1,"); status != c.status || rows != c.rows || !strings.Contains(out+errs, c.says) {
			t.Errorf("%q %v: exit %d with %d rows, want %d with %d and %q:\n%s%s", c.file, c.args, status, rows, c.status, c.rows, c.says, out, errs)
		}
	}
}

// The gate judges a changed parameter as compare does, if each side names its scheduler.
func TestRegressOfOtherParameters(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "case-alg3", "--reps", "5", "--tag", "base")
	simulate(t, "--scheds", "case-alg3:queue=fifo", "--reps", "5", "--tag", "cand", "--seed", "2")
	for _, c := range []struct {
		baseline, candidate string
		status              int
		says                string
	}{
		{"base/case-alg3", "cand/case-alg3:queue=fifo", exitOK, "queue=fifo"},
		{"base", "cand", exitNothing, "case-alg3 ran with other parameters (queue=largest-first before, queue=fifo now): name one scheduler on each side"},
	} {
		status, out, errs := caserun(t, "regress", "--baseline", c.baseline, "--candidate", c.candidate, "--max-regression", "makespan=50%", "--format", "csv")
		if status != c.status || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s and %s: exit %d, want %d and %q:\n%s%s", c.baseline, c.candidate, status, c.status, c.says, out, errs)
		}
	}
}
