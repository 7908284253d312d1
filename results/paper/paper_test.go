package paper_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/paper/papertest"
	"github.com/caserun/caserun/schedulers/policies"
)

var v100 = []string{"sa", "cg:workers=6", "cg:workers=8", "cg:workers=10", "cg:workers=12", "case-alg2", "case-alg3"}

func simulated() paper.Node {
	return papertest.Node("sim:4xV100", results.Simulated, "4xV100", 4, papertest.Rodinia(), v100)
}

func build(t *testing.T, nodes ...paper.Node) paper.Page {
	t.Helper()
	page, err := paper.Case().Build(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func table(t *testing.T, page paper.Page, source string) paper.Table {
	t.Helper()
	for _, found := range page.Tables {
		if found.Source == source {
			return found
		}
	}
	t.Fatalf("no %s", source)
	return paper.Table{}
}

func row(t *testing.T, found paper.Table, system, workload, scheduler string) paper.Row {
	t.Helper()
	for _, r := range found.Rows {
		if r.System == system && r.Workload == workload && r.Scheduler == scheduler {
			return r
		}
	}
	t.Fatalf("%s has no row %s %s %s", found.Source, system, workload, scheduler)
	return paper.Row{}
}

// A quotient divides figures of one repetition, even if other repetitions are missing.
func TestQuotientsAreOfOneRepetition(t *testing.T) {
	run := func(id, sweep int64, scheduler string, rep int, throughput float64) results.Run {
		r := results.Run{ID: id, Mix: "W1", MixSource: "catalog", Scheduler: scheduler, Node: "sim:4xV100", Mode: results.Simulated, Repetition: rep,
			Status: results.Complete, Jobs: 16, Metrics: results.Metrics{OK: 16, ThroughputJobsPerS: &throughput}}
		if sweep > 0 {
			r.Sweep = &sweep
		}
		s, err := policies.Parse(scheduler, 4)
		if err != nil {
			t.Fatal(err)
		}
		r.Parameters = s.Parameters()
		return r
	}
	for name, c := range map[string]struct {
		runs []results.Run
		want []int64 // the runs of the quotients
		n    int
	}{
		"one is missing": {[]results.Run{run(1, 1, "sa", 2, 2), run(2, 1, "sa", 3, 3),
			run(3, 1, "case-alg3", 1, 10), run(4, 1, "case-alg3", 2, 20), run(5, 1, "case-alg3", 3, 30)}, []int64{1, 2, 4, 5}, 2},
		"two sweeps": {[]results.Run{run(1, 1, "sa", 1, 1), run(2, 1, "sa", 2, 2),
			run(3, 2, "case-alg3", 1, 10), run(4, 2, "case-alg3", 2, 20)}, []int64{1, 2, 3, 4}, 2},
		"one in both": {[]results.Run{run(1, 1, "sa", 1, 7), run(2, 2, "sa", 1, 1), run(3, 2, "case-alg3", 1, 10)}, []int64{2, 3}, 1},
		"no sweep":    {[]results.Run{run(1, 0, "sa", 1, 1), run(2, 0, "case-alg3", 1, 10)}, []int64{1, 2}, 1},
	} {
		page := build(t, paper.Node{Name: "sim:4xV100", Mode: results.Simulated, Devices: 4, System: "4xV100", Runs: c.runs})
		r := row(t, table(t, page, "Figure 6b"), "4xV100", "W1", "case-alg3")
		if r.Measured == nil || r.Measured.Median != 10 || r.Measured.N != c.n || !slices.Equal(r.Runs, c.want) {
			t.Errorf("%s: %+v of runs %v, want 10 of runs %v", name, r.Measured, r.Runs, c.want)
		}
	}
}

// A mean over no repetitions is not a measurement.
func TestSlowdownOfNoRepetition(t *testing.T) {
	n := papertest.Traced(papertest.Node("local", results.Live, "4xV100", 4, []string{"W1"}, []string{"sa", "case-alg3"}))
	n.Runs = slices.DeleteFunc(n.Runs, func(r results.Run) bool { return (r.Scheduler == "sa") == (r.Repetition > 1) })
	for i := range n.Runs {
		n.Runs[i].Sweep = new(int64(1))
	}
	page := build(t, n)
	r := row(t, table(t, page, "Table 6"), "4xV100", "W1", "case-alg3")
	if r.Measured != nil || !strings.Contains(r.Missing, "no repetition of W1 has both") || page.Measured() != 0 {
		t.Errorf("%+v, of %d numbers", r, page.Measured())
	}
}

func TestEveryPublishedNumberHasARow(t *testing.T) {
	page := build(t)
	stated := 0
	for _, found := range page.Tables {
		for _, r := range found.Rows {
			if r.Published != nil {
				stated++
			}
			if r.Measured != nil || r.Missing == "" {
				t.Errorf("%s %s %s: without runs a number must be missing and say why: %+v", found.Source, r.Workload, r.Scheduler, r)
			}
		}
		if !strings.Contains(strings.Join(found.Notes, "\n"), "caserun ") {
			t.Errorf("%s does not say how to measure it: %q", found.Source, found.Notes)
		}
		traced := slices.ContainsFunc(found.Rows, func(r paper.Row) bool { return r.Metric == "kernel_slowdown_vs_sa" })
		if traced != strings.Contains(strings.Join(found.Notes, "\n"), "--trace") {
			t.Errorf("%s says something else than what its numbers need: %q", found.Source, found.Notes)
		}
	}
	if stated != 131 || page.Measured() != 0 || len(page.Figures) != 0 {
		t.Errorf("%d published numbers, %d measured, %d figures; want all 131 of the data file, 0 and 0", stated, page.Measured(), len(page.Figures))
	}
}

func TestCellsAreWhatTheyClaim(t *testing.T) {
	n := simulated()
	page := build(t, n)
	median := func(values []float64) float64 { // of 7
		for _, v := range values {
			below := 0
			for _, w := range values {
				if w < v {
					below++
				}
			}
			if below == 3 {
				return v
			}
		}
		return math.NaN()
	}
	find := func(mix, scheduler, parameters string, rep int) results.Run {
		for _, r := range n.Runs {
			if r.Mix == mix && r.Scheduler == scheduler && r.Repetition == rep && strings.Contains(r.Parameters, parameters) {
				return r
			}
		}
		t.Fatalf("no run of %s under %s", mix, scheduler)
		return results.Run{}
	}
	var sa, speedup, overAlg2, shares []float64
	for rep := 1; rep <= papertest.Repetitions; rep++ {
		base, alg2, alg3 := find("W3", "sa", "", rep), find("W3", "case-alg2", "", rep), find("W3", "case-alg3", "", rep)
		sa = append(sa, *base.Metrics.ThroughputJobsPerS)
		speedup = append(speedup, *base.Metrics.TurnaroundMeanS / *alg3.Metrics.TurnaroundMeanS)
		overAlg2 = append(overAlg2, *alg3.Metrics.ThroughputJobsPerS / *alg2.Metrics.ThroughputJobsPerS)
		x, y := find("W3", "cg", "workers=8", rep), find("W7", "cg", "workers=8", rep)
		shares = append(shares, (float64(x.Metrics.Crashed)/16+float64(y.Metrics.Crashed)/32)/2)
	}
	for _, c := range []struct {
		source, workload, scheduler string
		want                        float64
	}{
		{"Table 7", "W3", "sa", median(sa)},
		{"Table 4", "W3", "case-alg3", median(speedup)},
		{"Figure 5", "W3", "case-alg3", median(overAlg2)},
	} {
		r := row(t, table(t, page, c.source), "4xV100", c.workload, c.scheduler)
		if r.Measured == nil || r.Measured.Median != c.want || r.Measured.N != 7 || !r.Measured.Bounded() {
			t.Errorf("%s %s: %+v, want the median %v of 7", c.source, c.workload, r.Measured, c.want)
		}
	}
	r := row(t, table(t, page, "Table 3"), "4xV100", "3:1", "cg:workers=8")
	if lowest, highest := minmax(shares); r.Measured == nil || r.Measured.Median < lowest || r.Measured.Median > highest || len(r.Runs) != 14 {
		t.Errorf("Table 3, 3:1, 8 workers: %+v of runs %v; want the mean share of W3 and W7, 14 runs", r.Measured, r.Runs)
	}
	if r := row(t, table(t, page, "Table 3"), "2xP100", "3:1", "cg:workers=3"); r.Measured != nil {
		t.Errorf("a V100's runs stand for the P100: %+v", r)
	}
}

func minmax(values []float64) (lowest, highest float64) {
	lowest, highest = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		lowest, highest = min(lowest, v), max(highest, v)
	}
	return lowest, highest
}

func TestSimulatedSaysSo(t *testing.T) {
	page := build(t, simulated())
	for _, found := range page.Tables {
		if found.Measured() > 0 && (!strings.Contains(found.Title(), "SIMULATED") || !strings.Contains(found.Agreement, "SIMULATED")) {
			t.Errorf("%s: %q, %q", found.Source, found.Title(), found.Agreement)
		}
	}
	if len(page.Figures) != 3 { // 5, 6b, 7
		t.Errorf("%d figures, want 3", len(page.Figures))
	}
	for _, f := range page.Figures {
		if !strings.Contains(f.Title, "SIMULATED") || !strings.Contains(f.Caption, "SIMULATED") {
			t.Errorf("%s: %q, %q", f.ID, f.Title, f.Caption)
		}
	}
	if title := table(t, build(t, papertest.Node("local", results.Live, "4xV100", 4, papertest.Rodinia(), v100)), "Table 7").Title(); !strings.HasSuffix(title, "beside measured") {
		t.Errorf("a measured table is called simulated: %s", title)
	}
}

// Each table with numbers from several machines says so.
func TestSeveralMachinesAreNoted(t *testing.T) {
	n := papertest.Node("local", results.Live, "4xV100", 4, papertest.Rodinia(), v100)
	n.Machines = "host names: 2, sets of GPUs: 2"
	for _, found := range build(t, n).Tables {
		said := strings.Contains(strings.Join(found.Notes, "\n"), "The runs on local are of several machines (host names: 2, sets of GPUs: 2)")
		if said != (found.Measured() > 0) {
			t.Errorf("%s with %d numbers measured: %q", found.Source, found.Measured(), found.Notes)
		}
	}
}

// A retry of some of a mix's jobs, or a user's mix of the same name, is not a repetition of the
// mix. A note says that it is left out.
func TestPartsOfAMixDoNotCount(t *testing.T) {
	n := simulated()
	want := row(t, table(t, build(t, n), "Table 7"), "4xV100", "W7", "case-alg2")
	for i := range 7 {
		r := n.Runs[slices.IndexFunc(n.Runs, func(r results.Run) bool { return r.Mix == "W7" && r.Scheduler == "case-alg2" })]
		r.ID, r.Jobs, r.Repetition, r.Metrics.ThroughputJobsPerS = int64(900+i), 2, 1, new(0.01)
		n.Runs = append(n.Runs, r)
	}
	for i := range 7 { // a user's mix with equally many jobs
		r := n.Runs[slices.IndexFunc(n.Runs, func(r results.Run) bool { return r.Mix == "W7" && r.Scheduler == "case-alg2" })]
		r.ID, r.MixSource, r.Repetition, r.Metrics.ThroughputJobsPerS = int64(907+i), "my.yaml", 1, new(0.01)
		n.Runs = append(n.Runs, r)
	}
	page := build(t, n)
	if got := row(t, table(t, page, "Table 7"), "4xV100", "W7", "case-alg2"); got.Measured.Median != want.Measured.Median || !slices.Equal(got.Runs, want.Runs) {
		t.Errorf("with seven runs of two jobs and seven of my.yaml: %+v of %v, want %+v of %v", got.Measured, got.Runs, want.Measured, want.Runs)
	}
	if left := page.Nodes[0]; len(left.Parts) != 14 || len(left.Runs)+14 != len(n.Runs) {
		t.Errorf("%d runs count and %d do not, of %d", len(left.Runs), len(left.Parts), len(n.Runs))
	}
	const say = "Runs on sim:4xV100 that have the name of the paper's mix and are not of the catalog's, and are left out: 900 (W7, 2 jobs, from catalog), 901 "
	for source, said := range map[string]bool{"Table 3": true, "Table 7": true, "Figure 5": true, "Figure 7": true, "Table 8": false, "Figure 9": false} {
		notes := strings.Join(table(t, page, source).Notes, "\n")
		if strings.Contains(notes, say) != said || strings.Contains(notes, "907 (W7, 32 jobs, from my.yaml), 908 (W7, 32 jobs, from my.yaml), 909 (W7, 32 jobs, from my.yaml), and 4 more.") != said {
			t.Errorf("%s says that runs are left out: %v, want %v: %s", source, !said, said, notes)
		}
	}
}

func TestIncompleteAndTracedRunsAreNoTimes(t *testing.T) {
	n := simulated()
	n.Runs = nil
	for i, r := range simulated().Runs {
		r.Traced = i%2 == 0
		if !r.Traced {
			r.Status = results.Interrupted
		}
		n.Runs = append(n.Runs, r)
	}
	if got := table(t, build(t, n), "Table 7").Measured(); got != 0 {
		t.Errorf("Table 7 has %d numbers from traced and interrupted runs", got)
	}
}

// A baseline that was not measured has no bar.
func TestBaselineIsDrawnWhereItWasMeasured(t *testing.T) {
	n := simulated()
	n.Runs = slices.DeleteFunc(n.Runs, func(r results.Run) bool { return r.Mix == "W6" && r.Scheduler == "sa" })
	page := build(t, n)
	i := slices.IndexFunc(page.Figures, func(f paper.Figure) bool { return f.ID == "figure-6b" })
	b := page.Figures[i].Bars
	for g, group := range b.Groups {
		drawn := b.Series[0].Bars[g] != nil
		if want := group != "W6" && group != "mean"; drawn != want {
			t.Errorf("%s: a bar of %s: %v, want %v", group, b.Series[0].Name, drawn, want)
		}
	}
}

// cg loses jobs of every mix, and is not better than sa whatever its ratio. case-alg3 loses none.
func TestBarsOfLostJobsAreMarked(t *testing.T) {
	page := build(t, papertest.Node("local", results.Live, "4xV100", 4, papertest.Rodinia(), v100))
	for _, mix := range append(papertest.Rodinia(), "mean W1-W8") {
		for _, scheduler := range []string{"cg", "case-alg3"} {
			if r := row(t, table(t, page, "Figure 6b"), "4xV100", mix, scheduler); r.Measured == nil || r.LostMore != (scheduler == "cg") {
				t.Errorf("%s under %s: %+v", mix, scheduler, r)
			}
		}
	}
	i := slices.IndexFunc(page.Figures, func(f paper.Figure) bool { return f.ID == "figure-6b" })
	if f := page.Figures[i]; slices.Contains(f.Bars.Series[1].LostMore, false) || slices.Contains(f.Bars.Series[2].LostMore, true) || !strings.Contains(f.Caption, "A cross: not comparable") {
		t.Errorf("figure 6b: %+v: %s", f.Bars.Series, f.Caption)
	}
	dead := papertest.Node("local", results.Live, "4xV100", 4, []string{"D-128"}, v100)
	for i := range dead.Runs {
		if m := &dead.Runs[i].Metrics; dead.Runs[i].Scheduler == "case-alg3" {
			m.OK, m.Crashed = 0, dead.Runs[i].Jobs
		}
	}
	for _, r := range table(t, build(t, dead), "section 5.3").Rows {
		if r.Measured != nil || !strings.Contains(r.Missing, "has no makespan (no job ended ok)") {
			t.Errorf("makespan of runs in which no job ended ok: %+v", r)
		}
	}
}

func TestSlowdownComesFromTracedRuns(t *testing.T) {
	n := papertest.Traced(papertest.Node("local", results.Live, "4xV100", 4, papertest.Rodinia(), []string{"sa", "case-alg2", "case-alg3"}))
	found := table(t, build(t, n), "Table 6")
	if found.Measured() != 18 {
		t.Errorf("%d of 18 numbers: %v", found.Measured(), found.Notes)
	}
	if r := row(t, found, "4xV100", "mean", "case-alg3"); r.Measured == nil || math.Abs(r.Measured.Median-0.02) > 1e-12 {
		t.Errorf("mean slowdown %+v, want 2 %%", r.Measured)
	}
}

// Kernels of a mix that was not traced under sa are compared with other mixes' traced runs under sa, if these have its jobs.
func TestSlowdownAgainstJobsAlone(t *testing.T) {
	n := papertest.Traced(papertest.Node("local", results.Live, "4xV100", 4, papertest.Rodinia(), []string{"sa", "case-alg3"}))
	n.Runs = slices.DeleteFunc(n.Runs, func(r results.Run) bool { return r.Scheduler == "sa" && r.Mix != "W1" })
	sa := 0
	for i, r := range n.Runs {
		if r.Scheduler == "sa" {
			n.Runs[i].Mix = "each"
			sa++
		}
	}
	r := row(t, table(t, build(t, n), "Table 6"), "4xV100", "W3", "case-alg3")
	if r.Measured == nil || math.Abs(r.Measured.Median-0.02) > 1e-12 || len(r.Runs) != papertest.Repetitions+sa || sa == 0 {
		t.Errorf("slowdown %+v from runs %v, want 2 %% from runs under case-alg3 and %d under sa", r.Measured, r.Runs, sa)
	}
	whole := n.Trace
	n.Trace = func(run int64) (results.Traced, error) {
		found, err := whole(run)
		if i := slices.IndexFunc(n.Runs, func(r results.Run) bool { return r.ID == run }); n.Runs[i].Scheduler == "sa" {
			found.Jobs = found.Jobs[:1]
		}
		return found, err
	}
	r = row(t, table(t, build(t, n), "Table 6"), "4xV100", "W3", "case-alg3")
	if want := "traced: no complete run of W3 under sa, and no run under sa has its k"; r.Missing != want {
		t.Errorf("without one of the jobs: %+v, want missing: %q", r, want)
	}
}

func TestOtherParametersStandInOnlyAlone(t *testing.T) {
	one := papertest.Node("sim:4xV100", results.Simulated, "4xV100", 4, papertest.Rodinia(), []string{"case-alg2:queue=fifo"})
	if got := table(t, build(t, one), "Table 7").Measured(); got != 8 {
		t.Errorf("case-alg2 with one other set of parameters: %d numbers, want 8", got)
	}
	two := papertest.Node("sim:4xV100", results.Simulated, "4xV100", 4, papertest.Rodinia(), []string{"case-alg2:queue=fifo", "case-alg2:queue=mmu"})
	found := table(t, build(t, two), "Table 7")
	if found.Measured() != 0 || !strings.Contains(found.Rows[0].Missing, "2 sets of parameters") {
		t.Errorf("with two sets: %d numbers, %q", found.Measured(), found.Rows[0].Missing)
	}
}

// The rows are of the paper's schedulers. A note says what the user calls the arms behind them.
func TestNamedArmsOfAPaper(t *testing.T) {
	n := papertest.Node("sim:4xV100", results.Simulated, "4xV100", 4, papertest.Rodinia(), []string{"case-alg2:queue=fifo"})
	for i := range n.Runs {
		n.Runs[i].Arm = "mine"
	}
	found := table(t, build(t, n), "Table 7")
	if want := "On sim:4xV100, case-alg2 is what the runs call mine (case-alg2:" + n.Runs[0].Parameters + ")."; !slices.Contains(found.Notes, want) {
		t.Errorf("notes %q, want %q", found.Notes, want)
	}
	for i := range n.Runs {
		n.Runs[i].Metrics = results.Metrics{OK: 1}
	}
	r := table(t, build(t, n), "Table 7").Rows[0]
	if want := "under mine) has no"; !strings.Contains(r.Missing, want) {
		t.Errorf("missing %q, want %q", r.Missing, want)
	}
}

func TestOtherProbesStandInOnlyAlone(t *testing.T) {
	const case2 = "case-alg2"
	one := papertest.Node("local", results.Live, "4xV100", 4, papertest.Rodinia(), []string{case2})
	lazy := table(t, build(t, one), "Table 7")
	both := one
	for _, r := range one.Runs {
		r.ID, r.Probe = r.ID+1000, results.Static
		r.Metrics.TurnaroundMeanS = nil
		both.Runs = append(both.Runs, r)
	}
	if diff := cmp.Diff(lazy, table(t, build(t, both), "Table 7")); diff != "" {
		t.Errorf("runs of casecc's programs changed the table:\n%s", diff)
	}
	for i := range one.Runs {
		one.Runs[i].Probe = results.Static
	}
	if got := table(t, build(t, one), "Table 7").Measured(); got != 8 {
		t.Errorf("casecc's programs alone: %d numbers, want 8", got)
	}
}

func TestDarknetFigures(t *testing.T) {
	n := papertest.Node("local", results.Live, "4xV100", 4, append(papertest.Darknet(), "D-128"), []string{"sa", "schedgpu", "case-alg3"})
	page := build(t, n)
	for source, want := range map[string]int{"Table 8": 4, "Figure 8": 4, "Figure 9": 2, "section 5.3": 1} {
		if got := table(t, page, source).Measured(); got != want {
			t.Errorf("%s: %d numbers, want %d", source, got, want)
		}
	}
	for _, f := range page.Figures {
		if f.ID == "figure-9" && len(f.Curves) != 2 {
			t.Errorf("Figure 9 has %d curves", len(f.Curves))
		}
	}
}

func TestTwoNodesForOneSystem(t *testing.T) {
	other := simulated()
	other.Name = "local"
	if _, err := paper.Case().Build([]paper.Node{simulated(), other}); err == nil || !strings.Contains(err.Error(), "local") {
		t.Errorf("error %v, want one that names both nodes", err)
	}
}

func TestSystemFor(t *testing.T) {
	for _, c := range []struct {
		node    string
		devices int
		want    string
	}{{"sim:2xP100", 2, "2xP100"}, {"local", 4, "4xV100"}, {"local", 2, "2xP100"}, {"sim:8xA100", 8, ""}} {
		got, err := paper.Case().SystemFor(c.node, c.devices)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s with %d: %q, %v", c.node, c.devices, got, err)
		}
	}
}

// NVML's utilization is the time in which a kernel is on the device. That stands beside it for a simulated node, and not the
// modelled share of busy SMs.
func TestUtilizationOfSimulatedNodesIsKernelResidency(t *testing.T) {
	for mode, c := range map[results.Mode]struct {
		mean func(results.Run) *float64
		peak float64 // of the square wave of papertest
		says string
	}{
		results.Simulated: {func(r results.Run) *float64 { return r.Metrics.KernelUtilizationMean }, 0.5, "its numbers are that fraction (kernel resident)"},
		results.Live:      {func(r results.Run) *float64 { return r.Metrics.UtilizationMean }, 0.5, "Utilization is NVML's, the fraction"},
	} {
		n := papertest.Node("node", mode, "4xV100", 4, []string{"W7", "D-train"}, []string{"case-alg3", "schedgpu"})
		n.Runs = slices.DeleteFunc(n.Runs, func(r results.Run) bool { return r.Repetition > 1 })
		page := build(t, n)
		for source, workload := range map[string]string{"Figure 7": "W7", "Figure 9": "Darknet 8 jobs"} {
			found := table(t, page, source)
			mix := strings.Replace(workload, "Darknet 8 jobs", "D-train", 1)
			run := n.Runs[slices.IndexFunc(n.Runs, func(r results.Run) bool { return r.Mix == mix && r.Scheduler == "case-alg3" })]
			for _, r := range found.Rows {
				if r.Scheduler != "case-alg3" {
					continue
				}
				want := *c.mean(run)
				if r.Metric == "peak_utilization" {
					want = c.peak
				}
				if r.Measured == nil || math.Abs(r.Measured.Median-want) > 1e-12 {
					t.Errorf("%s, %s, %s: %+v, want %g", mode, source, r.Metric, r.Measured, want)
				}
			}
			if notes := strings.Join(found.Notes, "\n"); !strings.Contains(notes, c.says) {
				t.Errorf("%s, %s does not say %q: %s", mode, source, c.says, notes)
			}
			i := slices.IndexFunc(page.Figures, func(f paper.Figure) bool { return f.ID == found.ID() })
			if curve := page.Figures[i].Curves[0]; *curve.Mean != *c.mean(run) || *curve.Peak != c.peak || (curve.What == "Utilization") != (mode == results.Live) {
				t.Errorf("%s, %s draws %s, mean %g, peak %g", mode, source, curve.What, *curve.Mean, *curve.Peak)
			}
		}
	}
	n := simulated()
	n.Utilization = func(results.Run) ([]results.Segment, error) { return nil, nil }
	if r := row(t, table(t, build(t, n), "Figure 7"), "4xV100", "W7", "sa"); r.Measured != nil || !strings.Contains(r.Missing, "has no utilization") {
		t.Errorf("the peak of a run without kernels: %+v", r)
	}
	n = simulated()
	for i := range n.Runs {
		n.Runs[i].Metrics.MakespanS = new(1e300)
	}
	page := build(t, n)
	if r := row(t, table(t, page, "Figure 7"), "4xV100", "W7", "sa"); r.Measured != nil || !strings.Contains(r.Missing, "has no utilization") {
		t.Errorf("the peak of an endless run: %+v", r)
	}
	for _, f := range page.Figures {
		for _, c := range f.Curves {
			if len(c.Levels) == 0 || len(c.Levels) > 201 {
				t.Errorf("%s has %d windows in an endless run", f.ID, len(c.Levels))
			}
		}
	}
}

// schedGPU's tables take the runs of benchmarks/schedgpu.sh, whose mixes are not in the catalog.
func TestSchedGPU(t *testing.T) {
	p, err := paper.Lookup("schedgpu")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := paper.Lookup("schedgpv"); err == nil || !strings.Contains(err.Error(), "did you mean schedgpu?") {
		t.Errorf("a misspelt name: %v", err)
	}
	n := paper.Node{Name: "local", Mode: results.Live, Devices: 1, System: "1xK20m", CapacityBytes: 1000,
		Utilization: func(r results.Run) ([]results.Segment, error) { // 100 bytes before the jobs, then 100 and 50 more for each job
			used := float64(100 + 100*r.Jobs)
			return []results.Segment{{Series: results.SeriesMemory, FirstS: -1, LastS: 0, Value: new(100.0)}, {Series: results.SeriesMemory, FirstS: 0, LastS: 5, Value: &used},
				{Series: results.SeriesMemory, FirstS: 5, LastS: 10, Value: new(used - float64(50*r.Jobs))}}, nil
		}}
	add := func(mix string, jobs int, scheduler, parameters string, makespan float64) {
		n.Runs = append(n.Runs, results.Run{ID: int64(len(n.Runs) + 1), Mix: mix, MixSource: mix + ".yaml", Scheduler: scheduler, Parameters: parameters, Node: "local", Mode: results.Live,
			Status: results.Complete, Jobs: jobs, Metrics: results.Metrics{OK: jobs, MakespanS: new(makespan), TurnaroundMeanS: new(makespan / 2), UtilizationMean: new(1 / makespan)}})
	}
	with := func(scheduler string) string {
		s, err := policies.Parse(scheduler, 1)
		if err != nil {
			t.Fatal(err)
		}
		return s.Parameters()
	}
	add("low-1", 1, "sa", "", 10)
	add("low-4", 4, "cg", "workers=6", 10)
	add("low-6", 6, "cg", "workers=6", 10)
	add("low-12", 12, "cg", "workers=6", 20)
	add("low-12", 12, "sa", "", 120)
	add("low-12", 12, "schedgpu", with("schedgpu"), 12)
	add("low-moderate-high-4", 12, "sa", "", 100)
	add("low-moderate-high-4", 12, "schedgpu", with("schedgpu:queue=priority-mmu"), 20)
	page, err := p.Build([]paper.Node{n})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		source, workload, scheduler, metric string
		want                                float64 // 0: not measured
		runs                                []int64
	}{
		{"Table 1", "1 ARA", "sa", "mean_utilization", 0.1, []int64{1}},
		{"Table 1", "1 ARA", "sa", "memory_utilization", 0.075, []int64{1}},
		{"Table 1", "6 ARA", "cg", "mean_utilization", 0.1, []int64{3}}, // as many as fit are six, and not four
		{"Table 1", "6 MUMmerGPU", "cg", "mean_utilization", 0, nil},
		{"Table 2", "12 ARA", "schedgpu", "turnaround", 6, []int64{6}},
		{"Table 3", "4 of each", "schedgpu:queue=priority-mmu", "makespan", 20, []int64{8}},
		{"Table 3", "4 of each", "schedgpu:queue=fifo", "makespan", 0, nil},
		{"Figure 9", "a client", "schedgpu:arch=server", "time_in_schedgpu", 0, nil},
		{"Text", "12 ARA", "schedgpu", "makespan_speedup_over_sa", 10, []int64{5, 6}},
		{"Text", "12 ARA", "schedgpu", "makespan_speedup_over_packed", 20.0 / 12, []int64{4, 6}},
		{"Text", "4 of each", "schedgpu:queue=priority-mmu", "mean_utilization_over_sa", 5, []int64{7, 8}},
		{"Text", "12 of 18 benchmarks", "schedgpu", "time_over_packed", 0, nil},
	} {
		rows := table(t, page, c.source).Rows
		i := slices.IndexFunc(rows, func(r paper.Row) bool {
			return r.Workload == c.workload && r.Scheduler == c.scheduler && r.Metric == c.metric
		})
		if i < 0 {
			t.Errorf("%s has no %s of %s under %s", c.source, c.metric, c.workload, c.scheduler)
			continue
		}
		r := rows[i]
		switch {
		case c.want == 0 && (r.Measured != nil || r.Missing == ""), c.want != 0 && (r.Measured == nil || math.Abs(r.Measured.Median-c.want) > 1e-9 || !slices.Equal(r.Runs, c.runs)):
			t.Errorf("%s, %s of %s under %s: %+v of runs %v, missing %q; want %g of %v", c.source, c.metric, c.workload, c.scheduler, r.Measured, r.Runs, r.Missing, c.want, c.runs)
		case r.Published == nil:
			t.Errorf("%s, %s of %s: no published number", c.source, c.metric, c.workload)
		}
	}
	if found := table(t, page, "Figure 9"); !strings.Contains(strings.Join(found.Notes, "\n"), "(no run measures the stages of one client). make bench measures them") {
		t.Errorf("Figure 9: %q", found.Notes)
	}
	if !p.Has("low-12") || p.Has("W1") {
		t.Error("low-12 is a mix of the paper, and W1 is not")
	}
}
