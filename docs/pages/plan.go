package main

import (
	"fmt"
	"math"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/harness/simulated"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/schedulers"
)

var planPage = page{"docs/design/plan.md", []table{{"plan", func() string { return planTable(planNodes) }}}}

var planNodes = []string{"4xV100", "4xH200 of 16 GiB", "4xH100 of 16 GiB", "2xH100 of 16 GiB"}

// planned is a mix on a node under Algorithm 3 and under plan.
type planned struct {
	mix        string
	bound      bound
	alg3, plan results.Metrics
}

func (p planned) throughput() float64 { return *p.alg3.MakespanS / *p.plan.MakespanS }
func (p planned) turnaround() float64 { return *p.alg3.TurnaroundMeanS / *p.plan.TurnaroundMeanS }

var keptPlans = map[string][]planned{}

// planOn has a node's mixes, without errors in what plan expects.
func planOn(name string) (out []planned) {
	if made, found := keptPlans[name]; found {
		return made
	}
	n := nodeOf(name)
	backend := must(simulated.Open(harness.Options{Node: n.model.Name, MemCap: fmt.Sprint(n.model.Model.MemoryBytes)}))
	alone := must(backend.History(n.known)).Alone
	for _, mix := range n.mixes {
		var expected []*schedulers.Prediction
		for _, j := range mixOf(mix).Jobs {
			e, ran, err := alone(j)
			if err != nil || !ran {
				fail("%s alone on %s: %v", j.Command(), name, err)
			}
			expected = append(expected, history.ForScheduler([]*results.Known{{Expected: e}})...)
		}
		plan := trial{node: n.model, scheduler: "plan", profiles: n.known, seed: 1, predictions: expected}.metrics(mix)
		out = append(out, planned{mix, boundOf(name, mix), n.run("case-alg3", mix), plan})
	}
	keptPlans[name] = out
	return out
}

func planTable(nodes []string) string {
	rows := [][]string{{"node", "mix", "makespan: bound, s", "case-alg3", "plan", "mean turnaround: bound, s", "case-alg3", "plan"}}
	for _, name := range nodes {
		all := planOn(name)
		for _, p := range all {
			row := []string{name, p.mix}
			for _, v := range []float64{p.bound.makespanS, *p.alg3.MakespanS, *p.plan.MakespanS, p.bound.turnsS, *p.alg3.TurnaroundMeanS, *p.plan.TurnaroundMeanS} {
				row = append(row, fmt.Sprintf("%.2f", v))
			}
			rows = append(rows, row)
		}
		rows = append(rows, []string{name, "geometric mean of ratios to case-alg3", "", "1", fmt.Sprintf("%.3f", 1/geometric(all, planned.throughput)),
			"", "1", fmt.Sprintf("%.3f", 1/geometric(all, planned.turnaround))})
	}
	return markdown(rows)
}

// geometric is the geometric mean of a ratio.
func geometric(all []planned, of func(planned) float64) float64 {
	logs := 0.0
	for _, p := range all {
		logs += math.Log(of(p))
	}
	return math.Exp(logs / float64(len(all)))
}
