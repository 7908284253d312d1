package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
)

// runs is one scheduler's runs of W1 to W8 on one system.
func runs(system, scheduler string) (out []sample) {
	for _, mix := range mixNames {
		out = append(out, nodeOf(system).repeated(scheduler, mix))
	}
	return out
}

func throughput(m results.Metrics) float64     { return *m.ThroughputJobsPerS }
func meanTurnaround(m results.Metrics) float64 { return *m.TurnaroundMeanS }
func makespan(m results.Metrics) float64       { return *m.MakespanS }

// Two quantities: how much of the time a kernel is on a device, as NVML's utilization and so the published, and the share of
// SMs that are busy, which the column utilization_mean has.
func kernelResident(m results.Metrics) float64 { return 100 * *m.KernelUtilizationMean }
func busySMs(m results.Metrics) float64        { return 100 * *m.UtilizationMean }

// quotients is f of each mix under a over f of the same mix under b.
func quotients(a, b []sample, f func(results.Metrics) float64) []float64 {
	var out []float64
	for i := range a {
		out = append(out, a[i].median(f)/b[i].median(f))
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

// beside is a published or measured value with the error of what is simulated.
func beside(format string, value, simulated float64) string {
	return fmt.Sprintf(format, value) + " (" + errorOf(simulated, value) + ")"
}

// byMix is absolute throughput in jobs/s (Table 7), and mean turnaround under sa over that under case-alg3 (Table 4),
// with the errors.
func byMix() string {
	rows := [][]string{{"mix"}}
	for _, mix := range mixNames {
		rows = append(rows, []string{mix})
	}
	last := []string{"mean"}
	for _, c := range []struct{ system, scheduler string }{{"4xV100", "sa"}, {"2xP100", "sa"}, {"4xV100", "case-alg2"}} {
		rows[0] = append(rows[0], c.scheduler+", "+c.system)
		simulated := runs(c.system, c.scheduler)
		i := 0
		for _, v := range values("Table 7", c.system) {
			if v.Scheduler == c.scheduler {
				rows[i+1] = append(rows[i+1], beside("%.3f", *v.Value, simulated[i].median(throughput)))
				i++
			}
		}
		if i != len(mixNames) {
			fail("Table 7 has %d values of %s on %s, want %d", i, c.scheduler, c.system, len(mixNames))
		}
		last = append(last, "")
	}
	for _, system := range systems {
		rows[0] = append(rows[0], "turnaround, "+system)
		simulated := quotients(runs(system, "sa"), runs(system, "case-alg3"), meanTurnaround)
		var published []float64
		for _, v := range values("Table 4", system) {
			published = append(published, *v.Value)
		}
		for i := range simulated {
			rows[i+1] = append(rows[i+1], beside("%.1f", published[i], simulated[i]))
		}
		last = append(last, beside("%.1f", mean(published), mean(simulated)))
	}
	return markdown(append(rows, last))
}

// ratios is Figures 5 and 6: throughput of case-alg3 over the others'.
func ratios() string {
	rows := [][]string{{"case-alg3 over", "source", "published", "simulated"}}
	workers := map[string][]int{"4xV100": {6, 8, 10, 12}, "2xP100": {3, 4, 5, 6}}
	for _, system := range systems {
		alg3 := runs(system, "case-alg3")
		over := func(scheduler string) []float64 { return quotients(alg3, runs(system, scheduler), throughput) }
		if system == "4xV100" {
			rows = append(rows, []string{"case-alg2, " + system, "Figure 5", fmt.Sprintf("%.2f", *values("Figure 5", system)[0].Value), fmt.Sprintf("%.2f", mean(over("case-alg2")))})
		}
		figure := map[string]string{"4xV100": "Figure 6b", "2xP100": "Figure 6a"}[system]
		published := map[string]float64{}
		for _, v := range values(figure, system) {
			published[v.Metric+" "+v.Workload] = *v.Value
		}
		if len(published) != 4 {
			fail("%s has %d values, want 4", figure, len(published))
		}
		sa := over("sa")
		rows = append(rows, []string{"sa, " + system, figure,
			fmt.Sprintf("%.2f (%.2f to %.2f)", published["throughput_over_sa mean W1-W8"], published["throughput_over_sa min W1-W8"], published["throughput_over_sa max W1-W8"]),
			fmt.Sprintf("%.2f (%.2f to %.2f)", mean(sa), slices.Min(sa), slices.Max(sa))})
		var counts, cg []string
		for _, n := range workers[system] {
			counts, cg = append(counts, fmt.Sprint(n)), append(cg, fmt.Sprintf("%.2f", mean(over(fmt.Sprintf("cg:workers=%d", n)))))
		}
		rows = append(rows, []string{fmt.Sprintf("cg, %s, %s workers", system, strings.Join(counts, ", ")), figure,
			fmt.Sprintf("%.2f", published["throughput_over_cg mean W1-W8"]), strings.Join(cg, ", ")})
	}
	return markdown(rows)
}

// table3 is the share of crashed jobs under cg, in percent, and the simulated errors in points: the mean of the ratios, of
// which each is the mean of its two mixes' shares, and of the repetitions.
func table3() string {
	rows := [][]string{{"cg on", "workers", "published, mean", "error"}}
	ratioOf := map[string]int{"1:1": 0, "2:1": 1, "3:1": 2, "5:1": 3}
	crashed := func(m results.Metrics) float64 { return float64(m.Crashed) }
	for _, system := range systems {
		cells := map[string][4]float64{}
		var order []string
		for _, v := range values("Table 3", system) {
			if _, seen := cells[v.Scheduler]; !seen {
				order = append(order, v.Scheduler)
			}
			c := cells[v.Scheduler]
			c[ratioOf[v.Workload]] = *v.Value
			cells[v.Scheduler] = c
		}
		for _, scheduler := range order {
			simulated := runs(system, scheduler)
			sum, got := 0.0, 0.0
			for i, published := range cells[scheduler] {
				short, long := simulated[i], simulated[i+4] // 16 and 32 jobs
				got += 100 * (short.mean(crashed)/16 + long.mean(crashed)/32) / 2
				sum += 100 * published
			}
			rows = append(rows, []string{system, scheduler[len("cg:workers="):], fmt.Sprintf("%.0f", sum/4), fmt.Sprintf("%+.0f", (got-sum)/4)})
		}
	}
	return markdown(rows)
}

// darknet is Figures 8 and 9 and the number of section 5.3: nothing was fitted to them.
// Figure 9 does not say which eight jobs it shows, so all four mixes are here.
func darknet() string {
	const system = "4xV100"
	of := func(mix, scheduler string, f func(results.Metrics) float64) float64 {
		return nodeOf(system).repeated(scheduler, mix).median(f)
	}
	rows := [][]string{{"mix", "what", "published", "simulated"}}
	for _, v := range values("Figure 8", system) {
		got := of(v.Workload, v.Scheduler, throughput) / of(v.Workload, "schedgpu", throughput)
		rows = append(rows, []string{v.Workload, "throughput over schedgpu", fmt.Sprintf("%.1f", *v.Value), fmt.Sprintf("%.2f", got)})
	}
	for _, v := range values("section 5.3", system) {
		got := of(v.Workload, "sa", makespan) / of(v.Workload, v.Scheduler, makespan)
		rows = append(rows, []string{v.Workload, "makespan of sa over it", fmt.Sprintf("%.1f", *v.Value), fmt.Sprintf("%.2f", got)})
	}
	for _, v := range values("Figure 9", system) {
		var got, busy []string
		for _, f := range values("Figure 8", system) {
			got = append(got, fmt.Sprintf("%.0f", of(f.Workload, v.Scheduler, kernelResident)))
			busy = append(busy, fmt.Sprintf("%.0f", of(f.Workload, v.Scheduler, busySMs)))
		}
		rows = append(rows, []string{"these four", "utilization under " + v.Scheduler + ", %; simulated: kernel resident", fmt.Sprintf("%.0f", 100**v.Value), strings.Join(got, ", ")},
			[]string{"these four", "simulated: busy SMs under " + v.Scheduler + ", %", "", strings.Join(busy, ", ")})
	}
	return markdown(rows)
}
