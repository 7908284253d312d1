package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers/policies"
)

// cell is one run of the committed sweep, and the same run simulated.
type cell struct {
	live, simulated results.Metrics
	machine         string  // one of its GPUs
	processorS      float64 // of all live jobs
	profiledS       float64 // what the profiles say that the same jobs take alone
}

var (
	liveSchedulers = []string{"sa", "cg", "case-alg2", "case-alg3"}
	// The aims are 12 % for a scheduler's throughput, in the mean of the mixes' absolute errors, and 10 % for the
	// mean ratio to sa. docs/simulation.md says why some are not met. There the limit keeps the model from getting worse.
	worstThroughput = map[string]float64{"sa": 14, "cg": 15.5, "case-alg2": 15, "case-alg3": 21}
	worstRatio      = map[string]float64{"cg": 10, "case-alg2": 10, "case-alg3": 12}
)

// TestThePageShowsHowTheModelAgreesWithLiveRuns simulates each run of the committed sweep on four H200s
// (docs/evaluation) with the same jobs, workers and memory.
func TestThePageShowsHowTheModelAgreesWithLiveRuns(t *testing.T) {
	cells := sweep(t)
	for scheduler, worst := range worstThroughput {
		if e := 100 * meanError(cells, scheduler, cellThroughput); e > worst {
			t.Errorf("%s: throughput is off by %.1f %% in the mean of the mixes, want at most %v", scheduler, e, worst)
		}
	}
	for scheduler, worst := range worstRatio {
		live, simulated := meanRatios(cells, scheduler)
		if e := 100 * math.Abs(simulated/live-1); e > worst {
			t.Errorf("%s over sa: %.3f live and %.3f simulated, off by %.1f %%, want at most %v", scheduler, live, simulated, e, worst)
		}
	}
	showsTables(t, "../../docs/simulation.md", []generated{
		{"live", func(testing.TB) string { return liveTable(cells) }},
		{"live ratios", func(testing.TB) string { return liveRatios(cells) }},
		{"live hosts", func(testing.TB) string { return liveHosts(cells) }},
	})
}

// sweep has the cells of the committed sweep by scheduler, each in the order of mixNames.
func sweep(t *testing.T) map[string][]cell {
	t.Helper()
	b, err := bundle.Open(t.Context(), "../../docs/evaluation/sweep.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	out := map[string][]cell{}
	for _, scheduler := range liveSchedulers {
		for _, mix := range mixNames {
			runs, err := b.Runs(t.Context(), store.Filter{Mix: mix, Scheduler: scheduler, Status: results.Complete})
			if err != nil {
				t.Fatal(err)
			}
			if len(runs) != 1 {
				t.Fatalf("the sweep has %d complete runs of %s under %s, want 1", len(runs), mix, scheduler)
			}
			out[scheduler] = append(out[scheduler], simulateRun(t, b.Store, runs[0]))
		}
	}
	return out
}

func simulateRun(t *testing.T, db *store.Store, run results.Run) cell {
	t.Helper()
	devices, err := db.Devices(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := db.Jobs(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	r := trial{node: mustNode(t, fmt.Sprintf("sim:%dxH200", len(devices))), scheduler: run.Scheduler + ":" + run.Parameters, workers: run.Workers}
	if run.Parameters == "" {
		r.scheduler = run.Scheduler
	}
	s, err := policies.Parse(r.scheduler, len(devices))
	if err != nil {
		t.Fatal(err)
	}
	if r.node.Model.MemoryBytes = devices[0].CapacityBytes; s.Shares {
		r.node.Model.MemoryBytes += runner.ServerBytes
	}
	if r.node.Cores() != run.Provenance.Cores {
		t.Fatalf("%s has %d cores, and the machine of run %d had %d", r.node.Name, r.node.Cores(), run.ID, run.Provenance.Cores)
	}
	mix := mixJobs(t, run.Mix)
	if !slices.EqualFunc(mix, jobs, func(m mixes.Job, j results.Job) bool { return m.Command() == j.Command }) {
		t.Fatalf("the jobs of run %d are not those of %s", run.ID, run.Mix)
	}
	c := cell{live: run.Metrics, simulated: r.metrics(t, run.Mix), machine: devices[0].UUID}
	for i, j := range jobs {
		p, err := profiles.Catalog().Lookup(mix[i])
		if err != nil {
			t.Fatal(err)
		}
		if j.Outcome != nil && *j.Outcome == results.OK {
			c.processorS += *j.UserS + *j.SysS
			c.profiledS += p.WallS()
		}
	}
	return c
}

// cellThroughput is a cell's live and simulated throughput in jobs/s.
func cellThroughput(c cell, _ int) (live, simulated float64) {
	return throughput(c.live), throughput(c.simulated)
}

// overSA is a cell's throughput over that of sa's cell of the same mix.
func overSA(cells map[string][]cell) func(c cell, mix int) (live, simulated float64) {
	return func(c cell, mix int) (live, simulated float64) {
		sa := cells["sa"][mix]
		return throughput(c.live) / throughput(sa.live), throughput(c.simulated) / throughput(sa.simulated)
	}
}

// meanError is the mean of the mixes' absolute errors.
func meanError(cells map[string][]cell, scheduler string, of func(c cell, mix int) (live, simulated float64)) float64 {
	sum := 0.0
	for mix, c := range cells[scheduler] {
		live, simulated := of(c, mix)
		sum += math.Abs(simulated/live - 1)
	}
	return sum / float64(len(mixNames))
}

// meanRatios is the mean of the mixes' throughputs over sa's.
func meanRatios(cells map[string][]cell, scheduler string) (live, simulated float64) {
	for mix, c := range cells[scheduler] {
		l, s := overSA(cells)(c, mix)
		live, simulated = live+l/float64(len(mixNames)), simulated+s/float64(len(mixNames))
	}
	return live, simulated
}

// liveTable is throughput in jobs/s.
func liveTable(cells map[string][]cell) string {
	rows := [][]string{{"mix"}}
	for _, mix := range mixNames {
		rows = append(rows, []string{mix})
	}
	last := []string{"mean absolute error"}
	for _, scheduler := range liveSchedulers {
		rows[0] = append(rows[0], scheduler+": live", "simulated", "error, %")
		for mix, c := range cells[scheduler] {
			live, simulated := cellThroughput(c, mix)
			rows[mix+1] = append(rows[mix+1], fmt.Sprintf("%.3f", live), fmt.Sprintf("%.3f", simulated), errorOf(simulated, live))
		}
		last = append(last, "", "", fmt.Sprintf("%.1f", 100*meanError(cells, scheduler, cellThroughput)))
	}
	return table(append(rows, last))
}

// liveRatios is throughput over that of sa.
func liveRatios(cells map[string][]cell) string {
	rows := [][]string{{"over sa", "live", "simulated", "error, %", "mean absolute error of a mix's ratio, %"}}
	for _, scheduler := range liveSchedulers[1:] {
		live, simulated := meanRatios(cells, scheduler)
		rows = append(rows, []string{scheduler, fmt.Sprintf("%.2f", live), fmt.Sprintf("%.2f", simulated), errorOf(simulated, live),
			fmt.Sprintf("%.1f", 100*meanError(cells, scheduler, overSA(cells)))})
	}
	return table(rows)
}

// liveHosts is the processor time of the live jobs that ended ok, over what their profiles say that they take
// alone, by machine.
func liveHosts(cells map[string][]cell) string {
	rows := [][]string{append([]string{"machine of"}, liveSchedulers...)}
	mixesOf := map[string][]string{}
	for mix, c := range cells["sa"] {
		mixesOf[c.machine] = append(mixesOf[c.machine], mixNames[mix])
	}
	for _, machine := range slices.SortedFunc(maps.Keys(mixesOf), func(a, b string) int { return strings.Compare(mixesOf[a][0], mixesOf[b][0]) }) {
		row := []string{strings.Join(mixesOf[machine], ", ")}
		for _, scheduler := range liveSchedulers {
			processor, profiled := 0.0, 0.0
			for _, c := range cells[scheduler] {
				if c.machine == machine {
					processor, profiled = processor+c.processorS, profiled+c.profiledS
				}
			}
			row = append(row, fmt.Sprintf("%.2f", processor/profiled))
		}
		rows = append(rows, row)
	}
	return table(rows)
}
