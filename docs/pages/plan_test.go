package pages

import (
	"fmt"
	"math"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers"
)

var planPage = page{"docs/results/plan.md", []table{{"plan", planTable}}}

var planNodes = []string{"4xV100", "4xH200 of 16 GiB", "4xH100 of 16 GiB", "2xH100 of 16 GiB"}

// planned is a mix on a node under Algorithm 3 and under plan, without errors in what plan expects.
type planned struct {
	mix        string
	bound      bound
	alg3, plan trial
}

func planOn(name string) (out []planned) {
	n := nodeOf(name)
	backend := must(sim.Open(harness.Options{Node: n.model.Name, MemCap: size.AmountOf(n.model.Groups[0].MemoryBytes)}))
	alone := must(backend.History(n.known)).Alone
	for _, mix := range n.mixes {
		var expected []*schedulers.Prediction
		for _, j := range mixOf(mix).Jobs {
			e, ran, err := alone(j)
			if err != nil || !ran {
				fail("%s alone on %s: %v", j.Command(), name, err)
			}
			expected = append(expected, history.ForScheduler([]*results.Known{&e})...)
		}
		out = append(out, planned{mix, boundOf(name, mix), trial{node: n.model, scheduler: "case-alg3", profiles: n.known},
			trial{node: n.model, scheduler: "plan", profiles: n.known, seed: 1, predictions: expected}})
	}
	return out
}

// planRepetitions is less than repetitions: plan takes most of the time of this package.
const planRepetitions = 3

// planTable has the medians of both schedulers over the bounds, and one over the other: geometric means of a node's
// mixes, and the mix where plan does worst.
func planTable() string {
	rows := [][]string{{"node", "over the bound", "case-alg3", "plan", "plan over case-alg3", "most"}}
	for _, name := range planNodes {
		alg3, plan := map[string]sample{}, map[string]sample{}
		all := planOn(name)
		for _, p := range all {
			alg3[p.mix], plan[p.mix] = p.alg3.repeated(p.mix, repetitions), p.plan.repeated(p.mix, planRepetitions)
		}
		for _, of := range bounded {
			var overs, plans, ratios []float64
			mixOf := map[float64]string{} // the first with this ratio
			for _, p := range all {
				a, b := alg3[p.mix].median(of.value), plan[p.mix].median(of.value)
				overs, plans, ratios = append(overs, a/of.bound(p.bound)), append(plans, b/of.bound(p.bound)), append(ratios, b/a)
				if _, found := mixOf[b/a]; !found {
					mixOf[b/a] = p.mix
				}
			}
			most := slices.Max(ratios)
			rows = append(rows, []string{name, of.name, fmt.Sprintf("%.2f", geometric(overs)), fmt.Sprintf("%.2f", geometric(plans)), fmt.Sprintf("%.3f", geometric(ratios)),
				fmt.Sprintf("%.2f (%s)", most, mixOf[most])})
		}
	}
	return markdown(rows)
}

// geometric is the geometric mean of ratios.
func geometric(ratios []float64) float64 {
	logs := 0.0
	for _, x := range ratios {
		logs += math.Log(x)
	}
	return math.Exp(logs / float64(len(ratios)))
}
