package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/trend"
)

// TrendTables are the tables of lines, of steps and of points. csv and json always have all
// three. Text has the steps if there are any, and the points if all is set.
func TrendTables(t trend.Trend, f Format, all bool) []*Table {
	lines, steps := trendLines(t), TrendSteps(t)
	data := f.Data()
	tables := []*Table{lines}
	if data || len(steps.Rows) > 0 {
		tables = append(tables, steps)
	} else {
		lines.Notes = append(lines.Notes, steps.Notes...)
	}
	if data || all {
		tables = append(tables, trendPoints(t))
	}
	return tables
}

// armColumns and armCells are an arm in tables of several arms.
func armColumns(t trend.Trend) []Column {
	dropNode := 2
	if slices.ContainsFunc(t.Lines, func(l trend.Line) bool { return l.Arm.Node != t.Lines[0].Arm.Node }) {
		dropNode = 0
	}
	return []Column{
		{Name: "mix"}, {Name: "jobs", Place: DataOnly}, {Name: "scheduler"}, {Name: "parameters", Place: DataOnly}, {Name: "probe", Place: DataOnly},
		{Name: "node", Drop: dropNode}, {Name: "mode"}, {Name: "traced", Place: DataOnly}, {Name: "arm", Place: DataOnly},
	}
}

func armCells(t trend.Trend, l trend.Line) []any {
	a := l.Arm
	return []any{mixCell(a, t.Names), a.Jobs, schedulerCell(a, t.Names), a.Parameters, a.Probe.String(), a.Node, string(a.Mode), a.Traced, t.Names.Scheduler(a)}
}

func trendLines(t trend.Trend) *Table {
	out := &Table{Title: marked(t.Simulated(), t.Metric.Name+" over time"), Columns: append(armColumns(t),
		Column{Name: "metric", Place: DataOnly}, Column{Name: "unit", Place: DataOnly}, Column{Name: "points"},
		Column{Name: "first", Drop: 1}, Column{Name: "latest"}, Column{Name: "latest_label", Place: DataOnly},
		Column{Name: "line", Place: TextOnly}, Column{Name: "steps"})}
	for _, l := range t.Lines {
		first, last := l.Points[0], l.Points[len(l.Points)-1]
		out.Add(append(armCells(t, l), t.Metric.Name, t.Metric.Unit, len(l.Points), figure(t, first.Value), figure(t, last.Value), last.Label, sparkline(t, l), len(l.Steps))...)
	}
	out.Say(t.Notes...)
	if t.Simulated() {
		out.Say(simulatedNote)
	}
	return out
}

// TrendSteps has a row for each step of each line.
func TrendSteps(t trend.Trend) *Table {
	out := &Table{Title: marked(t.Simulated(), "steps of "+t.Metric.Name), Columns: append(armColumns(t), Column{Name: "line", Place: PageOnly},
		Column{Name: "metric", Place: DataOnly}, Column{Name: "unit", Place: DataOnly}, Column{Name: "label", Heading: "first at"}, Column{Name: "previous_label", Place: DataOnly}, Column{Name: "last_label", Place: DataOnly},
		Column{Name: "before"}, Column{Name: "after"}, Column{Name: "change"}, Column{Name: "change_low", Place: DataOnly}, Column{Name: "change_high", Place: DataOnly}, Column{Name: "verdict", Judges: true}, Column{Name: "p", Drop: 3},
		Column{Name: "revisions", Place: TextOnly, Class: "code"}, Column{Name: "revision_before", Place: DataOnly}, Column{Name: "revision_after", Place: DataOnly},
		Column{Name: "kinds_changed", Heading: "also changed", Place: TextOnly, Drop: 4}, Column{Name: "also_changed", Place: DataOnly, Class: "wrap"})}
	inconclusive := false
	for _, l := range t.Lines {
		for _, s := range l.Steps {
			inconclusive = inconclusive || s.Verdict == stats.Inconclusive
			changed := alsoChanged(s)
			out.Add(append(armCells(t, l), t.Names.Of(l.Arm), t.Metric.Name, t.Metric.Unit, l.Points[s.At].Label, l.Points[s.Older].Label, l.Points[s.Last].Label,
				figure(t, s.Before), figure(t, s.After), Cell{Value: finite(s.Change), Text: changeText(s.Change, t.Metric)}, finite(s.Low), finite(s.High), s.Verdict, pCell(s.P),
				revisionRange(s.BeforeRevision, s.AfterRevision), s.BeforeRevision, s.AfterRevision, given(kindsChanged(s)), given(changed))...)
			says := fmt.Sprintf("%s: %s between %s and %s", t.Names.Of(l.Arm), stepChange(s, t.Metric), l.Points[s.Older].Label, l.Points[s.Last].Label)
			if changed != "" {
				says += ", where also changed: " + changed
			}
			out.Say(says + ".")
		}
	}
	if len(out.Rows) == 0 {
		out.Say("No line has a step.")
	}
	if inconclusive {
		out.Say("inconclusive: the better level lost significantly more jobs.")
	}
	size := ""
	if t.MinEffect > 0 {
		size = fmt.Sprintf(" of %g %% or more", 100*t.MinEffect)
	}
	out.Say(fmt.Sprintf("A step is a change of the level%s whose p is at most %g in its line. It lies between the nights named, with 95 %% confidence, "+
		"and its cause in their revisions, or in what also changed.", size, t.Alpha))
	return out
}

// stepChange is "-13.1 % (-13.5 to -12.6)".
func stepChange(s trend.Step, m results.Metric) string {
	text := changeText(s.Change, m)
	if text == "" || math.IsInf(s.Low, 0) || math.IsInf(s.High, 0) {
		return text
	}
	return fmt.Sprintf("%s (%+.1f to %+.1f)", text, 100*s.Low, 100*s.High)
}

func trendPoints(t trend.Trend) *Table {
	out := &Table{Title: marked(t.Simulated(), "points of "+t.Metric.Name), Columns: append(armColumns(t),
		Column{Name: "metric", Place: DataOnly}, Column{Name: "unit", Place: DataOnly}, Column{Name: "position"}, Column{Name: "label"}, Column{Name: "started_at", Heading: "started", Drop: 3},
		Column{Name: "runs"}, Column{Name: "value", Heading: t.Metric.Name},
		Column{Name: "revision"}, Column{Name: "step"})}
	for _, l := range t.Lines {
		for i, p := range l.Points {
			step := slices.ContainsFunc(l.Steps, func(s trend.Step) bool { return s.At == i })
			var revisions []string
			for _, r := range p.Revisions {
				revisions = append(revisions, ShortRevision(r))
			}
			out.Add(append(armCells(t, l), t.Metric.Name, t.Metric.Unit, i+1, p.Label, p.StartedAt, p.N, figure(t, p.Value),
				Cell{Value: strings.Join(p.Revisions, " "), Text: strings.Join(revisions, " ")}, step)...)
		}
	}
	return out
}

func figure(t trend.Trend, v float64) Cell {
	return Cell{Value: v, Text: Human(v, MetricUnit(t.Metric))}
}

// revisionRange names the revisions on both sides of a step, shortened as git does.
func revisionRange(before, after string) string {
	if before == after && known(after) {
		return "the same: " + ShortRevision(after)
	}
	if before == after {
		return "unknown"
	}
	return ShortRevision(before) + ".." + ShortRevision(after)
}

// known reports whether a build knew its revision.
func known(revision string) bool { return revision != "" && revision != "unknown" }

// ShortRevision is a revision's first nine digits, with what follows the hash.
func ShortRevision(revision string) string {
	hash, dirty, changed := strings.Cut(revision, "+")
	hash = hash[:min(len(hash), 9)]
	if !known(revision) {
		return "unknown"
	}
	if changed {
		hash += "+" + dirty
	}
	return hash
}

// kindsChanged names what alsoChanged lists.
func kindsChanged(s trend.Step) string {
	var out []string
	for _, d := range s.Environment {
		out = append(out, d.Kind)
	}
	return strings.Join(out, ", ")
}

// alsoChanged lists what changed at a step beside the revision.
func alsoChanged(s trend.Step) string {
	var out []string
	for _, d := range s.Environment {
		out = append(out, fmt.Sprintf("%s: %s to %s", d.Kind, d.A, d.B))
	}
	return strings.Join(out, "; ")
}

// sparkline draws the last points of a line, from its lowest to its highest value. A gap is a space.
func sparkline(t trend.Trend, l trend.Line) string {
	const most = 24
	bars := []rune("▁▂▃▄▅▆▇█")
	points := l.Points[max(0, len(l.Points)-most):]
	low, high := points[0].Value, points[0].Value
	for _, p := range points {
		low, high = min(low, p.Value), max(high, p.Value)
	}
	// What is smaller than the minimum effect is drawn flat.
	flat := high-low < t.MinEffect*max(high, -low) || high == low
	var out strings.Builder
	for i, p := range points {
		if slices.ContainsFunc(l.Gaps, func(g trend.Gap) bool { return i > 0 && g.At == i+len(l.Points)-len(points) }) {
			out.WriteRune(' ')
		}
		at := len(bars)/2 - 1
		if !flat {
			at = int((p.Value - low) / (high - low) * float64(len(bars)-1))
		}
		out.WriteRune(bars[at])
	}
	return out.String()
}
