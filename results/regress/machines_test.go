package regress

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// on makes runs of W1 on machines: so many on each, with a makespan by machine.
func on(makespans []float64, counts ...int) []Observation {
	return mixOn("W1", makespans, counts...)
}

func mixOn(mix string, makespans []float64, counts ...int) []Observation {
	var out []Observation
	for m, n := range counts {
		out = append(out, runs(mix, "sa", makespans[m], n, func(o *Observation) {
			o.Devices = []results.Device{{UUID: fmt.Sprintf("GPU-%d", m)}}
			o.Provenance.Host = fmt.Sprintf("host-%d", m)
		})...)
	}
	for i := range out { // the noise of a machine's runs is not that of another's
		factor := scatter[(i*3+len(out))%len(scatter)]
		v := *out[i].Metrics.MakespanS * factor
		out[i].Metrics.MakespanS = &v
	}
	return out
}

func times(values []float64, by float64) []float64 {
	out := slices.Clone(values)
	for i := range out {
		out[i] *= by
	}
	return out
}

func makespan(t *testing.T, a, b []Observation) Row {
	t.Helper()
	for i := range b {
		b[i].ID = 1000 + int64(i)
	}
	metric, err := LookupMetric("makespan")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compare(Side{Label: "old", Runs: a}, Side{Label: "new", Runs: b}, Options{MinEffect: 0.02, Metrics: []results.Metric{metric}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Rows[0]
}

var speeds = []float64{60, 90, 120, 75, 50, 110, 82, 99}

// Machines differ by a factor of two, and a change of 5 % is found, because runs are compared on their
// own machine only.
func TestChangeStandsOutOfMachines(t *testing.T) {
	row := makespan(t, on(speeds, 3, 2, 2), on(times(speeds, 0.95), 3, 2, 2))
	if row.Verdict != stats.Better || math.Abs(row.Change+0.05) > 0.01 || !row.Bounded() {
		t.Errorf("%s by %.3f (%.3f to %.3f), p %.4f: want better by 0.05", row.Verdict, row.Change, row.Low, row.High, row.P)
	}
}

// One block on each machine is a pair, and eight pairs that agree show a change, with an interval.
func TestPairsWithinBlocks(t *testing.T) {
	each := []int{1, 1, 1, 1, 1, 1, 1, 1}
	row := makespan(t, on(speeds, each...), on(times(speeds, 0.9), each...))
	if row.Verdict != stats.Better || math.Abs(row.P-2.0/256) > 1e-9 || !row.Bounded() || row.Low > -0.1 || row.High < -0.1 {
		t.Errorf("%s by %.3f (%.3f to %.3f), p %.4f: want better by 0.1, p 2/256", row.Verdict, row.Change, row.Low, row.High, row.P)
	}
	if row = makespan(t, on(speeds, each...), on(speeds, each...)); row.Verdict != stats.Same {
		t.Errorf("equal sides on eight machines: %s (%s), %.3f to %.3f", row.Verdict, row.Reason, row.Low, row.High)
	}
}

// A side that had the slow machine more often is not worse for that.
func TestMachinesAreNotAChange(t *testing.T) {
	a, b := on(speeds, 6, 2), on(speeds, 2, 6)
	if row := makespan(t, a, b); row.Verdict == stats.Worse || math.Abs(row.Change) > 0.01 {
		t.Errorf("%s by %.3f, though only the machines differ", row.Verdict, row.Change)
	}
	r := Gate(Side{Label: "old", Runs: a}, Side{Label: "new", Runs: b}, limits(t, "makespan=3%,crashes=0"), stats.DefaultAlpha)
	if r.Failed() > 0 {
		t.Errorf("the gate fails, though only the machines differ: %+v", r.Checks)
	}
	for i := range a { // as if all were on one machine
		a[i].Devices, a[i].Provenance.Host = nil, ""
	}
	for i := range b {
		b[i].Devices, b[i].Provenance.Host = nil, ""
	}
	if row := makespan(t, a, b); math.Abs(row.Change) < 0.2 {
		t.Errorf("the test shows nothing: without machines the change is %.3f", row.Change)
	}
}

// The gate finds a loss on several machines, over the mixes too.
func TestGateOnSeveralMachines(t *testing.T) {
	side := func(by float64) (s Side) {
		for _, mix := range []string{"W1", "W2", "W3"} {
			s.Runs = append(s.Runs, mixOn(mix, times(speeds, by), 2, 2, 1)...)
		}
		return s
	}
	old, slow := side(1), side(1.1)
	r := Gate(old, slow, limits(t, "makespan=3%"), stats.DefaultAlpha)
	if r.Checks[0].Mixes != 3 || r.Checks[0].Class != Regression || r.Checks[0].Comparison.Strata != 9 {
		t.Errorf("%+v, want a regression over 3 mixes and 3 machines", r.Checks[0])
	}
	if r = Gate(old, side(1), limits(t, "makespan=3%"), stats.DefaultAlpha); r.Failed() > 0 {
		t.Errorf("equal sides fail: %+v", r.Checks[0])
	}
}

// Runs on a machine that the other side did not have are left out, with a note. Sides that have no
// machine in common are compared as before, because the environment says so.
func TestMachinesOfOneSide(t *testing.T) {
	r, err := Compare(Side{Label: "old", Runs: on(speeds, 4, 4, 0)}, Side{Label: "new", Runs: on(speeds, 4, 0, 5)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Rows[0]; row.A.N != 4 || row.B.N != 4 || row.Strata != 0 || !strings.Contains(fmt.Sprint(r.Notes), "on which the other side has none are left out: 9") {
		t.Errorf("%d and %d runs, notes %q", row.A.N, row.B.N, r.Notes)
	}
	if r, err = Compare(Side{Label: "old", Runs: on(speeds, 4)}, Side{Label: "new", Runs: on(speeds, 0, 4)}, Options{}); err != nil {
		t.Fatal(err)
	}
	if row := r.Rows[0]; row.A.N != 4 || row.B.N != 4 || len(row.Pair.environment) == 0 {
		t.Errorf("%d and %d runs, environment %v", row.A.N, row.B.N, row.Pair.environment)
	}
}

// Simulated runs depend on no machine.
func TestSimulatedRunsHaveNoMachine(t *testing.T) {
	a, b := on(speeds, 4), on(speeds, 0, 4)
	for i := range 4 {
		for _, o := range []*Observation{&a[i], &b[i]} {
			o.Mode, o.Provenance.Configuration = results.Simulated, `{"sim-noise":0.1}`
		}
		a[i].Seed, b[i].Seed = uint64(i+1), uint64(i+11)
	}
	if row := makespan(t, a, b); row.A.N != 4 || row.B.N != 4 || len(row.Pair.environment) != 0 {
		t.Errorf("%d and %d runs, environment %v", row.A.N, row.B.N, row.Pair.environment)
	}
}

// The ratios of a matrix are within machines.
func TestMatrixOnSeveralMachines(t *testing.T) {
	own := on(times(speeds, 0.8), 2, 5)
	for i := range own {
		own[i].Scheduler = "cg"
	}
	metric, err := LookupMetric("makespan")
	if err != nil {
		t.Fatal(err)
	}
	found, err := Matrices(Side{Label: "all", Runs: append(on(speeds, 5, 2), own...)}, "", Options{Metrics: []results.Metric{metric}})
	if err != nil {
		t.Fatal(err)
	}
	for _, ratio := range []Ratio{found[0].Rows[1].Cells[0].Levels[0].Ratio, found[0].Rows[1].Over[0].Ratio} {
		if math.Abs(ratio.Value-0.8) > 0.01 {
			t.Errorf("ratio %.3f, want 0.8 on each machine", ratio.Value)
		}
	}
}
