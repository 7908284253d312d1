package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/benchmarks/profiles/profilestest"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

var simulationPage = page{"docs/design/simulator.md", []table{
	{"flatness", flatness}, {"utilization", utilization}, {"table7", table7}, {"ratios", ratios}, {"table3", table3},
	{"table4", table4}, {"turnaround", turnaround}, {"darknet", darknet},
	{"live", func() string { return liveTable(liveCells()) }}, {"live ratios", func() string { return liveRatios(liveCells()) }},
	{"live hosts", func() string { return liveHosts(liveCells()) }},
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

// run is a simulated run of a mix of which nothing is expected.
func (n node) run(scheduler, mix string) results.Metrics {
	key := [3]string{n.name, scheduler, mix}
	m, found := kept[key]
	if !found {
		m = trial{node: n.model, scheduler: scheduler, profiles: n.known}.metrics(mix)
		kept[key] = m
	}
	return m
}

// trial is one simulated run.
type trial struct {
	node        sim.Node
	scheduler   string
	workers     int
	profiles    profiles.Set // before the catalog's
	seed        uint64
	predictions []*schedulers.Prediction // for plan
}

// metrics is what a run of a mix measures.
func (r trial) metrics(mix string) results.Metrics {
	jobs, s := mixOf(mix).Jobs, must(policies.Parse(r.scheduler, r.node.Count))
	seen := &records{}
	x := must(sim.NewExecutor(sim.Config{Node: r.node, Jobs: jobs, MPS: s.Shares, Revokes: s.Revokes, Profiles: profiles.Catalog().With(r.profiles), Seed: r.seed}, seen))
	done := must(runner.Run(ctx, runner.Config{Jobs: jobs, Devices: r.node.Devices(s.Shares), Scheduler: s, Workers: r.workers, MPS: s.Shares,
		Predictions: r.predictions, Cores: r.node.Cores(), Seed: r.seed}, x, seen))
	devices := make([]results.Device, r.node.Count)
	for i := range devices {
		devices[i].Index = i
	}
	return results.Compute(results.Run{Mode: results.Simulated, Jobs: len(done)}, devices, done, seen.segments, results.ResidenceOf(seen.kernels))
}

// records keeps of a run what its metrics need. It implements runner.Recorder.
type records struct {
	segments []results.Segment
	kernels  []results.Kernel
}

func (*records) Job(results.Job)             {}
func (*records) Task(results.Task)           {}
func (*records) Swap(results.Swap)           {}
func (*records) Event(results.Event)         {}
func (r *records) Kernel(k results.Kernel)   { r.kernels = append(r.kernels, k) }
func (r *records) Segment(s results.Segment) { r.segments = append(r.segments, s) }

// mixOf is a mix of the catalog, or of benchmarks/plan.
func mixOf(name string) mixes.Mix {
	if m, err := mixes.Lookup(name); err == nil {
		return m
	}
	return must(mixes.Load(fmt.Sprintf("benchmarks/plan/%s.yaml", strings.ToLower(name)), nil))
}
