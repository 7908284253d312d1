package sim

import (
	"fmt"
	"math"
	"testing"

	"github.com/caserun/caserun/benchmarks/published"
	"github.com/caserun/caserun/docs/pagetest"
)

// fit is the comparison that the factors of one system come from: the SA
// throughput of CASE's Table 7 over the eight mixes.
type fit struct {
	node  Node
	jobsS []float64 // published throughput of W1 to W8, jobs/s
}

func newFit(t testing.TB, system string) fit {
	t.Helper()
	f := fit{node: mustNode(t, "sim:"+system)}
	for _, v := range values(t, "Table 7", system) {
		if v.Scheduler == "sa" {
			f.jobsS = append(f.jobsS, v.Value)
		}
	}
	if len(f.jobsS) != len(mixNames) {
		t.Fatalf("%d published SA values on %s, want %d", len(f.jobsS), system, len(mixNames))
	}
	return f
}

func values(t testing.TB, source, system string) []published.Value {
	t.Helper()
	v, err := published.Find(source, system)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// largestError is the largest relative error over the mixes with the given
// factors. It stops at the first one beyond the bound.
func (f fit) largestError(t testing.TB, host, device, bound float64) float64 {
	t.Helper()
	f.node.Model.HostFactor, f.node.Model.DeviceFactor = host, device
	worst := 0.0
	for i, mix := range mixNames {
		m := trial{node: f.node, scheduler: "sa"}.metrics(t, mix)
		worst = max(worst, math.Abs(*m.ThroughputJobsPerS/f.jobsS[i]-1))
		if worst > bound {
			break
		}
	}
	return worst
}

// bestHost is the host factor with the smallest largest error beside a given
// device factor, by steps of 0.005.
func (f fit) bestHost(t testing.TB, device float64) (host, worst float64) {
	t.Helper()
	worst = math.Inf(1)
	for step := 200; step <= 290; step++ {
		h := float64(step) / 200
		if e := f.largestError(t, h, device, worst); e < worst {
			host, worst = h, e
		}
	}
	return host, worst
}

var systems = []string{"4xV100", "2xP100"}

func TestSingleAssignmentIsWithin15PercentOfTable7(t *testing.T) {
	for _, system := range systems {
		f := newFit(t, system)
		for i, mix := range mixNames {
			m := trial{node: f.node, scheduler: "sa"}.metrics(t, mix)
			if e := *m.ThroughputJobsPerS/f.jobsS[i] - 1; math.Abs(e) > 0.15 {
				t.Errorf("%s %s: simulated %.4f jobs/s, published %.4f: %+.1f %%", system, mix, *m.ThroughputJobsPerS, f.jobsS[i], 100*e)
			}
		}
	}
}

// TestFactorsAreTheBestOnTheGrid searches the plane of both factors coarsely,
// and the neighbourhood of the model's own by the steps in which they are
// written.
func TestFactorsAreTheBestOnTheGrid(t *testing.T) {
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			f := newFit(t, system)
			host, device := f.node.Model.HostFactor, f.node.Model.DeviceFactor
			own := f.largestError(t, host, device, math.Inf(1))
			better := func(h, d float64) {
				if e := f.largestError(t, h, d, own); e < own-1e-9 {
					t.Errorf("host factor %.3f and device factor %.1f: largest error %.3f %%, the model's %.3f and %.1f: %.3f %%",
						h, d, 100*e, host, device, 100*own)
				}
			}
			for h := 100; h <= 145; h++ {
				for d := range 30 {
					better(float64(h)/100, 0.1+float64(d)/2)
				}
			}
			for h := -6; h <= 6; h++ {
				for d := -5; d <= 5; d++ {
					better(host+float64(h)/200, device+float64(d)/10)
				}
			}
		})
	}
}

// utilization is W7's mean utilization on four V100s, in percent, with the
// model's factors and with the device factor that the published value of sa
// would ask for.
func utilization(t testing.TB) string {
	const system, device = "4xV100", 5.9
	f := newFit(t, system)
	host, _ := f.bestHost(t, device)
	other := f.node
	other.Model.HostFactor, other.Model.DeviceFactor = host, device
	rows := [][]string{{"W7 on 4xV100", "published, %", "simulated, %",
		fmt.Sprintf("simulated with device factor %.1f and host factor %.3f, %%", device, host)}}
	for _, v := range values(t, "Figure 7", system) {
		if v.Metric != "mean_utilization" {
			continue
		}
		own := trial{node: f.node, scheduler: v.Scheduler}.metrics(t, v.Workload)
		then := trial{node: other, scheduler: v.Scheduler}.metrics(t, v.Workload)
		rows = append(rows, []string{v.Scheduler, fmt.Sprintf("%.1f", 100*v.Value),
			fmt.Sprintf("%.1f", 100**own.KernelUtilizationMean), fmt.Sprintf("%.1f", 100**then.KernelUtilizationMean)})
	}
	return pagetest.Markdown(rows)
}

// flatness is the table of how little the fit says about the device factor.
func flatness(t testing.TB) string {
	rows := [][]string{{"device factor", "4xV100: best host factor", "4xV100: largest error, %", "2xP100: best host factor", "2xP100: largest error, %"}}
	for _, device := range []float64{0.1, 0.5, 1, 1.5, 2, 3, 5.3, 6.6, 8.8, 12} {
		row := []string{fmt.Sprintf("%g", device)}
		for _, system := range systems {
			host, worst := newFit(t, system).bestHost(t, device)
			row = append(row, fmt.Sprintf("%.3f", host), fmt.Sprintf("%.1f", 100*worst))
		}
		rows = append(rows, row)
	}
	return pagetest.Markdown(rows)
}
