package paper

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// Beside is the makespan of a mix under a scheduler as a simulated node has it, beside the same measured. Both are medians over
// runs whose jobs all ended ok.
type Beside struct {
	System, Mix, Scheduler string
	Node                   string // that is simulated
	Measured, Simulated    stats.Summary
}

// Ratio is simulated over measured.
func (b Beside) Ratio() float64 { return b.Simulated.Median / b.Measured.Median }

// apart are the nodes of a page, without the simulated ones of systems that have measured runs too, if systems follow from runs, and
// what those are beside the measured ones.
func (p *Paper) apart(nodes []Node) (page []Node, beside []Beside) {
	measured := map[string]Node{}
	for _, n := range nodes {
		if n.Mode == results.Live && p.ByRuns() {
			measured[n.System] = n
		}
	}
	for _, n := range nodes {
		if m, both := measured[n.System]; both && n.Mode == results.Simulated {
			beside = append(beside, besides(n, m)...)
		} else {
			page = append(page, n)
		}
	}
	return page, beside
}

// besides are the cells that have both simulated and measured runs.
func besides(simulated, measured Node) (cells []Beside) {
	of, beside := makespans(measured), makespans(simulated)
	for arm, values := range beside {
		if had := of[arm]; len(had) > 0 {
			cells = append(cells, Beside{simulated.System, arm[0], arm[1], simulated.Name, summarize(had), summarize(values)})
		}
	}
	slices.SortFunc(cells, func(a, b Beside) int {
		return cmp.Or(cmp.Compare(a.Mix, b.Mix), cmp.Compare(a.Scheduler, b.Scheduler))
	})
	return cells
}

// makespans are those of a node's runs whose jobs all ended ok, by mix and scheduler.
func makespans(n Node) map[[2]string][]float64 {
	out := map[[2]string][]float64{}
	for _, r := range n.Runs {
		if took := r.Metrics.MakespanS; took != nil && *took > 0 && r.Metrics.OK == r.Jobs {
			arm := [2]string{r.Mix, results.NameOf(r)}
			out[arm] = append(out[arm], *took)
		}
	}
	return out
}

// closeTo is how far a makespan may be off that counts as met.
const closeTo = 0.15

// Off says how far simulated makespans are off, in all and by scheduler.
func Off(cells []Beside) (says []string) {
	by := map[string][]float64{}
	var all []float64
	met := 0
	for _, c := range cells {
		off := math.Abs(c.Ratio() - 1)
		all = append(all, off)
		by[c.Scheduler] = append(by[c.Scheduler], off)
		if off <= closeTo {
			met++
		}
	}
	says = append(says, fmt.Sprintf("Simulated makespans are off by %.1f %% in the median of %d cells, and by at most %.0f %% in %d of them.",
		100*summarize(all).Median, len(cells), 100*closeTo, met))
	for _, scheduler := range slices.Sorted(maps.Keys(by)) {
		says = append(says, fmt.Sprintf("Under %s: %.1f %% in the median of %d.", scheduler, 100*summarize(by[scheduler]).Median, len(by[scheduler])))
	}
	return says
}
