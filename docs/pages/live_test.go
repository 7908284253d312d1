package pages

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/policies"
)

// sweepCell is one run of the committed sweep, and the same run simulated.
type sweepCell struct {
	live, simulated float64              // throughput in jobs/s
	machine, gpu    string               // the UUID and the name of one of its GPUs
	processorS      float64              // of all live jobs
	profiledS       float64              // what the profiles say that the same jobs take alone
	seconds         map[string][]float64 // that each live job lasted that ended ok, by command
	profiles        profiles.Set
	// simulate does it again on a host with this Model.HostFactor, with these profiles.
	simulate func(hostFactor float64, own profiles.Set) float64
}

var liveSchedulers = []string{"sa", "cg", "case-alg2", "case-alg3"}

// liveCells are with the catalog's profiles.
var liveCells = sync.OnceValue(func() map[string][]sweepCell { return sweep(profiles.Set{}) })

func suiteOnH100() profiles.Set {
	return must(profiles.Load(ctx, "runner/profiles/suite_h100.csv"))
}

// sweep simulates each run of the committed sweep on four H200s (docs/results/sweep.md) with the same jobs, workers and
// memory. It has the cells by scheduler, each in the order of mixNames. Profiles go before the catalog's.
func sweep(own profiles.Set) map[string][]sweepCell {
	b := must(bundle.Open(ctx, "docs/results/bundles/sweep.tar.gz"))
	defer b.Close()
	out := map[string][]sweepCell{}
	for _, scheduler := range liveSchedulers {
		for _, mix := range mixNames {
			runs := must(b.Runs(ctx, store.Filter{Mix: mix, Scheduler: scheduler, Status: results.Complete}))
			if len(runs) != 1 {
				fail("the sweep has %d complete runs of %s under %s, want 1", len(runs), mix, scheduler)
			}
			out[scheduler] = append(out[scheduler], simulateRun(b.Store, runs[0], own))
		}
	}
	return out
}

func simulateRun(db *store.Store, run results.Run, own profiles.Set) sweepCell {
	devices := must(db.Devices(ctx, run.ID))
	jobs := must(db.Jobs(ctx, run.ID))
	r := trial{node: parse(fmt.Sprintf("%dxH200", len(devices))), scheduler: policies.With(run.Scheduler, run.Parameters), workers: run.Workers, profiles: own}
	s := must(policies.Parse(r.scheduler, len(devices)))
	if r.node.Groups[0].MemoryBytes = devices[0].CapacityBytes; s.Shares {
		r.node.Groups[0].MemoryBytes += runner.ServerBytes
	}
	if r.node.Host.Cores != run.Provenance.Cores {
		fail("%s has %d cores, and the machine of run %d had %d", r.node.Name, r.node.Host.Cores, run.ID, run.Provenance.Cores)
	}
	mix := mixOf(run.Mix).Jobs
	if !slices.EqualFunc(mix, jobs, func(m mixes.Job, j results.Job) bool { return m.Command() == j.Command }) {
		fail("the jobs of run %d are not those of %s", run.ID, run.Mix)
	}
	c := sweepCell{live: throughput(run.Metrics), simulated: r.repeated(run.Mix, repetitions).median(throughput), machine: devices[0].UUID, gpu: devices[0].Name, seconds: map[string][]float64{}, profiles: profiles.Catalog().With(own), simulate: func(hostFactor float64, own profiles.Set) float64 {
		r := r
		r.node.Host.Factor, r.profiles = hostFactor, own
		return r.repeated(run.Mix, repetitions).median(throughput)
	}}
	for i, j := range jobs {
		p := must(c.profiles.Lookup(mix[i]))
		if j.Outcome != nil && *j.Outcome == results.OK {
			c.processorS += *j.UserS + *j.SysS
			c.profiledS += p.WallS()
			c.seconds[j.Command] = append(c.seconds[j.Command], *j.EndS-*j.StartS)
		}
	}
	return c
}

// hostFactor is how much longer the run's jobs kept the host's cores than their profiles say.
func (c sweepCell) hostFactor() float64 { return c.processorS / c.profiledS }

// onHosts simulates all cells on hosts of which each has the factor that is said of it.
func onHosts(cells map[string][]sweepCell, factor func(sweepCell) float64) map[string][]sweepCell {
	out := map[string][]sweepCell{}
	for scheduler, all := range cells {
		for _, c := range all {
			c.simulated = c.simulate(factor(c), c.profiles)
			out[scheduler] = append(out[scheduler], c)
		}
	}
	return out
}

// fittedCells simulates all cells with profiles fitted to the runs of sa on the cell's machine, as caserun profile fit does.
func fittedCells(cells map[string][]sweepCell) map[string][]sweepCell {
	seconds := map[string]map[string][]float64{}
	for _, c := range cells["sa"] {
		if seconds[c.machine] == nil {
			seconds[c.machine] = map[string][]float64{}
		}
		for command, s := range c.seconds {
			seconds[c.machine][command] = append(seconds[c.machine][command], s...)
		}
	}
	out := map[string][]sweepCell{}
	for scheduler, all := range cells {
		for _, c := range all {
			own, missing, _ := c.profiles.Fitted(c.gpu, seconds[c.machine])
			if len(missing) > 0 {
				fail("jobs without a profile: %q", missing)
			}
			c.simulated = c.simulate(1, own)
			out[scheduler] = append(out[scheduler], c)
		}
	}
	return out
}

// cellThroughput is a cell's live and simulated throughput in jobs/s.
func cellThroughput(c sweepCell, _ int) (live, simulated float64) {
	return c.live, c.simulated
}

// overSA is a cell's throughput over that of sa's cell of the same mix.
func overSA(cells map[string][]sweepCell) func(c sweepCell, mix int) (live, simulated float64) {
	return func(c sweepCell, mix int) (live, simulated float64) {
		sa := cells["sa"][mix]
		return c.live / sa.live, c.simulated / sa.simulated
	}
}

// meanError is the mean of the mixes' absolute errors.
func meanError(cells map[string][]sweepCell, scheduler string, of func(c sweepCell, mix int) (live, simulated float64)) float64 {
	sum := 0.0
	for mix, c := range cells[scheduler] {
		live, simulated := of(c, mix)
		sum += math.Abs(simulated/live - 1)
	}
	return sum / float64(len(mixNames))
}

// worstError is the largest error of a mix, in percent.
func worstError(cells map[string][]sweepCell, scheduler string, of func(c sweepCell, mix int) (live, simulated float64)) string {
	worst := 0.0
	for mix, c := range cells[scheduler] {
		if live, simulated := of(c, mix); math.Abs(simulated/live-1) > math.Abs(worst) {
			worst = simulated/live - 1
		}
	}
	return fmt.Sprintf("%+.0f", 100*worst)
}

// meanRatios is the mean of the mixes' throughputs over sa's.
func meanRatios(cells map[string][]sweepCell, scheduler string) (live, simulated float64) {
	for mix, c := range cells[scheduler] {
		l, s := overSA(cells)(c, mix)
		live, simulated = live+l/float64(len(mixNames)), simulated+s/float64(len(mixNames))
	}
	return live, simulated
}

// ratioError is by what part the simulated mean ratio is too large.
func ratioError(cells map[string][]sweepCell, scheduler string) float64 {
	live, simulated := meanRatios(cells, scheduler)
	return simulated/live - 1
}

// liveTable is throughput in jobs/s and over that of sa, with the errors.
func liveTable(cells map[string][]sweepCell) string {
	rows := [][]string{{"mix"}}
	for _, mix := range mixNames {
		rows = append(rows, []string{mix})
	}
	errors, ratios, ratioErrors := []string{"absolute error: mean; worst"}, []string{"mean ratio to sa"}, []string{"absolute error of the mixes' ratios: mean; worst"}
	both := func(scheduler string, of func(c sweepCell, mix int) (live, simulated float64)) string {
		return fmt.Sprintf("%.1f; %s", 100*meanError(cells, scheduler, of), worstError(cells, scheduler, of))
	}
	for _, scheduler := range liveSchedulers {
		rows[0] = append(rows[0], scheduler)
		for mix, c := range cells[scheduler] {
			live, simulated := cellThroughput(c, mix)
			rows[mix+1] = append(rows[mix+1], beside("%.3f", live, simulated))
		}
		errors = append(errors, both(scheduler, cellThroughput))
		if scheduler == "sa" {
			ratios, ratioErrors = append(ratios, ""), append(ratioErrors, "")
			continue
		}
		live, simulated := meanRatios(cells, scheduler)
		ratios, ratioErrors = append(ratios, beside("%.2f", live, simulated)), append(ratioErrors, both(scheduler, overSA(cells)))
	}
	return markdown(append(rows, errors, ratios, ratioErrors))
}

// explainedCells are on hosts as fast as each was during the run, and predictedCells have fitted profiles.
var (
	explainedCells = sync.OnceValue(func() map[string][]sweepCell { return onHosts(liveCells(), sweepCell.hostFactor) })
	predictedCells = sync.OnceValue(func() map[string][]sweepCell { return fittedCells(liveCells()) })
)

// liveKnownHosts is the mean absolute errors of throughput, and the error of case-alg3's mean ratio to sa, if the host is as
// fast as in the profiles, as each program was on the machine under sa, or as it was during each run. suite is the cells
// with profiles of the programs that ran.
func liveKnownHosts(cells, suite map[string][]sweepCell) string {
	rows := [][]string{{"speed of the host"}}
	for _, scheduler := range liveSchedulers {
		rows[0] = append(rows[0], scheduler+", %")
	}
	rows[0] = append(rows[0], "case-alg3 over sa, %")
	for _, known := range []struct {
		of    string
		cells map[string][]sweepCell
	}{
		{"of the profiles", cells},
		{"of each program on each machine, fitted", predictedCells()},
		{"of each run", explainedCells()},
		{"of the suite's profiles", suite},
		{"of each program on each machine, from the suite's profiles", fittedCells(suite)},
	} {
		row := []string{known.of}
		for _, scheduler := range liveSchedulers {
			row = append(row, fmt.Sprintf("%.1f", 100*meanError(known.cells, scheduler, cellThroughput)))
		}
		rows = append(rows, append(row, fmt.Sprintf("%+.0f", 100*ratioError(known.cells, "case-alg3"))))
	}
	return markdown(rows)
}
