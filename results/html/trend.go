package html

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/trend"
)

// trendView is the section of a metric over time.
type trendView struct {
	Title     string
	Simulated bool
	Legend    string
	Notes     []string
	Lines     []trendLine
	Ticks     []tick // of the axis of all lines
	Steps     *report.Table
	// What the legend explains, because a line has it.
	Gaps, Machines, Drivers, Revisions bool
}

// trendLine is one arm's line.
type trendLine struct {
	Name      string // says simulated, where it is
	Simulated bool
	Arm       int    // of the page's arms; -1: the page has no run of it
	Text      string // the line in words
	Dots      []trendDot
	Segments  []trendSegment
	Steps     []trendStep
	Gaps      []trendSpan
	Marks     []trendMark
}

type trendDot struct {
	X    string
	Y    int
	Text string
}

type trendSegment struct {
	X1, X2 string
	Y1, Y2 int
}

// trendSpan is a part of a line's time.
type trendSpan struct{ X, Width, Text string }

// trendStep is the nights between which a step lies, and the place where the new level is likeliest to begin.
type trendStep struct {
	trendSpan
	At  string
	Row string // its row of the table of steps
}

// trendMark is a change between a point and the one before.
type trendMark struct {
	X      string
	Letter string // M: the machine, D: the driver; empty: the revision
	Text   string
}

// trendPoints is the largest number of dots in a line: the latest.
const trendPoints = 200

func newTrend(t *trend.Trend, a *arms, onPage func([]int64) int64) *trendView {
	if t == nil {
		return nil
	}
	v := &trendView{Title: "Over time: " + t.Metric.Name, Simulated: t.Simulated(), Notes: t.Notes,
		Legend: fmt.Sprintf("A dashed line marks a step: a change of the level whose p is at most %g in its line. It lies within the shaded nights with 95 %% confidence.", t.Alpha)}
	shown := make([][]trend.Point, len(t.Lines))
	for i, l := range t.Lines {
		shown[i] = l.Points[max(0, len(l.Points)-trendPoints):]
	}
	axis := newDateAxis(shown)
	v.Ticks = axis.ticks()
	unit := report.MetricUnit(t.Metric)
	rows := 0 // of the table of steps
	for _, l := range t.Lines {
		drawn := newTrendLine(l, axis, line(t.Names.Of(l.Arm)), a.order.Number(l.Arm), unit, rows)
		rows += len(l.Steps)
		v.Lines = append(v.Lines, drawn)
		v.Gaps = v.Gaps || len(drawn.Gaps) > 0
		for _, m := range drawn.Marks {
			v.Machines, v.Drivers, v.Revisions = v.Machines || m.Letter == "M", v.Drivers || m.Letter == "D", v.Revisions || m.Letter == ""
		}
	}
	v.Steps = newSteps(t, onPage)
	return v
}

// newSteps is the table of steps. The two nights around a step link to their runs.
func newSteps(t *trend.Trend, onPage func([]int64) int64) *report.Table {
	out := report.TrendSteps(*t).Pick("line", "previous_label", "last_label", "label", "before", "after", "change", "verdict", "revisions", "also_changed")
	out.Columns[1].Heading, out.Columns[2].Heading, out.Columns[3].Heading = "after night", "by night", "most likely at"
	out.Page = report.Page{Label: "Steps", Class: "sortable steps",
		Caption: "Steps. The cause lies between two nights: in their revisions, or in what also changed."}
	for _, l := range t.Lines {
		for _, s := range l.Steps {
			i := len(out.Page.Rows)
			row := out.Rows[i]
			out.Page.Rows = append(out.Page.Rows, rowAttribute("id", stepID(i)))
			row[1], row[2] = nightCell(l.Points[s.Older], onPage), nightCell(l.Points[s.Last], onPage)
			if row[9] == nil {
				row[9] = ""
			}
		}
	}
	return out
}

func stepID(row int) string { return fmt.Sprintf("step-%d", row+1) }

// nightCell names a night and links to one of its runs, or says which command shows it.
func nightCell(p trend.Point, onPage func([]int64) int64) report.Cell {
	c := report.Cell{Value: p.Label}
	if id := onPage(p.IDs()); id != 0 {
		c.Link = fmt.Sprintf("#run-%d", id)
	} else {
		c.Small = fmt.Sprintf("caserun report %d --html FILE", p.IDs()[0])
	}
	return c
}

// onPage chooses the run of a night to which the page links: one with a section of its own if there is one; 0: the page
// has no run of the night.
func onPage(runs []results.Run, chosen map[int64]bool) func([]int64) int64 {
	has := map[int64]bool{}
	for _, r := range runs {
		has[r.ID] = true
	}
	return func(ids []int64) int64 {
		for _, of := range []map[int64]bool{chosen, has} {
			if i := slices.IndexFunc(ids, func(id int64) bool { return of[id] }); i >= 0 {
				return ids[i]
			}
		}
		return 0
	}
}

// newTrendLine draws a line. steps is the number of steps in the table before its own.
func newTrendLine(l trend.Line, axis dateAxis, name string, arm int, unit report.Unit, steps int) trendLine {
	const top, bottom = 14, 58 // of the dots' centres in the line's picture
	skipped := max(0, len(l.Points)-trendPoints)
	points := l.Points[skipped:]
	out := trendLine{Name: name, Simulated: l.Arm.Mode == results.Simulated, Arm: arm}
	low, high := points[0].Value, points[0].Value
	for _, p := range points {
		low, high = min(low, p.Value), max(high, p.Value)
	}
	first, last := points[0], points[len(points)-1]
	out.Text = fmt.Sprintf("%s, from %s at %s to %s at %s, lowest %s, highest %s", plural(len(points), "point"), report.Human(first.Value, unit), line(first.Label),
		report.Human(last.Value, unit), line(last.Label), report.Human(low, unit), report.Human(high, unit))
	// A line that moves by less than a twentieth of its height is not drawn as if it moved much.
	margin := max(0, (high*0.05-(high-low))/2)
	low, high = low-margin, high+margin
	x := func(p trend.Point) string { return axis.x(axis.of(p)) }
	y := func(v float64) int {
		if high == low {
			return (top + bottom) / 2
		}
		return bottom - int((v-low)/(high-low)*(bottom-top)+0.5)
	}
	gaps := map[int][]string{} // by the next point
	for _, g := range l.Gaps {
		if at := g.At - skipped; at > 0 && at < len(points) {
			gaps[at] = append(gaps[at], line(g.Label))
		}
	}
	for i, p := range points {
		out.Dots = append(out.Dots, trendDot{X: x(p), Y: y(p.Value), Text: pointText(p, unit)})
		if i == 0 {
			continue
		}
		before := points[i-1]
		out.Marks = append(out.Marks, trendMarks(x(p), before, p)...)
		if gaps[i] != nil {
			out.Gaps = append(out.Gaps, axis.span(before, p, strings.Join(gaps[i], ", ")+": no run that counts"))
			continue
		}
		out.Segments = append(out.Segments, trendSegment{X1: x(before), X2: x(p), Y1: y(before.Value), Y2: y(p.Value)})
	}
	for i, s := range l.Steps {
		if s.At <= skipped {
			continue
		}
		older, newer := l.Points[max(s.Older, skipped)], l.Points[s.Last]
		text := fmt.Sprintf("%s to %s between %s and %s", report.Human(s.Before, unit), report.Human(s.After, unit), line(l.Points[s.Older].Label), line(newer.Label))
		at := (axis.of(l.Points[s.At-1]) + axis.of(l.Points[s.At])) / 2
		out.Steps = append(out.Steps, trendStep{axis.span(older, newer, text), axis.x(at), stepID(steps + i)})
	}
	return out
}

// span is from one point to another.
func (a dateAxis) span(from, to trend.Point, text string) trendSpan {
	return trendSpan{X: a.x(a.of(from)), Width: percent(a.of(to)-a.of(from), a.to-a.from), Text: text}
}

// pointText is a line of text for each thing that a point says of itself.
func pointText(p trend.Point, unit report.Unit) string {
	lines := []string{fmt.Sprintf("%s: %s, %s", line(p.Label), report.Human(p.Value, unit), plural(p.N, "run"))}
	var revisions []string
	for _, r := range p.Revisions {
		revisions = append(revisions, report.ShortRevision(r))
	}
	lines = append(lines, "revision "+line(strings.Join(revisions, ", ")))
	if p.Machine != "" {
		lines = append(lines, "machine "+line(p.Machine))
	}
	if p.Driver != "" {
		lines = append(lines, "driver "+line(p.Driver))
	}
	return strings.Join(lines, "\n")
}

func trendMarks(x string, before, p trend.Point) (out []trendMark) {
	add := func(letter, what, from, to string) {
		if from != to {
			out = append(out, trendMark{X: x, Letter: letter, Text: fmt.Sprintf("%s from %s on: %s, and %s before", what, line(p.Label), line(to), line(from))})
		}
	}
	add("M", "another machine", before.Machine, p.Machine)
	if before.Driver != "" && p.Driver != "" {
		add("D", "another driver", before.Driver, p.Driver)
	}
	add("", "another revision", report.ShortRevision(before.Revisions[len(before.Revisions)-1]), report.ShortRevision(p.Revisions[len(p.Revisions)-1]))
	return out
}
