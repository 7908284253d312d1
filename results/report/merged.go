package report

import (
	"fmt"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// MergedSweeps says what the store at path has of sweeps after a merge.
func MergedSweeps(merged []store.Merged, path string) *Table {
	t := &Table{Title: "merged sweeps", Columns: []Column{{Name: "sweep_id", Heading: "sweep"}, {Name: "name"}, {Name: "node"}, {Name: "mode"}, {Name: "status"},
		{Name: "runs_done", Heading: "done"}, {Name: "runs_planned", Heading: "of"}, {Name: "runs_stored", Heading: "runs"}, {Name: "duplicates"}, {Name: "note"}}}
	simulated, duplicates := "", 0
	for _, m := range merged {
		w := m.Sweep
		if w.Mode == results.Simulated {
			simulated = "SIMULATED "
		}
		t.Add(w.ID, given(w.Name), w.Node, w.Mode, w.Status, m.Done, m.Cells, m.Runs, m.Duplicates, given(w.Note))
		duplicates += m.Duplicates
	}
	t.Title = simulated + t.Title
	if duplicates > 0 {
		t.Say(fmt.Sprintf("duplicates: complete runs of cells of which another run counts (%d)", duplicates))
	}
	if len(merged) > 0 {
		t.Say(merged[len(merged)-1].Notes...)
	}
	t.Say("stored in " + path)
	return t
}
