package paper

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// Mixes are the paper's eight Rodinia mixes (Table 2).
func Mixes() []string { return []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"} }

// Darknet are the paper's four mixes of eight equal Darknet jobs (Table 5).
func Darknet() []string { return []string{"D-predict", "D-detect", "D-generate", "D-train"} }

// LargeDarknet is the mix of 128 jobs in section 5.3.
const LargeDarknet = "D-128"

// ratios has for each ratio of large to small jobs the mixes of 16 and of 32 jobs (Table 2).
var ratios = map[string][]string{"1:1": {"W1", "W5"}, "2:1": {"W2", "W6"}, "3:1": {"W3", "W7"}, "5:1": {"W4", "W8"}}

// DarknetSystem is the only system for which the paper has Darknet results.
const DarknetSystem = "4xV100"

// eightJobs are the candidates for Figure 9's "8 Darknet jobs", which the paper does not name:
// the first mix with runs is used.
var eightJobs = []string{"D-train", "D-predict", "D-generate", "D-detect"}

// measure puts a value of the paper beside the same value computed from runs.
func measure(v Value, stated *float64, a *arms) (Row, error) {
	row := Row{System: v.System, Workload: v.Workload, Scheduler: v.Scheduler, Metric: v.Metric, Unit: v.Unit, Published: stated}
	found, err := a.value(v)
	var broken fatal
	switch {
	case errors.As(err, &broken):
		return row, broken.error
	case err != nil:
		row.Missing = err.Error()
	default:
		row.Node, row.Mode = a.node.Name, a.node.Mode
		row.Measured = new(summarize(found.values))
		row.LostMore = found.lostMore
		slices.Sort(found.runs)
		row.Runs = slices.Compact(found.runs)
	}
	return row, nil
}

// fatal is a read error, which a table must not hide as "not measured".
type fatal struct{ error }

// value computes a published metric from runs.
func (a *arms) value(v Value) (samples, error) {
	if a == nil {
		return samples{}, errNoNode
	}
	base, over := strings.CutPrefix(v.Metric, "throughput_over_")
	switch {
	case over:
		if base == "cg" {
			base = a.cg()
		}
		return a.over(v.Workload, v.Scheduler, base, throughput)
	case v.Metric == "throughput":
		return a.of(v.Workload, v.Scheduler, throughput.in)
	case v.Metric == "turnaround_speedup_over_sa":
		return a.over(v.Workload, "sa", v.Scheduler, turnaround)
	case v.Metric == "completion_over_sa":
		return a.over(v.Workload, "sa", v.Scheduler, makespan)
	case v.Metric == "crashed_jobs":
		return a.across(ratios[v.Workload], mean, func(mix string) (samples, error) { return a.of(mix, v.Scheduler, crashes.in) })
	case v.Metric == "turnaround":
		return a.across(Mixes(), mean, func(mix string) (samples, error) { return a.of(mix, v.Scheduler, turnaround.in) })
	case v.Metric == "mean_utilization":
		return a.of(a.utilizationMix(v.Workload), a.named(v.Scheduler), meanUse.in)
	case v.Metric == "peak_utilization":
		return a.of(a.utilizationMix(v.Workload), a.named(v.Scheduler), a.peak)
	case v.Metric == "kernel_slowdown_vs_sa":
		return a.slowdown(v.Workload, v.Scheduler)
	}
	return samples{}, fmt.Errorf("metric %q of the paper has no definition here", v.Metric)
}

// over divides a figure under one scheduler by the figure under another scheduler, for one mix
// or over the eight mixes.
func (a *arms) over(workload, above, below string, figure metric) (samples, error) {
	one := func(mix string) (samples, error) {
		x, err := a.find(mix, above, false)
		if err != nil {
			return samples{}, err
		}
		y, err := a.find(mix, below, false)
		if err != nil {
			return samples{}, err
		}
		var out samples
		for _, pair := range matched(x, y) {
			over, err := figure.in(pair[0])
			if err != nil {
				return samples{}, err
			}
			under, err := figure.in(pair[1])
			if err != nil {
				return samples{}, err
			}
			if under == 0 {
				return samples{}, fmt.Errorf("run %d has 0, by which nothing can be divided", pair[1].ID)
			}
			out.add(over/under, pair[0].ID, pair[1].ID)
		}
		if len(out.values) == 0 {
			return samples{}, fmt.Errorf("no repetition of %s has both %s and %s", mix, above, below)
		}
		lost := regress.LostMore(y, [][]results.Run{x}, stats.DefaultAlpha)[0]
		out.lostMore = regress.Flatters(summarize(out.values).Median, figure.higher, lost)
		return out, nil
	}
	switch workload {
	case "mean W1-W8":
		return a.across(Mixes(), mean, one)
	case "min W1-W8":
		return a.across(Mixes(), slices.Min[[]float64], one)
	case "max W1-W8":
		return a.across(Mixes(), slices.Max[[]float64], one)
	}
	return one(workload)
}

// across combines a figure over mixes. All mixes must have the figure.
func (a *arms) across(mixes []string, with func([]float64) float64, one func(string) (samples, error)) (samples, error) {
	if len(mixes) == 0 {
		return samples{}, fmt.Errorf("the workload is none of the paper's")
	}
	var all []samples
	for _, mix := range mixes {
		s, err := one(mix)
		if err != nil {
			return samples{}, err
		}
		all = append(all, s)
	}
	return combine(all, with), nil
}

// named adds the number of workers to cg, because Figures 6 and 7 do not give it.
func (a *arms) named(scheduler string) string {
	if scheduler == "cg" {
		return a.cg()
	}
	return scheduler
}

// cg is the scheduler used where the paper gives no number of workers for cg. It has this
// program's default: two jobs for each device.
func (a *arms) cg() string { return fmt.Sprintf("cg:workers=%d", 2*a.node.Devices) }

// utilizationMix returns the mix for a workload of Figures 7 and 9.
func (a *arms) utilizationMix(workload string) string {
	if workload != "Darknet 8 jobs" {
		return workload
	}
	for _, mix := range eightJobs {
		for key := range a.runs {
			if key.Mix == mix && !key.Traced {
				return mix
			}
		}
	}
	return eightJobs[0]
}
