package sweep

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers"
)

// Table shows runs of the plan that are to come, and how long they may take.
func (p *Plan) Table(cells []results.Cell, times Estimates) *report.Table {
	t := &report.Table{Title: "plan", Columns: []report.Column{{Name: "position"}, {Name: "mix"},
		{Name: "scheduler", Place: report.DataOnly}, {Name: "scheduler_text", Heading: "scheduler", Place: report.TextOnly}, {Name: "repetition"}, {Name: "warmup"}, {Name: "seed", Drop: 1}, {Name: "node", Narrow: 1}, {Name: "mode", Narrow: 1},
		{Name: "estimate", Unit: report.Seconds}, {Name: "ground"}, {Name: "probe", Place: report.DataOnly}, {Name: "arm", Place: report.DataOnly}}}
	if p.Mode == results.Simulated {
		t.Title = "SIMULATED plan, " + p.Repeats()
	}
	total, searches, names := 0.0, false, p.names()
	for _, cell := range cells {
		e := times.Of(cell)
		total, searches = total+e.Seconds, searches || e.Ground == bySearches
		_, scheduler, _ := schedulers.CutName(cell.Scheduler)
		arm := names.Scheduler(results.ArmOf(p.armOf(slices.Index(p.Spec.Scheds, cell.Scheduler), cell.Probe)))
		t.Add(cell.Position, cell.Mix, scheduler, arm, cell.Repetition, cell.Warmup, fmt.Sprint(cell.Seed), p.Options.Node, p.Mode, e.Seconds, e.Ground, cell.Probe.String(), arm)
	}
	t.Notes = append(t.Notes, report.Note{Text: fmt.Sprintf("%s, about %s one after another, without the time to prepare and clear the node",
		size.Count(len(cells), "run"), report.Human(total, report.Seconds))})
	if searches {
		t.Say("How long searches for plans take is a rough estimate, from the number of jobs and changes that are tried. A sweep corrects it as its runs end.")
	}
	return t
}
