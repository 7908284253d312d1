package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/caserun/caserun/results"
)

// runs is one scheduler's runs of W1 to W8 on one system.
func runs(system, scheduler string) []results.Metrics {
	var out []results.Metrics
	for _, mix := range mixNames {
		out = append(out, nodeOf(system).run(scheduler, mix))
	}
	return out
}

func throughput(m results.Metrics) float64     { return *m.ThroughputJobsPerS }
func meanTurnaround(m results.Metrics) float64 { return *m.TurnaroundMeanS }

// quotients is f of each run of a over f of the same mix's run of b.
func quotients(a, b []results.Metrics, f func(results.Metrics) float64) []float64 {
	var out []float64
	for i := range a {
		out = append(out, f(a[i])/f(b[i]))
	}
	return out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// table7 is absolute throughput in jobs/s.
func table7() string {
	rows := [][]string{{"mix"}}
	for _, mix := range mixNames {
		rows = append(rows, []string{mix})
	}
	for _, c := range []struct{ system, scheduler string }{{"4xV100", "sa"}, {"2xP100", "sa"}, {"4xV100", "case-alg2"}} {
		name := c.scheduler + " " + c.system
		rows[0] = append(rows[0], name+": published", "simulated", "error, %")
		simulated := runs(c.system, c.scheduler)
		i := 0
		for _, v := range values("Table 7", c.system) {
			if v.Scheduler == c.scheduler {
				got := throughput(simulated[i])
				i++
				rows[i] = append(rows[i], fmt.Sprintf("%.3f", v.Value), fmt.Sprintf("%.3f", got), errorOf(got, v.Value))
			}
		}
		if i != len(mixNames) {
			fail("Table 7 has %d values of %s on %s, want %d", i, c.scheduler, c.system, len(mixNames))
		}
	}
	return markdown(rows)
}

// ratios is Figures 5 and 6: throughput of case-alg3 over the others'.
func ratios() string {
	rows := [][]string{{"throughput of case-alg3 over", "source", "over W1-W8", "published", "simulated", "error, %"}}
	add := func(over, source, aggregate string, published, simulated float64) {
		rows = append(rows, []string{over, source, aggregate, fmt.Sprintf("%.2f", published), fmt.Sprintf("%.2f", simulated), errorOf(simulated, published)})
	}
	workers := map[string][]int{"4xV100": {6, 8, 10, 12}, "2xP100": {3, 4, 5, 6}}
	for _, system := range systems {
		alg3 := runs(system, "case-alg3")
		if system == "4xV100" {
			add("case-alg2 4xV100", "Figure 5", "mean", values("Figure 5", system)[0].Value,
				mean(quotients(alg3, runs(system, "case-alg2"), throughput)))
		}
		figure := map[string]string{"4xV100": "Figure 6b", "2xP100": "Figure 6a"}[system]
		sa := quotients(alg3, runs(system, "sa"), throughput)
		for _, v := range values(figure, system) {
			switch v.Metric + " " + v.Workload {
			case "throughput_over_sa mean W1-W8":
				add("sa "+system, figure, "mean", v.Value, mean(sa))
			case "throughput_over_sa min W1-W8":
				add("sa "+system, figure, "least", v.Value, slices.Min(sa))
			case "throughput_over_sa max W1-W8":
				add("sa "+system, figure, "most", v.Value, slices.Max(sa))
			case "throughput_over_cg mean W1-W8":
				for _, n := range workers[system] {
					cg := runs(system, fmt.Sprintf("cg:workers=%d", n))
					add(fmt.Sprintf("cg %s, %d workers", system, n), figure, "mean", v.Value, mean(quotients(alg3, cg, throughput)))
				}
			default:
				fail("%s has %s over %s", figure, v.Metric, v.Workload)
			}
		}
	}
	return markdown(rows)
}

// table3 is the share of crashed jobs under cg, in percent: for each ratio the
// mean of its two mixes' shares.
func table3() string {
	rows := [][]string{{"cg on", "workers", "1:1", "2:1", "3:1", "5:1", "mean error, points", "mean absolute error, points"}}
	ratioOf := map[string]int{"1:1": 0, "2:1": 1, "3:1": 2, "5:1": 3}
	for _, system := range systems {
		cells := map[string][4]float64{}
		var order []string
		for _, v := range values("Table 3", system) {
			if _, seen := cells[v.Scheduler]; !seen {
				order = append(order, v.Scheduler)
			}
			c := cells[v.Scheduler]
			c[ratioOf[v.Workload]] = v.Value
			cells[v.Scheduler] = c
		}
		for _, scheduler := range order {
			simulated := runs(system, scheduler)
			row := []string{system, scheduler[len("cg:workers="):]}
			sum, absolute := 0.0, 0.0
			for i, published := range cells[scheduler] {
				short, long := simulated[i], simulated[i+4] // 16 and 32 jobs
				got := 100 * (float64(short.Crashed)/16 + float64(long.Crashed)/32) / 2
				row = append(row, fmt.Sprintf("%.0f → %.0f (%+.0f)", 100*published, got, got-100*published))
				sum += got - 100*published
				absolute += math.Abs(got - 100*published)
			}
			rows = append(rows, append(row, fmt.Sprintf("%+.0f", sum/4), fmt.Sprintf("%.0f", absolute/4)))
		}
	}
	return markdown(rows)
}

// table4 is mean turnaround under sa over that under case-alg3.
func table4() string {
	rows := [][]string{{"mix"}}
	for _, mix := range mixNames {
		rows = append(rows, []string{mix})
	}
	rows = append(rows, []string{"mean"})
	for _, system := range systems {
		rows[0] = append(rows[0], system+": published", "simulated", "error, %")
		simulated := quotients(runs(system, "sa"), runs(system, "case-alg3"), meanTurnaround)
		var published []float64
		for _, v := range values("Table 4", system) {
			published = append(published, v.Value)
		}
		published, simulated = append(published, mean(published)), append(simulated, mean(simulated))
		for i := range simulated {
			rows[i+1] = append(rows[i+1], fmt.Sprintf("%.1f", published[i]), fmt.Sprintf("%.1f", simulated[i]), errorOf(simulated[i], published[i]))
		}
	}
	return markdown(rows)
}

// turnaround is section 5.2.4's mean completion time beside what Table 7
// implies, in seconds.
func turnaround() string {
	rows := [][]string{{"system", "published \"job completion time\", s", "simulated mean turnaround of case-alg3, s", "error, %",
		"simulated mean turnaround of sa, s", "simulated mean makespan of sa, s", "published mean makespan of sa (jobs ÷ Table 7), s"}}
	for _, system := range systems {
		f := newFit(system)
		alg3, sa := runs(system, "case-alg3"), runs(system, "sa")
		var alg3S, saS, makespanS, publishedS []float64
		for i := range mixNames {
			alg3S = append(alg3S, meanTurnaround(alg3[i]))
			saS = append(saS, meanTurnaround(sa[i]))
			makespanS = append(makespanS, *sa[i].MakespanS)
			publishedS = append(publishedS, float64(sa[i].OK)/f.jobsS[i])
		}
		v := values("section 5.2.4", system)[0].Value
		rows = append(rows, []string{system, fmt.Sprintf("%.0f", v), fmt.Sprintf("%.0f", mean(alg3S)), errorOf(mean(alg3S), v),
			fmt.Sprintf("%.0f", mean(saS)), fmt.Sprintf("%.0f", mean(makespanS)), fmt.Sprintf("%.0f", mean(publishedS))})
	}
	return markdown(rows)
}

// darknet is Figures 8 and 9 and the number of section 5.3: nothing was fitted to them.
// Figure 9 does not say which eight jobs it shows, so all four mixes are here.
func darknet() string {
	const system = "4xV100"
	of := func(mix, scheduler string) results.Metrics {
		return nodeOf(system).run(scheduler, mix)
	}
	rows := [][]string{{"mix", "what", "source", "published", "simulated", "error"}}
	for _, v := range values("Figure 8", system) {
		got := throughput(of(v.Workload, v.Scheduler)) / throughput(of(v.Workload, "schedgpu"))
		rows = append(rows, []string{v.Workload, "throughput of case-alg3 over schedgpu", "Figure 8", fmt.Sprintf("%.1f", v.Value), fmt.Sprintf("%.2f", got), errorOf(got, v.Value) + " %"})
	}
	for _, v := range values("section 5.3", system) {
		got := *of(v.Workload, "sa").MakespanS / *of(v.Workload, v.Scheduler).MakespanS
		rows = append(rows, []string{v.Workload, "makespan of sa over case-alg3", "section 5.3", fmt.Sprintf("%.1f", v.Value), fmt.Sprintf("%.2f", got), errorOf(got, v.Value) + " %"})
	}
	for _, v := range values("Figure 9", system) {
		for _, f := range values("Figure 8", system) {
			got := 100 * *of(f.Workload, v.Scheduler).KernelUtilizationMean
			rows = append(rows, []string{f.Workload, "utilization under " + v.Scheduler, "Figure 9", fmt.Sprintf("%.0f %%", 100*v.Value), fmt.Sprintf("%.0f %%", got), fmt.Sprintf("%+.0f points", got-100*v.Value)})
		}
	}
	return markdown(rows)
}
