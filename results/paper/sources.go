package paper

import (
	"fmt"
	"slices"
	"strings"
)

// sources are the paper's results in the paper's order, tables first.
var sources = []source{
	{name: "Table 3", what: "share of crashed jobs under cg, by workers and ratio of large to small jobs", systems: []string{"2xP100", "4xV100"},
		notes: constant("A cell is the mean of the shares of the ratio's two mixes, of 16 and of 32 jobs (Table 2).")},
	{name: "Table 4", what: "speedup of the mean turnaround over sa", systems: []string{"2xP100", "4xV100"},
		notes: constant("Repetition by repetition: mean turnaround under sa over that under case-alg3, each over the jobs that ended ok.")},
	{name: "Table 6", what: "kernel slowdown against sa", systems: []string{"4xV100"},
		notes: constant("For each job: time in kernels over that of the same launches under sa, minus 1, from runs with kernels traced; a mix's figure is the mean over its jobs.")},
	{name: "Table 7", what: "throughput of the baselines with Rodinia", systems: []string{"4xV100", "2xP100"}},
	{name: "Table 8", what: "throughput of schedgpu with Darknet", systems: []string{"4xV100"},
		apart: "the paper does not publish how many images and iterations a job has."},
	{name: "Figure 5", what: "throughput of case-alg3 over case-alg2", systems: []string{"4xV100"},
		unstated: perMix("case-alg3", "throughput_over_case-alg2"),
		draw:     normalized("case-alg2", "case-alg3")},
	{name: "Figure 6a", what: "throughput over sa on two GPUs", systems: []string{"2xP100"},
		unstated: join(perMix("case-alg3", "throughput_over_sa"), perMix("cg", "throughput_over_sa", "mean W1-W8"), perMix("case-alg3", "throughput_over_cg")),
		draw:     normalized("sa", "cg", "case-alg3"), notes: cgNote("2xP100")},
	{name: "Figure 6b", what: "throughput over sa on four GPUs", systems: []string{"4xV100"},
		unstated: join(perMix("case-alg3", "throughput_over_sa"), perMix("cg", "throughput_over_sa", "mean W1-W8"), perMix("case-alg3", "throughput_over_cg")),
		draw:     normalized("sa", "cg", "case-alg3"), notes: cgNote("4xV100")},
	{name: "Figure 7", what: "utilization with W7, mean over devices", systems: []string{"4xV100"},
		draw: utilization("case-alg3", "cg", "sa"), notes: utilizationNote},
	{name: "Figure 8", what: "throughput over schedgpu with Darknet", systems: []string{"4xV100"},
		draw: normalized("schedgpu", "case-alg3")},
	{name: "Figure 9", what: "utilization with eight Darknet jobs, mean over devices", systems: []string{"4xV100"},
		draw: utilization("case-alg3", "schedgpu"), notes: darknetNote},
	{name: "section 5.2.4", what: "mean turnaround of case-alg3, mean over W1 to W8", systems: []string{"2xP100", "4xV100"},
		notes: constant("The paper says \"absolute job completion times\" and does not define them.")},
	{name: "section 5.3", what: "makespan of sa over that of case-alg3 with 128 Darknet jobs", systems: []string{"4xV100"}},
}

func constant(note string) func(map[string]*arms) []string {
	return func(map[string]*arms) []string { return []string{note} }
}

// perMix returns the values of a figure's bars, for each mix and for others. The paper's text
// does not state them.
func perMix(scheduler, metric string, others ...string) func(string) []Value {
	return func(system string) []Value {
		var out []Value
		for _, mix := range append(Mixes(), others...) {
			out = append(out, Value{System: system, Workload: mix, Scheduler: scheduler, Metric: metric, Unit: ratio})
		}
		return out
	}
}

func join(all ...func(string) []Value) func(string) []Value {
	return func(system string) []Value {
		var out []Value
		for _, one := range all {
			out = append(out, one(system)...)
		}
		return out
	}
}

// cgNote says which number of workers cg has here, and what other numbers would give.
func cgNote(system string) func(map[string]*arms) []string {
	return func(all map[string]*arms) []string {
		a := all[system]
		if a == nil {
			return nil
		}
		note := fmt.Sprintf("The paper does not say with how many workers cg ran here; on %s it is %s.", a.node.Name, a.cg())
		var others []string
		for _, workers := range Workers(system) {
			over, err := a.over("mean W1-W8", "case-alg3", fmt.Sprintf("cg:workers=%d", workers), throughput)
			if err == nil {
				others = append(others, fmt.Sprintf("%.2f with %d", summarize(over.values).Median, workers))
			}
		}
		if len(others) > 0 {
			note += " case-alg3 over cg, mean over the mixes, by workers: " + strings.Join(others, ", ") + "."
		}
		return []string{note}
	}
}

// Workers returns the numbers of workers in Table 3's rows.
func Workers(system string) []int {
	if system == "2xP100" {
		return []int{3, 4, 5, 6}
	}
	return []int{6, 8, 10, 12}
}

// Schedulers returns the schedulers under which a sweep must run W1 to W8 for a system's tables
// and figures.
func Schedulers(system string, devices int) []string {
	workers := Workers(system)
	if !slices.Contains(workers, 2*devices) { // Figure 6 uses this number (arms.cg)
		workers = append(workers, 2*devices)
	}
	out := []string{"sa"}
	for _, n := range workers {
		out = append(out, fmt.Sprintf("cg:workers=%d", n))
	}
	if system == "4xV100" { // the paper's only system with Alg. 2
		out = append(out, "case-alg2")
	}
	return append(out, "case-alg3")
}

func utilizationNote(all map[string]*arms) []string {
	a := all["4xV100"]
	if a == nil {
		return nil
	}
	return []string{fmt.Sprintf("cg is %s: the paper does not say with how many workers it ran.", a.cg()) + seriesNote(a)}
}

func darknetNote(all map[string]*arms) []string {
	a := all["4xV100"]
	if a == nil {
		return nil
	}
	return []string{fmt.Sprintf("The paper does not say which eight Darknet jobs; here it is %s.", a.utilizationMix("Darknet 8 jobs")) + seriesNote(a)}
}
