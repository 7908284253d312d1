package pages

import (
	"fmt"
	"strings"
	"sync"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/profiles/profilestest"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

var simulationPage = page{"docs/results/simulator.md", []table{
	{"by mix", byMix}, {"ratios", ratios}, {"crashes", table3}, {"darknet", darknet}, {"flatness", flatness},
	{"live", func() string { return liveTable(liveCells()) }},
	{"live known hosts", func() string { return liveKnownHosts(liveCells(), sweep(suiteOnH100())) }},
	{"replays", agreement},
}}

var (
	mixNames  = []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"}
	halfMixes = []string{"W2-half", "W5-half", "W7-half", "W8-half"} // of benchmarks/plan
)

// node is a simulated node, the mixes that are run on it, and what is known of their jobs.
type node struct {
	name  string
	model sim.Node
	known profiles.Set
	mixes []string
}

// nodes are in the order of benchmarks/bounds/bounds.csv. Devices of 16 GiB are as with --mem-cap.
var nodes = sync.OnceValue(func() []node {
	catalog, suite := profiles.Catalog(), profiles.Catalog().With(must(profilestest.Suite(".")))
	return []node{
		{"4xV100", parse("4xV100"), catalog, mixNames},
		{"2xP100", parse("2xP100"), catalog, mixNames},
		{"4xH200", parse("4xH200"), catalog, mixNames},
		{"4xH200 of 16 GiB", parse("4xH200").Capped(16 << 30), catalog, mixNames},
		{"4xH100 of 16 GiB", parse("4xH100").Capped(16 << 30), suite, mixNames},
		{"2xH100 of 16 GiB", parse("2xH100").Capped(16 << 30), suite, halfMixes},
	}
})

func parse(system string) sim.Node { return must(sim.ParseNode("sim:" + system)) }

func nodeOf(name string) node {
	for _, n := range nodes() {
		if n.name == name {
			return n
		}
	}
	fail("no node %s", name)
	return node{}
}

// kept has the runs of nodes, by node, scheduler and mix: several tables show the same runs.
var kept = map[[3]string]results.Metrics{}

// run is a simulated run of a mix of which nothing is expected, without noise: all jobs last as in their profiles, as
// the bounds and the fit of the factors have it.
func (n node) run(scheduler, mix string) results.Metrics {
	key := [3]string{n.name, scheduler, mix}
	m, found := kept[key]
	if !found {
		m = trial{node: n.model, scheduler: scheduler, profiles: n.known}.metrics(mix)
		kept[key] = m
	}
	return m
}

// Tables about schedulers are of repeated runs with noise: a single run without noise may be an extreme of what a
// scheduler does.
const (
	repetitions = 7
	noise       = 0.01
)

// repeated is runs with noise of a mix of which nothing is expected.
func (n node) repeated(scheduler, mix string) sample {
	key := [3]string{n.name, scheduler, mix}
	all, found := keptSamples[key]
	if !found {
		all = trial{node: n.model, scheduler: scheduler, profiles: n.known}.repeated(mix, repetitions)
		keptSamples[key] = all
	}
	return all
}

var keptSamples = map[[3]string]sample{}

// sample is repeated runs that differ in their seeds.
type sample []results.Metrics

func (s sample) median(f func(results.Metrics) float64) float64 { return median(s.values(f)) }
func (s sample) mean(f func(results.Metrics) float64) float64   { return mean(s.values(f)) }

func (s sample) values(f func(results.Metrics) float64) (out []float64) {
	for _, m := range s {
		out = append(out, f(m))
	}
	return out
}

// trial is one simulated run.
type trial struct {
	node        sim.Node
	scheduler   string
	workers     int
	profiles    profiles.Set // before the catalog's
	seed        uint64
	noise       float64
	predictions []*schedulers.Prediction // for plan
}

// repeated is n runs of a mix with noise.
func (r trial) repeated(mix string, n int) (out sample) {
	r.noise = noise
	for seed := range n {
		r.seed = 1 + uint64(seed)
		out = append(out, r.metrics(mix))
	}
	return out
}

// metrics is what a run of a mix measures.
func (r trial) metrics(mix string) results.Metrics {
	jobs, s := mixOf(mix).Jobs, must(policies.Parse(r.scheduler, r.node.Count()))
	seen, workers := &records{}, r.workers
	if workers == 0 && s.Binds != policies.BindsJob {
		workers = r.node.Host.Threads // as caserun mix does
	}
	x := must(sim.NewExecutor(sim.Config{Node: r.node, Jobs: jobs, MPS: s.Shares, Revokes: s.Revokes, Profiles: profiles.Catalog().With(r.profiles), Seed: r.seed, Noise: r.noise}, seen))
	done := must(runner.Run(ctx, runner.Config{Jobs: jobs, Devices: r.node.Devices(s.Shares), Scheduler: s, Workers: workers, MPS: s.Shares,
		Predictions: r.predictions, Cores: r.node.Host.Cores, Seed: r.seed}, x, seen))
	devices := make([]results.Device, r.node.Count())
	for i := range devices {
		devices[i].Index = i
	}
	return results.Compute(results.Run{Mode: results.Simulated, Jobs: len(done)}, devices, done, seen.segments, seen.kernels)
}

// records keeps of a run what its metrics need.
type records struct {
	runner.Forgetful
	segments []results.Segment
	kernels  results.Residence
}

func (r *records) Kernel(k results.Kernel)   { r.kernels.Add(k) }
func (r *records) Segment(s results.Segment) { r.segments = append(r.segments, s) }

// mixOf is a mix of the catalog, or of benchmarks/plan.
func mixOf(name string) mixes.Mix {
	if m, err := mixes.Lookup(name); err == nil {
		return m
	}
	return must(mixes.Load(fmt.Sprintf("benchmarks/plan/%s.yaml", strings.ToLower(name)), nil))
}
