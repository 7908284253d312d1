package report

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// Kept has a row for each sweep and each run. A run that belongs to one of the sweeps has no row of its own, unless each
// is set. Names are those that commands take. sizes are about how many bytes each run takes.
func Kept(title string, sweeps []results.Sweep, runs []results.Run, sizes map[int64]int64, each bool) *Table {
	t := &Table{Title: title, Columns: []Column{{Name: "name"}, {Name: "sweep_id", Place: DataOnly}, {Name: "run_id", Place: DataOnly},
		{Name: "began_at", Heading: "began", Drop: 1}, {Name: "node", Drop: 3}, {Name: "mode", Drop: 2}, {Name: "status"}, {Name: "of", Drop: 4},
		{Name: "runs"}, {Name: "excluded"}, {Name: "size", Unit: Bytes}, {Name: "tag", Cut: 18}, {Name: "note"}}}
	type total struct {
		runs, excluded int
		size           int64
	}
	of, hasRuns := map[int64]total{}, map[int64]bool{}
	for _, w := range sweeps {
		of[w.ID] = total{}
	}
	single := func(r results.Run) bool {
		if each || r.Sweep == nil {
			return true
		}
		_, listed := of[*r.Sweep]
		return !listed
	}
	for _, r := range runs {
		if r.Sweep != nil {
			hasRuns[*r.Sweep] = true
		}
		if single(r) {
			continue
		}
		sum := of[*r.Sweep]
		sum.runs, sum.size = sum.runs+1, sum.size+sizes[r.ID]
		if r.Excluded {
			sum.excluded++
		}
		of[*r.Sweep] = sum
	}
	for _, w := range sweeps {
		if sum := of[w.ID]; !each || !hasRuns[w.ID] {
			t.Add(fmt.Sprintf("sweep:%d", w.ID), w.ID, nil, w.CreatedAt, w.Node, w.Mode, store.Standing(w), given(w.Name), sum.runs, sum.excluded, sum.size, given(w.Tag), given(notesOf(w)))
		}
	}
	simulated := slices.ContainsFunc(sweeps, func(w results.Sweep) bool { return w.Mode == results.Simulated })
	for _, r := range runs {
		simulated = simulated || r.Mode == results.Simulated
		if single(r) {
			excluded := 0
			if r.Excluded {
				excluded = 1
			}
			t.Add(fmt.Sprint(r.ID), r.Sweep, r.ID, r.StartedAt, r.Node, r.Mode, store.RunStanding(r), results.ArmOf(r).String(), 1, excluded, sizes[r.ID], given(r.Tag), given(r.Remark))
		}
	}
	if simulated {
		t.Title += " (those of mode sim are SIMULATED)"
	}
	return t
}

// Vacuumed says what a vacuum of the store at path has given back, or would.
func Vacuumed(title, path string, before, after int64) *Table {
	t := &Table{Title: title, Columns: []Column{{Name: "store"}, {Name: "before", Unit: Bytes}, {Name: "after", Unit: Bytes}, {Name: "given_back", Unit: Bytes}}}
	t.Add(path, before, after, before-after)
	return t
}
