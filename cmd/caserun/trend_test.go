package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// nightly sweeps W1 once a night. After the eighth night it runs fewer jobs at once.
func nightly(t *testing.T, nights, repetitions int) {
	t.Helper()
	for n := range nights {
		args := []string{"sweep", "--mixes", "W1", "--scheds", "case-alg3", "--reps", fmt.Sprint(repetitions), "--warmups", "0", "--node", "sim:2xV100",
			"--sim-noise", "0.005", "--seed", fmt.Sprint(n + 1), "--tag", fmt.Sprintf("night-%d", n+1)}
		if n >= 8 {
			args = append(args, "--workers", "2")
		}
		if status, _, errs := runs(t, args...); status != exitOK {
			t.Fatalf("%v: exit %d: %s", args, status, errs)
		}
	}
}

// runs runs the program in this process.
func runs(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = run(t.Context(), args, nil, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

func TestReportTrend(t *testing.T) {
	inTempDir(t)
	nightly(t, 16, 1)
	for _, tt := range []struct {
		args   []string
		status int
		out    []string
		errs   string
	}{
		{[]string{"--trend", "throughput"}, exitOK, []string{"SIMULATED throughput over time", "night-9", "worse", "workers"}, ""},
		{[]string{"--trend", "makespan", "-v"}, exitOK, []string{"points of makespan", "night-16"}, ""},
		{[]string{"--trend", "throughput", "--last", "6"}, exitOK, []string{"No line has a step", "a step takes at least 8 points"}, ""},
		{[]string{"--trend", "throughput", "--format", "csv"}, exitOK, []string{"first,latest,latest_label,steps"}, "--format csv has one table, and 2 are left out; --format json has all, and --csv DIR writes each to a file"},
		{[]string{"--trend", "energy"}, exitNothing, nil, "caserun.db has a value of it: it needs live runs on GPUs"},
		{[]string{"--trend", "throughput", "--mix", "W2"}, exitNothing, nil, "no complete run"},
		{[]string{"--trend", "speed"}, exitUsage, nil, `--trend: metric "speed": want one of throughput, `},
		{[]string{"--trend", "throughput", "latest"}, exitUsage, nil, "--trend is of all runs over time: leave out latest"},
		{[]string{"--trend", "throughput", "--slowdown", "1"}, exitUsage, nil, "--trend slowdown"},
	} {
		status, out, errs := runs(t, append([]string{"report"}, tt.args...)...)
		if status != tt.status || !strings.Contains(errs, tt.errs) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", tt.args, status, tt.status, tt.errs, errs)
		}
		for _, want := range tt.out {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", tt.args, want, out)
			}
		}
	}
}

// The gate says since when a check fails, in each of its forms, and the trend has the same night.
func TestRegressSaysSinceWhen(t *testing.T) {
	inTempDir(t)
	nightly(t, 11, 5)
	gate := []string{"regress", "--baseline", "night-1", "--candidate", "night-11", "--max-regression", "throughput=3%", "-o", "gate.xml"}
	const since = "ails since night-9, 3 nights: between night-8 and night-9, revisions "
	flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	status, out, _ := runs(t, gate...)
	if status != exitRegression || !strings.Contains(flat(out), "F"+since) || !strings.Contains(flat(out), "W1 case-alg3 throughput") {
		t.Errorf("exit %d, want %d, and since when:\n%s", status, exitRegression, out)
	}
	if text, err := os.ReadFile("gate.xml"); err != nil || !strings.Contains(string(text), "; f"+since) {
		t.Errorf("JUnit: %v:\n%s", err, text)
	}
	if _, out, _ := runs(t, append(gate, "--format", "json")...); !strings.Contains(flat(out), `"since": "night-9", "since_nights": 3, "since_after": "night-8", "since_by": "night-9"`) {
		t.Errorf("json does not say since when:\n%s", out)
	}
	if _, out, _ := runs(t, "report", "--trend", "throughput"); !strings.Contains(flat(out), "between night-8 and night-9") {
		t.Errorf("the trend has another night:\n%s", out)
	}
}

// A rolling baseline of the command line: its notes, since when, and what is refused.
func TestRollingBaseline(t *testing.T) {
	inTempDir(t)
	nightly(t, 11, 5)
	if status, _, errs := runs(t, "store", "exclude", "night-2"); status != exitOK {
		t.Fatal(errs)
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--baseline", "rolling:6", "--candidate", "night-8"}, exitOK, "rolling:6 is the last 6 nights that passed, night-1 to night-7"},
		{[]string{"--baseline", "rolling:4", "--candidate", "night-8"}, exitOK, "rolling:4 is the last 4 nights that passed, night-4 to night-7"},
		{[]string{"--baseline", "rolling:4"}, exitRegression, "Fails since night-9, 3 nights: between night-8 and night-9,"},
		{[]string{"--baseline", "rolling:4@night-7", "--candidate", "night-9"}, exitNothing,
			"--baseline rolling:4@night-7: too few nights passed: 2 of the 2 nights before night-9, and rolling:4@night-7 needs 3 at least"},
		{[]string{"--baseline", "rolling:2"}, exitUsage, `"rolling:2": want rolling:N with 3 to 90 nights`},
		{[]string{"--baseline", "rolling:14@"}, exitUsage, `"rolling:14@": want rolling:N`},
		{[]string{"--baseline", "rolling:14@night-99"}, exitUsage, "no run has the tag night-99"},
		{[]string{"--baseline", "rolling:14", "--candidate", "night-99"}, exitUsage, "--candidate night-99"},
		{[]string{"--baseline", "night-1", "--candidate", "rolling:14"}, exitUsage, `"rolling:14" is only for --baseline of caserun regress; a tag of that name is tag:rolling:14`},
	} {
		status, out, errs := runs(t, append([]string{"regress", "--max-regression", "throughput=3%"}, tt.args...)...)
		if text := strings.Join(strings.Fields(out+errs), " "); status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s%s", tt.args, status, tt.status, tt.want, out, errs)
		}
	}
}

// A page has the trend that is asked for, else that of throughput, and none of named runs or of
// too few nights.
func TestPageHasItsTrend(t *testing.T) {
	inTempDir(t)
	nightly(t, 2, 1)
	page := func(args ...string) string {
		t.Helper()
		if status, _, errs := runs(t, append([]string{"report", "--html", "page.html"}, args...)...); status != exitOK {
			t.Fatalf("%v: exit %d: %s", args, status, errs)
		}
		text, err := os.ReadFile("page.html")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const section = `<section id="trend">`
	if strings.Contains(page(), section) {
		t.Error("two nights make a trend")
	}
	nightly(t, 1, 1)
	if text := page(); !strings.Contains(text, section) || !strings.Contains(text, "Over time: throughput") {
		t.Error("three nights make no trend of throughput")
	}
	if !strings.Contains(page("--trend", "makespan"), "Over time: makespan") {
		t.Error("the page lacks the trend that was asked for")
	}
	if strings.Contains(page("1", "2"), section) {
		t.Error("a page of named runs has a trend")
	}
}
