package trend

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// history makes runs in the order of time.
type history struct{ runs []regress.Observation }

// night adds three runs of an arm in a sweep of their own, with values around throughput.
func (h *history) night(sweep int64, scheduler, revision, driver string, mode results.Mode, throughput float64) {
	for i := range 3 {
		r := results.Run{ID: int64(len(h.runs) + 1), Mix: "W1", Scheduler: scheduler, Node: "local", Mode: mode, Jobs: 4, Status: results.Complete,
			Sweep: &sweep, Tag: fmt.Sprintf("night-%d", sweep)}
		r.Provenance.Revision, r.Provenance.Driver = revision, &driver
		r.Metrics.ThroughputJobsPerS = new(throughput * (1 + float64(i-1)/100))
		r.Metrics.OK, r.Metrics.MakespanS = 4, new(4/throughput)
		h.runs = append(h.runs, regress.Observation{Run: r})
	}
}

func metric(t *testing.T, name string) results.Metric {
	t.Helper()
	m, err := regress.LookupMetric(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func values(l Line) (out []float64) {
	for _, p := range l.Points {
		out = append(out, p.Value)
	}
	return out
}

// twelve nights: sa stays, case-alg3 gets 10 % slower in the seventh.
func twelve() history {
	var h history
	for n := range int64(12) {
		revision, driver, throughput := "aaaa", "580", 10.0
		if n >= 6 {
			revision, throughput = "bbbb", 9
		}
		if n >= 8 {
			driver = "590"
		}
		h.night(n+1, "sa", revision, driver, results.Live, 5+0.001*float64(n%3))
		h.night(n+1, "case-alg3", revision, driver, results.Live, throughput+0.001*float64(n%3))
	}
	return h
}

func TestStepNamesItsRevisions(t *testing.T) {
	for _, tt := range []struct {
		metric  string
		change  float64
		verdict stats.Verdict
	}{{"throughput", -0.1, stats.Worse}, {"makespan", 1.0 / 9, stats.Worse}} {
		got := Of(metric(t, tt.metric), twelve().runs)
		if len(got.Lines) != 2 || got.Lines[1].Arm.Scheduler != "case-alg3" || len(got.Lines[0].Steps) != 0 || len(got.Lines[1].Steps) != 1 {
			t.Fatalf("lines %+v, want one step, of case-alg3", got.Lines)
		}
		s := got.Lines[1].Steps[0]
		if s.At != 6 || s.BeforeRevision != "aaaa" || s.AfterRevision != "bbbb" || s.Verdict != tt.verdict || s.Change-tt.change > 0.002 || s.Change-tt.change < -0.002 {
			t.Errorf("%s: step %+v, want %s by %v at 6 in aaaa..bbbb", tt.metric, s, tt.verdict, tt.change)
		}
		if len(s.Environment) != 0 {
			t.Errorf("what else changed at the step: %v, want nothing", s.Environment)
		}
		if p := got.Lines[1].Points[6]; p.Label != "night-7" || p.N != 3 || p.Value != *got.Metric.Of(twelve().runs[6*6+4].Run) {
			t.Errorf("point %+v, want the median run of night-7", p)
		}
	}
}

func TestStepNamesWhatElseChanged(t *testing.T) {
	var h history
	for n := range int64(12) {
		driver, throughput := "580", 10.0
		if n >= 6 {
			driver, throughput = "590", 12
		}
		h.night(n+1, "sa", "aaaa", driver, results.Live, throughput)
	}
	steps := Of(metric(t, "throughput"), h.runs).Lines[0].Steps
	if len(steps) != 1 || steps[0].Verdict != stats.Better || steps[0].BeforeRevision != "aaaa" || steps[0].AfterRevision != "aaaa" {
		t.Fatalf("steps %+v, want one that is better, of the same revision", steps)
	}
	if e := steps[0].Environment; len(e) != 1 || e[0].Kind != "driver" {
		t.Errorf("also changed: %v, want the driver", e)
	}
}

// Simulated and measured runs are never in one line, whatever they have in common.
func TestSimulatedAndLiveAreApart(t *testing.T) {
	var h history
	for n := range int64(4) {
		h.night(2*n+1, "sa", "a", "580", results.Live, 5)
		h.night(2*n+2, "sa", "a", "580", results.Simulated, 50)
	}
	got := Of(metric(t, "throughput"), h.runs)
	if len(got.Lines) != 2 || !slices.Equal(values(got.Lines[0]), []float64{5, 5, 5, 5}) || !slices.Equal(values(got.Lines[1]), []float64{50, 50, 50, 50}) {
		t.Errorf("lines %+v, want one of 5 and one of 50", got.Lines)
	}
	if !got.Simulated() {
		t.Error("nothing says that a line is simulated")
	}
}

// A point is a sweep, or the runs of a tag outside of sweeps, or a run.
func TestPointsAndTheirLabels(t *testing.T) {
	var h history
	for _, at := range []struct {
		sweep int64
		tag   string
	}{{1, "main"}, {2, "main"}, {3, "once"}, {0, "by-hand"}, {0, "by-hand"}, {0, ""}, {4, ""}} {
		r := results.Run{ID: int64(len(h.runs) + 1), Mix: "W1", Scheduler: "sa", Node: "n", Mode: results.Live, Status: results.Complete, Tag: at.tag}
		if at.sweep != 0 {
			r.Sweep = &at.sweep
		}
		r.Metrics.OK, r.Metrics.MakespanS = 1, new(float64(r.ID))
		h.runs = append(h.runs, regress.Observation{Run: r})
	}
	line := Of(metric(t, "makespan"), h.runs).Lines[0]
	var labels []string
	for _, p := range line.Points {
		labels = append(labels, p.Label)
	}
	if want := []string{"main, sweep 1", "main, sweep 2", "once", "by-hand", "run 6", "sweep 4"}; !slices.Equal(labels, want) {
		t.Errorf("labels %q, want %q", labels, want)
	}
	if want := []float64{1, 2, 3, 4.5, 6, 7}; !slices.Equal(values(line), want) {
		t.Errorf("values %v, want %v", values(line), want)
	}
}

func TestRunsThatAreLeftOut(t *testing.T) {
	h := twelve()
	h.runs[0].Status, h.runs[1].Warmup = results.Interrupted, true
	h.runs[7].Metrics.ThroughputJobsPerS = nil
	got := Of(metric(t, "throughput"), h.runs)
	if n := []int{got.Lines[0].Points[0].N, got.Lines[0].Points[1].N}; !slices.Equal(n, []int{1, 2}) {
		t.Errorf("the first points of sa have %v runs, want 1 and 2", n)
	}
	if !strings.Contains(strings.Join(got.Notes, "\n"), "left out: 1") {
		t.Errorf("notes %q do not say that a run has no throughput", got.Notes)
	}
	short := Of(metric(t, "throughput"), h.runs[:12])
	if !strings.Contains(strings.Join(short.Notes, "\n"), "a step takes at least 8 points") {
		t.Errorf("notes %q do not say that lines are too short", short.Notes)
	}
}

// Crashes are shares of jobs: a point is their mean, because their median hides a crash.
func TestCrashesAreMeans(t *testing.T) {
	h := twelve()
	h.runs[0].Metrics.Crashed = 2 // of 4 jobs, in one of three runs
	if got := Of(metric(t, "crashes"), h.runs).Lines[0].Points[0].Value; got != 0.5/3 {
		t.Errorf("%v of the jobs crashed, want %v", got, 0.5/3)
	}
}

// A level that is better because jobs were lost is not better, and the level before it not better than
// one that lost fewer.
func TestStepOfLostJobs(t *testing.T) {
	for name, lostFrom := range map[string]bool{"new": true, "old": false, "new simulated": true} { // the level that lost jobs
		var h history
		mode := results.Live
		if strings.Contains(name, "simulated") {
			mode = results.Simulated
		}
		for n := range int64(12) {
			lossy := n >= 6 == lostFrom
			throughput := 10.0
			if lossy {
				throughput = 12
			}
			h.night(n+1, "sa", "aaaa", "580", results.Live, throughput+0.001*float64(n%3))
			for i := range h.runs[len(h.runs)-3:] {
				r := &h.runs[len(h.runs)-3+i].Run
				if r.Mode, r.Provenance.Configuration = mode, "[]"; lossy { // simulated: without noise
					r.Metrics.OK, r.Metrics.Crashed = 2, 2
				}
			}
		}
		for _, of := range []string{"throughput", "makespan"} {
			got := Of(metric(t, of), h.runs).Lines[0].Steps
			if len(got) != 1 || got[0].Verdict != stats.Inconclusive || len(got[0].Environment) != 1 || got[0].Environment[0].Kind != "lost jobs" {
				t.Errorf("%s level lost jobs: steps of %s %+v", name, of, got)
			}
		}
		if got := Of(metric(t, "crashes"), h.runs).Lines[0].Steps; len(got) != 1 || (got[0].Verdict == stats.Worse) != lostFrom {
			t.Errorf("%s level lost jobs: steps of crashes %+v", name, got)
		}
	}
}

// A step may lie at any night that the spread allows: its revisions are those around all of them.
func TestStepLiesBetweenNights(t *testing.T) {
	var h history
	for n, throughput := range []float64{10, 10.03, 9.97, 10.02, 9.98, 10.01, 9.99, 9.75, 9.52, 9.5, 9.47, 9.49, 9.53, 9.5} {
		h.night(int64(n+1), "sa", fmt.Sprintf("r%d", n+1), "580", results.Live, throughput)
	}
	line := Of(metric(t, "throughput"), h.runs).Lines[0]
	if len(line.Steps) != 1 {
		t.Fatalf("steps %+v, want one", line.Steps)
	}
	s := line.Steps[0]
	if s.First > 7 || s.Last < 8 || s.Older != s.First-1 || s.BeforeRevision != fmt.Sprintf("r%d", s.First) || s.AfterRevision != fmt.Sprintf("r%d", s.Last+1) {
		t.Errorf("step %+v, want one that may lie at night 8 or 9, with the revisions around", s)
	}
}

// Nights on another machine are in the line without being a level of it. Both machines' nights have their own steps.
func TestStepsOfMachinesAreApart(t *testing.T) {
	var h history
	for n := range int64(24) {
		throughput, host := 10+0.001*float64(n%3), "a"
		if n%2 == 1 {
			throughput, host = 7+0.001*float64(n%3), "b"
		}
		if n >= 16 && host == "b" {
			throughput -= 1
		}
		h.night(n+1, "sa", fmt.Sprintf("r%d", n+1), "580", results.Live, throughput)
		for i := range h.runs[len(h.runs)-3:] {
			h.runs[len(h.runs)-3+i].Provenance.Host = host
		}
	}
	got := Of(metric(t, "throughput"), h.runs)
	line := got.Lines[0]
	if len(line.Points) != 24 || len(line.Steps) != 1 || line.Steps[0].At != 17 || line.Steps[0].Older != 15 || line.Steps[0].BeforeRevision != "r16" {
		t.Errorf("%d points, steps %+v, want 24 and one step at 17, after 15", len(line.Points), line.Steps)
	}
	if !strings.Contains(strings.Join(got.Notes, "\n"), "nights on several machines, whose steps are looked for machine by machine: 1 of 1 lines") {
		t.Errorf("notes %q do not say that machines differ", got.Notes)
	}
}

// A night without a complete run is a gap, and the notes name it, and where the driver is another one.
func TestGapsAndDrivers(t *testing.T) {
	h := twelve()
	for i := range h.runs {
		if *h.runs[i].Sweep == 5 || *h.runs[i].Sweep == 12 && h.runs[i].Scheduler == "sa" {
			h.runs[i].Status = results.Interrupted
		}
	}
	got := Of(metric(t, "throughput"), h.runs)
	if want := []Gap{{"night-5", 4}, {"night-12", 10}}; !slices.Equal(got.Lines[0].Gaps, want) || !slices.Equal(got.Lines[1].Gaps, want[:1]) {
		t.Errorf("gaps %v and %v, want %v and the first one", got.Lines[0].Gaps, got.Lines[1].Gaps, want)
	}
	for _, want := range []string{"night-5 has no value, which is a gap: 2 of 2 lines", "the driver is another one from night-9 on (590, and 580 before)"} {
		if !strings.Contains(strings.Join(got.Notes, "\n"), want) {
			t.Errorf("notes %q do not say %q", got.Notes, want)
		}
	}
}
