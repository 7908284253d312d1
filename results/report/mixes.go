package report

import (
	"slices"

	"github.com/caserun/caserun/mixes"
)

// MixList lists mixes.
func MixList(all []mixes.Mix) *Table {
	t := &Table{Title: "mixes", Columns: []Column{{Name: "mix"}, {Name: "jobs"}, {Name: "large"}, {Name: "small"},
		{Name: "ratio"}, {Name: "memory", Unit: Bytes}, {Name: "description"}}}
	for _, m := range all {
		var total int64
		classes := map[string]int{}
		for _, j := range m.Jobs {
			total += j.Footprint.Bytes
			classes[j.Class]++
		}
		t.Add(m.Name, len(m.Jobs), classes[mixes.ClassLarge], classes[mixes.ClassSmall], m.Ratio, unlessZero(total), m.Description)
	}
	return t
}

// MixJobs lists the jobs of a mix. It has the columns group and faults in text only where a job has them, and those of
// ranks and later keys only there at all.
func MixJobs(m mixes.Mix) *Table {
	where := func(has func(mixes.Job) bool) Place {
		if slices.ContainsFunc(m.Jobs, has) {
			return Everywhere
		}
		return DataOnly
	}
	t := &Table{Title: m.Name, Columns: []Column{{Name: "job"}, {Name: "name"}, {Name: "command"}, {Name: "class"},
		{Name: "memory", Unit: Bytes}, {Name: "blocks"}, {Name: "threads_per_block"},
		{Name: "group", Place: where(func(j mixes.Job) bool { return j.Group > 0 })},
		{Name: "faults", Place: where(func(j mixes.Job) bool { return j.KnownFault })}}}
	var later []func(mixes.Job) any
	column := func(c Column, value func(mixes.Job) any) {
		if slices.ContainsFunc(m.Jobs, func(j mixes.Job) bool { return value(j) != nil }) {
			t.Columns, later = append(t.Columns, c), append(later, value)
		}
	}
	column(Column{Name: "ranks"}, func(j mixes.Job) any { return onlyIf(j.Ranks > 1, j.Ranks) })
	column(Column{Name: "portions"}, func(j mixes.Job) any { return onlyIf(j.Portions > 0, j.Portions) })
	column(Column{Name: "restartable"}, func(j mixes.Job) any {
		if j.Restartable == nil {
			return nil
		}
		return *j.Restartable
	})
	column(Column{Name: "until_others_end"}, func(j mixes.Job) any { return onlyIf(j.UntilOthersEnd, true) })
	column(Column{Name: "share"}, func(j mixes.Job) any { return onlyIf(j.Share > 0, j.Share) })
	column(Column{Name: "at", Unit: Seconds}, func(j mixes.Job) any { return onlyIf(j.At > 0, j.At.Seconds()) })
	column(Column{Name: "deadline", Unit: Seconds}, func(j mixes.Job) any { return onlyIf(j.Deadline > 0, j.Deadline.Seconds()) })
	column(Column{Name: "user"}, func(j mixes.Job) any { return given(j.User) })
	column(Column{Name: "credits"}, func(j mixes.Job) any { return onlyIf(j.Credits > 0, j.Credits) })
	for i, j := range m.Jobs {
		f := j.Footprint
		faults := ""
		if j.KnownFault {
			faults = "known"
		}
		row := []any{i, j.Name, j.Command(), j.Class, unlessZero(f.Bytes), unlessZero(int64(f.Blocks)), unlessZero(int64(f.ThreadsPerBlock)), j.Group, faults}
		for _, value := range later {
			row = append(row, value(j))
		}
		t.Add(row...)
	}
	if m.Arrivals != nil {
		t.Say("the jobs arrive one after another: " + m.Arrivals.String())
	}
	return t
}

// onlyIf is the value if it is known, or nil.
func onlyIf(known bool, v any) any {
	if !known {
		return nil
	}
	return v
}

// unlessZero is nil for 0, with which mixes mark what they do not know.
func unlessZero(v int64) *int64 {
	if v == 0 {
		return nil
	}
	return &v
}
