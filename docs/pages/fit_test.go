package pages

import (
	"fmt"
	"math"
	"slices"

	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/runner/sim"
)

// fit is the comparison that the factors of one system come from: the SA
// throughput of CASE's Table 7 over the eight mixes.
type fit struct {
	node  sim.Node
	jobsS []float64 // published throughput of W1 to W8, jobs/s
	first int       // the mix that is tried first: the last whose error was beyond the bound
	best  float64   // the latest host factor that bestHost has found
}

func newFit(system string) *fit {
	f := &fit{node: parse(system), best: 1}
	for _, v := range values("Table 7", system) {
		if v.Scheduler == "sa" {
			f.jobsS = append(f.jobsS, *v.Value)
		}
	}
	if len(f.jobsS) != len(mixNames) {
		fail("%d published SA values on %s, want %d", len(f.jobsS), system, len(mixNames))
	}
	return f
}

func values(source, system string) []paper.Value {
	return must(paper.Case().Published(source, system))
}

// largestError is the largest relative error over the mixes with the given
// factors. It stops at the first error beyond the bound: the number is the largest error only if it is within the bound.
func (f *fit) largestError(host, device, bound float64) float64 {
	node := f.node
	node.Groups = slices.Clone(node.Groups)
	node.Host.Factor, node.Groups[0].DeviceFactor = host, device
	worst := 0.0
	for k := range mixNames {
		i := (f.first + k) % len(mixNames)
		m := trial{node: node, scheduler: "sa"}.metrics(mixNames[i])
		worst = max(worst, math.Abs(*m.ThroughputJobsPerS/f.jobsS[i]-1))
		if worst > bound {
			f.first = i
			break
		}
	}
	return worst
}

// bestHost is the host factor with the smallest largest error beside a given
// device factor, by steps of 0.005. It begins with what was best last, so that
// most factors are beyond that with their first mix.
func (f *fit) bestHost(device float64) (host, worst float64) {
	host, worst = f.best, f.largestError(f.best, device, math.Inf(1))
	for step := 200; step <= 290; step++ {
		h := float64(step) / 200
		if e := f.largestError(h, device, worst); e < worst || e == worst && h < host {
			host, worst = h, e
		}
	}
	f.best = host
	return host, worst
}

var systems = []string{"4xV100", "2xP100"}

// flatness is the table of how little the fit says about the device factor.
func flatness() string {
	rows := [][]string{{"device factor", systems[0], systems[1]}}
	fits := []*fit{newFit(systems[0]), newFit(systems[1])}
	for _, device := range []float64{0.1, 1.5, 3, 5.3, 8.8} {
		row := []string{fmt.Sprintf("%g", device)}
		for _, f := range fits {
			_, worst := f.bestHost(device)
			row = append(row, fmt.Sprintf("%.1f", 100*worst))
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}
