package regress

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// losing makes each run lose n of its jobs.
func losing(n int) func(*Observation) {
	return func(o *Observation) { o.Metrics.OK, o.Metrics.Crashed = o.Jobs-n, n }
}

func side(runs ...[]Observation) Side {
	s := Side{Label: "sweep:1", Runs: slices.Concat(runs...)}
	for i := range s.Runs {
		s.Runs[i].ID = int64(i + 1)
	}
	return s
}

func matrixOf(t *testing.T, s Side, base string) Matrix {
	t.Helper()
	found, err := Matrices(s, base, Options{})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d matrices: %v", len(found), err)
	}
	return found[0]
}

// row finds a scheduler's row and its level of a metric.
func row(t *testing.T, m Matrix, name, metric string) (Standing, Level) {
	t.Helper()
	at := slices.IndexFunc(m.Rows, func(s Standing) bool { return s.Name == name })
	of := slices.IndexFunc(m.Metrics, func(x results.Metric) bool { return x.Name == metric })
	if at < 0 || of < 0 {
		t.Fatalf("no %s of %s among %+v", metric, name, m.Rows)
	}
	return m.Rows[at], m.Rows[at].Over[of]
}

func TestMatrixIsOverMixes(t *testing.T) {
	m := matrixOf(t, side(runs("W1", "cg", 50, 7, losing(8)), runs("W1", "sa", 100, 7, nil), runs("W2", "sa", 80, 7, nil), runs("W2", "cg", 10, 7, nil)), "")
	if m.Base().Name != "sa" || len(m.Mixes) != 2 {
		t.Fatalf("base %s, %d mixes: want sa, which ran both", m.Base().Name, len(m.Mixes))
	}
	cg, throughput := row(t, m, "cg", "throughput")
	if math.Abs(throughput.Ratio.Value-4) > 1e-9 || !(throughput.Ratio.Low < 4 && 4 < throughput.Ratio.High) {
		t.Errorf("throughput of cg over sa: %+v, want the geometric mean of 2 and 8", throughput.Ratio)
	}
	if share := cg.CrashRate(); share == nil || math.Abs(*share-0.125) > 1e-9 {
		t.Errorf("cg lost %v of its jobs, want 8 of 32 under W1 and none under W2: 0.125", cg.CrashRate())
	}
	for metric, want := range map[string]bool{"throughput": true, "turnaround": true, "makespan": true, "crashes": false} {
		if cg, over := row(t, m, "cg", metric); over.Survivors != want {
			t.Errorf("%s of cg over the mixes is marked: %v, though W1 lost jobs and W2 none", metric, over.Survivors)
		} else if at := slices.IndexFunc(m.Metrics, func(x results.Metric) bool { return x.Name == metric }); cg.Cells[0].Levels[at].Survivors != want || cg.Cells[1].Levels[at].Survivors {
			t.Errorf("%s of cg by mix: %+v", metric, cg.Cells)
		}
	}
	if _, sa := row(t, m, "sa", "turnaround"); sa.Survivors || sa.Ratio.Value != 1 || sa.Ratio.Bounded() {
		t.Errorf("the base beside itself: %+v", sa)
	}
}

// A base that lost jobs marks the figures of every other scheduler.
func TestMatrixBaseThatLostJobs(t *testing.T) {
	m := matrixOf(t, side(runs("W1", "cg", 50, 7, losing(8)), runs("W1", "sa", 100, 7, nil)), "cg")
	for _, metric := range []string{"throughput", "turnaround", "makespan"} {
		if _, of := row(t, m, "sa", metric); m.Base().Name != "cg" || !of.Survivors {
			t.Errorf("base %s; %s of sa: %+v", m.Base().Name, metric, of)
		}
	}
}

func TestMatrixBase(t *testing.T) {
	workers := func(n int) func(*Observation) {
		return func(o *Observation) { o.Parameters = fmt.Sprintf("workers=%d", n) }
	}
	s := side(runs("W1", "cg", 50, 2, workers(2)), runs("W1", "cg", 40, 2, workers(4)), runs("W1", "zero", 40, 2, nil))
	for base, want := range map[string]string{"": "cg:workers=2", "cg:workers=4": "cg:workers=4", "zero": "zero"} {
		if got := matrixOf(t, s, base).Base().Name; got != want {
			t.Errorf("base %q: %s, want %s", base, got, want)
		}
	}
	for base, says := range map[string]string{"cg": "could be cg:workers=2 or cg:workers=4", "sa": "want one of cg:workers=2, cg:workers=4, zero"} {
		_, err := Matrices(s, base, Options{})
		if !errors.As(err, new(*BaseError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("base %s: %v; must say %q", base, err, says)
		}
	}
}

// Nodes, modes and traced runs are never in one mean.
func TestMatricesAreApart(t *testing.T) {
	traced := func(o *Observation) { o.Traced = true }
	simulated := func(o *Observation) { o.Node, o.Mode = "sim:4xV100", results.Simulated }
	found, err := Matrices(side(runs("W1", "sa", 100, 2, nil), runs("W1", "cg", 50, 2, nil), runs("W1", "sa", 120, 2, traced), runs("W1", "cg", 55, 2, traced),
		runs("W1", "cg", 70, 2, simulated), runs("W1", "zero", 60, 2, simulated)), "sa", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, m := range found {
		places = append(places, fmt.Sprintf("%s %v: %s", m.Place(), m.Simulated(), m.Base().Name))
	}
	if want := []string{"local false: sa", "local, traced false: sa", "sim:4xV100 true: cg"}; !slices.Equal(places, want) {
		t.Errorf("matrices: %q, want %q", places, want)
	}
	if len(found) == 3 && !slices.Contains(found[2].Notes, "sim:4xV100 has no run under sa: ratios are to cg") {
		t.Errorf("notes on the node without the base: %q", found[2].Notes)
	}
}

// Repetitions of a simulated run without noise are one value.
func TestMatrixOfCopies(t *testing.T) {
	copies := func(o *Observation) {
		o.Node, o.Mode, o.Metrics = "sim:4xV100", results.Simulated, results.Metrics{OK: 32, MakespanS: new(50.0)}
	}
	m := matrixOf(t, side(runs("W1", "sa", 100, 7, copies), runs("W1", "cg", 50, 7, copies), runs("W2", "sa", 100, 7, copies), runs("W2", "cg", 50, 7, copies)), "")
	if _, l := row(t, m, "cg", "makespan"); l.Ratio.Value != 1 || l.Ratio.Bounded() {
		t.Errorf("simulated runs without noise give %+v, want no interval", l.Ratio)
	}
	if !slices.ContainsFunc(m.Notes, func(n string) bool { return strings.Contains(n, "without noise repeat each other") }) {
		t.Errorf("notes: %q", m.Notes)
	}
}

// What one scheduler did not run is said, and a mean without a value is unknown.
func TestMatrixSaysWhatIsMissing(t *testing.T) {
	nothing := func(o *Observation) {
		losing(32)(o)
		o.Metrics.TurnaroundMeanS = nil
		o.Metrics.ThroughputJobsPerS = new(0.0)
	}
	m := matrixOf(t, side(runs("W1", "sa", 100, 2, nil), runs("W2", "sa", 100, 2, nil), runs("W1", "cg", 50, 2, nothing), runs("W2", "cg", 50, 2, nil),
		runs("W1", "zero", 50, 2, nil), runs("W3", "zero", 50, 2, nil)), "")
	for _, metric := range []string{"throughput", "turnaround"} {
		if _, l := row(t, m, "cg", metric); !math.IsNaN(l.Ratio.Value) {
			t.Errorf("%s of cg, which ended no job of W1: %+v", metric, l.Ratio)
		}
	}
	zero, _ := row(t, m, "zero", "throughput")
	if zero.Mixes != 1 || zero.Runs != 2 {
		t.Errorf("zero: %d mixes, %d runs, want W1 alone, because sa did not run W3", zero.Mixes, zero.Runs)
	}
	for _, want := range []string{"mixes that sa did not run are left out: W3", "zero ran 1 of the 2 mixes, and its means are over these"} {
		if !slices.Contains(m.Notes, want) {
			t.Errorf("notes %q lack %q", m.Notes, want)
		}
	}
	due, err := Matrices(side(runs("W1", "sa", 100, 2, nil)), "", Options{Metrics: []results.Metric{results.MetricNamed("deadlines-met")}})
	if want := "no run has a value of deadlines-met: it needs a job with a deadline"; err != nil || !slices.Contains(due[0].Notes, want) {
		t.Errorf("%+v, %v: want the note %q", due, err, want)
	}
	if _, l := row(t, m, "zero", "makespan"); l.Ratio != (Ratio{Value: l.Ratio.Value, Low: math.Inf(-1), High: math.Inf(1)}) || math.Abs(l.Ratio.Value-0.5) > 0.01 {
		t.Errorf("makespan of zero: %+v, want 0.5 without an interval", l.Ratio)
	}
}

// A scheduler under which no job ended ok has no ratios, and a note says why.
func TestMatrixOfDeadScheduler(t *testing.T) {
	m := matrixOf(t, side(runs("W1", "sa", 100, 7, nil), runs("W1", "cg", 50, 7, func(o *Observation) {
		losing(32)(o)
		o.Metrics.ThroughputJobsPerS, o.Metrics.TurnaroundMeanS = new(0.0), nil
	})), "")
	const want = "no job of cg ended ok, so its throughput has no ratio: W1"
	if _, throughput := row(t, m, "cg", "throughput"); !math.IsNaN(throughput.Ratio.Value) || !slices.Contains(m.Notes, want) {
		t.Errorf("%+v, notes %q", throughput, m.Notes)
	}
}

// The best row is the same for every output: the highest that is comparable and, over all mixes, that ran each of them.
func TestRankedRowsAreComparable(t *testing.T) {
	m := matrixOf(t, side(runs("W1", "sa", 100, 7, nil), runs("W1", "cg", 50, 7, losing(8)), runs("W1", "alg2", 90, 7, nil), runs("W1", "alg3", 60, 7, nil),
		runs("W2", "sa", 80, 7, nil), runs("W2", "cg", 40, 7, losing(8)), runs("W2", "alg2", 70, 7, nil)), "")
	metric := m.IndexOf(results.MetricNamed("throughput"))
	for _, c := range []struct {
		mix  int
		want string
	}{{0, "alg3 alg2 sa"}, {1, "alg2 sa"}, {Overall, "alg2 sa"}} {
		var got []string
		for _, row := range m.Ranked(metric, c.mix) {
			got = append(got, m.Rows[row].Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("mix %d: %v, want %s", c.mix, got, c.want)
		}
	}
}
