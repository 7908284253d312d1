package results

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A job's slowdown is its turnaround over its time alone: under sa in its batch, or on its node, or as was expected.
func TestJobFigures(t *testing.T) {
	run := func(id int64, mix, scheduler string) Run {
		return Run{ID: id, Mix: mix, Scheduler: scheduler, Node: "local", Mode: Live, Jobs: 2, Status: Complete}
	}
	runs := []Run{run(1, "W1", "sa"), run(2, "W1", "sa"), run(3, "W1", "case-alg3"), run(4, "W2", "sa"), run(5, "W3", "cg"), run(6, "W4", "cg"), run(7, "W1", "sa"), run(8, "W1", "sa"), run(9, "W1", "sa")}
	runs[6].Doubts = "another process used the GPU"
	runs[7].Warmup, runs[8].Excluded = true, true
	times := map[int64][]JobTimes{
		1: {{Command: "a", TurnaroundS: 2, RanS: new(2.0)}, {Command: "b", TurnaroundS: 12, RanS: new(10.0)}},
		2: {{Command: "a", TurnaroundS: 4, RanS: new(4.0)}, {Command: "b", TurnaroundS: 14, RanS: new(10.0)}},
		3: {{Command: "a", TurnaroundS: 3, RanS: new(3.0)}, {Command: "b", TurnaroundS: 30, RanS: new(30.0)}},
		4: {{Command: "c", TurnaroundS: 5, RanS: new(5.0)}},
		5: {{Command: "c", TurnaroundS: 10, RanS: new(9.0)}, {Command: "d", TurnaroundS: 20, RanS: new(9.0), ExpectedS: new(5.0)}},
		6: {{Command: "c", TurnaroundS: 10, RanS: new(9.0)}, {Command: "d", TurnaroundS: 20, RanS: new(9.0)}},
		7: {{Command: "a", TurnaroundS: 100, RanS: new(100.0)}},
		8: {{Command: "a", TurnaroundS: 200, RanS: new(200.0)}},
		9: {{Command: "a", TurnaroundS: 300, RanS: new(300.0)}},
	}
	WithJobTimes(runs, times)
	type figures struct{ p99, mean, p95, largest, fairness float64 }
	of := func(m Metrics) figures {
		known := func(v *float64) float64 {
			if v == nil {
				return math.NaN()
			}
			return *v
		}
		return figures{known(m.TurnaroundP99S), known(m.JobSlowdown), known(m.JobSlowdownP95), known(m.JobSlowdownMax), known(m.Fairness)}
	}
	nan := math.NaN()
	for i, want := range map[int]figures{
		0: {11.9, (2.0/3 + 1.2) / 2, 1.2 - 0.05*(1.2-2.0/3), 1.2, (2.0/3 + 1.2) * (2.0/3 + 1.2) / (2 * (4.0/9 + 1.44))},
		2: {29.73, 2, 2.9, 3, 0.8}, // a is alone for 3 s, the mean of its runs, and b for 10 s
		3: {5, 1, 1, 1, 1},
		4: {19.9, 3, 3.9, 4, 0.9}, // c as under sa in W2, d as expected
		5: {19.9, nan, nan, nan, nan},
	} {
		if diff := cmp.Diff(want, of(runs[i].Metrics), cmp.AllowUnexported(figures{}), cmpopts.EquateApprox(0, 1e-12), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", runs[i].ID, diff)
		}
	}
}

// Jobs that did not end ok have no times, and a job's time alone is all that was expected of it.
func TestTimesOf(t *testing.T) {
	ok, crash := OK, Crash
	jobs := []Job{
		{Index: 0, Command: "a", ArrivalS: new(1.0), StartS: new(2.0), EndS: new(5.0), Outcome: &ok},
		{Index: 1, Command: "b", StartS: new(2.0), EndS: new(5.0), Outcome: &crash},
		{Index: 2, Command: "c", StartS: new(2.0), EndS: new(5.0), Outcome: &ok},
	}
	got := TimesOf(jobs, []Prediction{{Job: 2, Expected: Expected{BeforeS: 0.5, HeldS: 1, AfterS: 0.25}}})
	want := []JobTimes{{Command: "a", TurnaroundS: 4, RanS: new(3.0)}, {Command: "c", TurnaroundS: 5, RanS: new(3.0), ExpectedS: new(1.75)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
