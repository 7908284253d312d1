package report

import (
	"cmp"
	"slices"

	"github.com/caserun/caserun/results"
)

// swappingColumns are the swaps of runs in a list that has some. Text drops them first where lines
// would be too long.
func swappingColumns(runs []results.Run) []Column {
	if !slices.ContainsFunc(runs, func(r results.Run) bool { return r.Metrics.Swapping.Swaps != nil }) {
		return nil
	}
	return []Column{{Name: "swaps", Drop: 11}, {Name: "swapped_out", Unit: Bytes, Drop: 10}, {Name: "swapped_in", Unit: Bytes, Drop: 10}}
}

// swapTable has a row for each swap, in the order of their times.
func swapTable(r results.Run, swaps []results.Swap) *Table {
	lost := whereKnown(slices.ContainsFunc(swaps, func(s results.Swap) bool { return s.LostS != nil && *s.LostS > 0 }))
	why := whereKnown(slices.ContainsFunc(swaps, func(s results.Swap) bool { return s.Why != "" }))
	t := &Table{Name: "swap", Title: about("swaps of run", r), Detail: true, Columns: ofRun(
		Column{Name: "job_index", Heading: "job"}, Column{Name: "task_seq", Heading: "task"}, Column{Name: "device_index", Heading: "device"},
		Column{Name: "direction"}, Column{Name: "action", Drop: 3}, Column{Name: "outcome"}, Column{Name: "start", Unit: Seconds}, Column{Name: "end", Unit: Seconds, Drop: 2},
		Column{Name: "moved", Unit: Bytes, Place: TextOnly}, Column{Name: "bytes", Place: DataOnly}, Column{Name: "drain", Unit: Seconds}, Column{Name: "copy", Heading: "copies", Unit: Seconds}, Column{Name: "bookkeeping", Unit: Seconds, Drop: 1},
		Column{Name: "resident", Heading: "then on device", Unit: Bytes, Drop: 4}, Column{Name: "fixed", Unit: Bytes, Drop: 5},
		Column{Name: "for_job_index", Heading: "for job"}, Column{Name: "for_task_seq", Place: DataOnly}, Column{Name: "lost", Unit: Seconds, Place: lost}, Column{Name: "why", Place: why},
	)}
	swaps = slices.Clone(swaps)
	slices.SortStableFunc(swaps, func(a, b results.Swap) int {
		return cmp.Or(cmp.Compare(a.StartS, b.StartS), cmp.Compare(a.EndS, b.EndS))
	})
	for _, s := range swaps {
		t.Add(r.ID, r.Mode, s.Job, s.Task, s.Device, s.Direction, given(s.Action), s.Outcome, s.StartS, s.EndS, s.Bytes, s.Bytes, s.DrainS, s.CopyS, s.BookkeepingS,
			s.ResidentBytes, s.FixedBytes, s.ForJob, s.ForTask, s.LostS, given(s.Why))
	}
	return t
}
