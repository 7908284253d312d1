package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/docs/pagetest"
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
	machine, gpu    string               // the UUID and the name of one of its GPUs
	processorS      float64              // of all live jobs
	profiledS       float64              // what the profiles say that the same jobs take alone
	seconds         map[string][]float64 // that each live job lasted that ended ok, by command
	profiles        profiles.Set
	// simulate does it again on a host with this Model.HostFactor, with these profiles.
	simulate func(hostFactor float64, own profiles.Set) results.Metrics
}

var (
	liveSchedulers = []string{"sa", "cg", "case-alg2", "case-alg3"}
	// The aims are for a scheduler's throughput, in the mean of the mixes' absolute errors, and for the mean ratio to
	// sa. As predictions not all are met, and these limits keep them from getting worse. The aims hold with profiles fitted to the host,
	// but not for cg, and for what the host's speed during each run explains, which is known only afterwards. docs/simulation.md says more.
	worstThroughput = map[string]float64{"sa": 14, "cg": 15.5, "case-alg2": 15, "case-alg3": 21}
	worstRatio      = map[string]float64{"cg": 10, "case-alg2": 10, "case-alg3": 12}
)

const (
	aimThroughput = 12 // %
	aimRatio      = 10
)

// TestThePageShowsHowTheModelAgreesWithLiveRuns simulates each run of the committed sweep on four H200s
// (docs/evaluation) with the same jobs, workers and memory.
func TestThePageShowsHowTheModelAgreesWithLiveRuns(t *testing.T) {
	suite, err := profiles.Load(t.Context(), "../../benchmarks/profiles/suite_h100.csv")
	if err != nil {
		t.Fatal(err)
	}
	cells := sweep(t, profiles.Set{})
	atMost := func(what, host string, e, worst float64) {
		if e > worst {
			t.Errorf("%s, host of %s: off by %.1f %% in the mean of the mixes, want at most %v", what, host, e, worst)
		}
	}
	explained := onHosts(cells, cell.hostFactor)
	predicted := fitted(t, cells)
	for _, scheduler := range []string{"case-alg2", "case-alg3"} {
		atMost(scheduler, "fitted profiles", 100*meanError(predicted, scheduler, cellThroughput), aimThroughput)
		atMost(scheduler+" over sa", "fitted profiles", 100*math.Abs(ratioError(predicted, scheduler)), aimRatio)
	}
	for scheduler, worst := range worstThroughput {
		atMost(scheduler, "the profiles", 100*meanError(cells, scheduler, cellThroughput), worst)
		atMost(scheduler, "each run", 100*meanError(explained, scheduler, cellThroughput), aimThroughput)
	}
	for scheduler, worst := range worstRatio {
		atMost(scheduler+" over sa", "the profiles", 100*math.Abs(ratioError(cells, scheduler)), worst)
		atMost(scheduler+" over sa", "each run", 100*math.Abs(ratioError(explained, scheduler)), aimRatio)
	}
	pagetest.Shows(t, "../../docs/simulation.md",
		pagetest.Table{Name: "live", Generate: func(testing.TB) string { return liveTable(cells) }},
		pagetest.Table{Name: "live ratios", Generate: func(testing.TB) string { return liveRatios(cells) }},
		pagetest.Table{Name: "live hosts", Generate: func(testing.TB) string { return liveHosts(cells) }},
		pagetest.Table{Name: "live known hosts", Generate: func(testing.TB) string { return liveKnownHosts(t, cells, sweep(t, suite)) }},
	)
}

// sweep has the cells of the committed sweep by scheduler, each in the order of mixNames. Profiles go before the catalog's.
func sweep(t *testing.T, own profiles.Set) map[string][]cell {
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
			out[scheduler] = append(out[scheduler], simulateRun(t, b.Store, runs[0], own))
		}
	}
	return out
}

func simulateRun(t *testing.T, db *store.Store, run results.Run, own profiles.Set) cell {
	t.Helper()
	devices, err := db.Devices(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := db.Jobs(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	r := trial{node: mustNode(t, fmt.Sprintf("sim:%dxH200", len(devices))), scheduler: run.Scheduler + ":" + run.Parameters, workers: run.Workers, profiles: own}
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
	c := cell{live: run.Metrics, simulated: r.metrics(t, run.Mix), machine: devices[0].UUID, gpu: devices[0].Name, seconds: map[string][]float64{}, profiles: profiles.Catalog().With(own), simulate: func(hostFactor float64, own profiles.Set) results.Metrics {
		r := r
		r.node.Model.HostFactor, r.profiles = hostFactor, own
		return r.metrics(t, run.Mix)
	}}
	for i, j := range jobs {
		p, err := c.profiles.Lookup(mix[i])
		if err != nil {
			t.Fatal(err)
		}
		if j.Outcome != nil && *j.Outcome == results.OK {
			c.processorS += *j.UserS + *j.SysS
			c.profiledS += p.WallS()
			c.seconds[j.Command] = append(c.seconds[j.Command], *j.EndS-*j.StartS)
		}
	}
	return c
}

// hostFactor is how much longer the run's jobs kept the host's cores than their profiles say.
func (c cell) hostFactor() float64 { return c.processorS / c.profiledS }

// machineFactors are those of the machines, from what the runs of one scheduler on them show.
func machineFactors(runs []cell) map[string]float64 {
	factors, profiled := map[string]float64{}, map[string]float64{}
	for _, c := range runs {
		factors[c.machine] += c.processorS
		profiled[c.machine] += c.profiledS
	}
	for machine := range factors {
		factors[machine] /= profiled[machine]
	}
	return factors
}

// onHosts simulates all cells on hosts of which each has the factor that is said of it.
func onHosts(cells map[string][]cell, factor func(cell) float64) map[string][]cell {
	out := map[string][]cell{}
	for scheduler, all := range cells {
		for _, c := range all {
			c.simulated = c.simulate(factor(c), c.profiles)
			out[scheduler] = append(out[scheduler], c)
		}
	}
	return out
}

// fitted simulates all cells with profiles fitted to the runs of sa on the cell's machine, as caserun profile fit does.
func fitted(t testing.TB, cells map[string][]cell) map[string][]cell {
	seconds := map[string]map[string][]float64{}
	for _, c := range cells["sa"] {
		if seconds[c.machine] == nil {
			seconds[c.machine] = map[string][]float64{}
		}
		for command, s := range c.seconds {
			seconds[c.machine][command] = append(seconds[c.machine][command], s...)
		}
	}
	out := map[string][]cell{}
	for scheduler, all := range cells {
		for _, c := range all {
			own, missing, _ := c.profiles.Fitted(c.gpu, seconds[c.machine])
			if len(missing) > 0 {
				t.Fatalf("jobs without a profile: %q", missing)
			}
			c.simulated = c.simulate(1, own)
			out[scheduler] = append(out[scheduler], c)
		}
	}
	return out
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

// ratioError is by what part the simulated mean ratio is too large.
func ratioError(cells map[string][]cell, scheduler string) float64 {
	live, simulated := meanRatios(cells, scheduler)
	return simulated/live - 1
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
	return pagetest.Markdown(append(rows, last))
}

// liveRatios is throughput over that of sa.
func liveRatios(cells map[string][]cell) string {
	rows := [][]string{{"over sa", "live", "simulated", "error, %", "mean absolute error of a mix's ratio, %"}}
	for _, scheduler := range liveSchedulers[1:] {
		live, simulated := meanRatios(cells, scheduler)
		rows = append(rows, []string{scheduler, fmt.Sprintf("%.2f", live), fmt.Sprintf("%.2f", simulated), errorOf(simulated, live),
			fmt.Sprintf("%.1f", 100*meanError(cells, scheduler, overSA(cells)))})
	}
	return pagetest.Markdown(rows)
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
			row = append(row, fmt.Sprintf("%.2f", machineFactors(cells[scheduler])[machine]))
		}
		rows = append(rows, row)
	}
	return pagetest.Markdown(rows)
}

// liveKnownHosts is the mean absolute errors of throughput, and the errors of the mean ratios to sa, if the host is as
// fast as in the profiles, as each machine's was under sa, or as it was during each run. suite is the cells with profiles of
// the programs that ran.
func liveKnownHosts(t testing.TB, cells, suite map[string][]cell) string {
	rows := [][]string{{"speed of the host"}}
	for _, scheduler := range liveSchedulers {
		rows[0] = append(rows[0], scheduler+", %")
	}
	for _, scheduler := range liveSchedulers[1:] {
		rows[0] = append(rows[0], scheduler+" over sa, %")
	}
	ofMachine := func(cells map[string][]cell) map[string][]cell {
		machines := machineFactors(cells["sa"])
		return onHosts(cells, func(c cell) float64 { return machines[c.machine] })
	}
	for _, known := range []struct {
		of    string
		cells map[string][]cell
	}{
		{"of the profiles", cells},
		{"of each machine, from its runs of sa", ofMachine(cells)},
		{"of each program on each machine, fitted to its runs of sa", fitted(t, cells)},
		{"of each run", onHosts(cells, cell.hostFactor)},
		{"of the profiles of the suite", suite},
		{"of each machine, and profiles of the suite", ofMachine(suite)},
		{"of each program on each machine, and profiles of the suite", fitted(t, suite)},
		{"of each run, and profiles of the suite", onHosts(suite, cell.hostFactor)},
	} {
		row := []string{known.of}
		for _, scheduler := range liveSchedulers {
			row = append(row, fmt.Sprintf("%.1f", 100*meanError(known.cells, scheduler, cellThroughput)))
		}
		for _, scheduler := range liveSchedulers[1:] {
			row = append(row, fmt.Sprintf("%+.0f", 100*ratioError(known.cells, scheduler)))
		}
		rows = append(rows, row)
	}
	return pagetest.Markdown(rows)
}
