package html

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
)

// tablesOf are the tables of a matrix: over all mixes, and mixes against schedulers.
func tablesOf(m regress.Matrix, a *arms) (over *report.Table, byMix []*report.Table) {
	base := line(m.Base().Name)
	columns := []string{"scheduler", "crash_rate"}
	for _, metric := range m.Metrics {
		if !metric.Counts() {
			columns = append(columns, report.MatrixColumn(metric))
		}
	}
	over = report.MatrixTable(m).Pick(append(columns, "runs")...)
	over.Page = report.Page{Label: "Schedulers on " + line(m.Place()), Class: "sortable matrix", Caption: captionOf(m)}
	for i, s := range m.Rows {
		if s.Base {
			over.Rows[i][0] = report.Cell{Text: base, Small: "(base)"}
		}
		for c, column := range over.Columns {
			cell, is := over.Rows[i][c].(report.Cell)
			at := slices.IndexFunc(m.Metrics, func(of results.Metric) bool { return !of.Absolute && report.MatrixColumn(of) == column.Name })
			if is && at >= 0 && !s.Base && cell.Value != nil && !s.Over[at].LostMore {
				arrow, word := judge(s.Over[at].Ratio, m.Metrics[at].HigherIsBetter)
				cell.Arrow, cell.Verdict = arrow, stats.Verdict(word)
				over.Rows[i][c] = cell
			}
		}
		over.Page.Rows = append(over.Page.Rows, armRow(a.names[a.order.Number(s.Arm)]))
	}
	byMix = report.ByMix(m, cellOf)
	for j, t := range byMix {
		metric := m.Metrics[j]
		t.Title, t.Page = fmt.Sprintf("%s by mix, ratio to %s", metric.Title(), base), report.Page{Class: "matrix bymix", Named: true, Foot: len(m.Mixes) > 1}
		switch {
		case metric.Counts():
			t.Title = "Crashed jobs by mix"
		case metric.Absolute:
			t.Title = metric.Title() + " by mix"
		}
		for i, s := range m.Rows {
			t.Columns[i+1] = report.Column{Title: line(s.Name), Unit: report.Factor, Class: a.names[a.order.Number(s.Arm)].Class()}
		}
		if t.Page.Foot {
			t.Rows[len(m.Mixes)][0] = map[bool]string{true: "All mixes", false: "Geometric mean"}[metric.Absolute]
		}
	}
	return over, byMix
}

// cellOf is a cell of mixes against schedulers.
func cellOf(m results.Metric, c regress.Count, l regress.Level) report.Cell {
	switch {
	case !m.Counts():
		return report.RatioCell(m, c, l)
	case c.Jobs == 0:
		return report.Cell{}
	}
	text := report.Human(*c.CrashRate(), report.Ratio)
	if c.Crashed > 0 {
		text = "✕ " + text
	}
	return report.Cell{Value: *c.CrashRate(), Text: text, Small: fmt.Sprintf("%d of %d", c.Crashed, c.Jobs)}
}

func captionOf(m regress.Matrix) string {
	over := fmt.Sprintf("%d mixes: geometric means of ratios", len(m.Mixes))
	if len(m.Mixes) == 1 {
		over = line(m.Names.Mix(m.Mixes[0])) + ": ratios"
	}
	intervals := fmt.Sprintf(", with %.0f %% confidence intervals. Each verdict, here and above, is that of its interval alone.", 100*(1-m.Alpha))
	if !bounded(m) {
		intervals = ". There are too few repetitions for confidence intervals."
	}
	return fmt.Sprintf("%s to %s%s", over, line(m.Base().Name), intervals)
}

// bounded reports whether any ratio over the mixes has an interval.
func bounded(m regress.Matrix) bool {
	return slices.ContainsFunc(m.Rows, func(s regress.Standing) bool {
		return slices.ContainsFunc(s.Over, func(l regress.Level) bool { return l.Ratio.Bounded() })
	})
}
