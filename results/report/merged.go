package report

import (
	"fmt"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// MergedSweep says what the store at path has of a sweep after a merge.
func MergedSweep(m store.Merged, path string) *Table {
	t := &Table{Title: "merged sweep", Columns: []Column{{Name: "sweep_id", Heading: "sweep"}, {Name: "name"}, {Name: "node"}, {Name: "mode"}, {Name: "status"},
		{Name: "runs_done", Heading: "done"}, {Name: "runs_planned", Heading: "of"}, {Name: "runs_stored", Heading: "runs"}, {Name: "duplicates"}, {Name: "note"}}}
	w := m.Sweep
	if w.Mode == results.Simulated {
		t.Title = "SIMULATED merged sweep"
	}
	t.Add(w.ID, given(w.Name), w.Node, w.Mode, w.Status, m.Done, m.Cells, m.Runs, m.Duplicates, given(w.Note))
	if m.Duplicates > 0 {
		t.Notes = append(t.Notes, Note{Text: fmt.Sprintf("duplicates: complete runs of cells of which another run counts (%d)", m.Duplicates)})
	}
	t.Notes = append(t.Notes, Note{Text: "stored in " + path})
	return t
}
