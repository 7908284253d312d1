package html

import (
	"fmt"

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
	Steps     *report.Table
}

// trendLine is one arm's line.
type trendLine struct {
	Name      string // says simulated, where it is
	Simulated bool
	Arm       int    // of the page's arms; -1: the page has no run of it
	Text      string // the line in words
	Dots      []trendDot
	Segments  []trendSegment
	Steps     []string // their places between two dots
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

// trendPoints is the largest number of dots in a line: the latest.
const trendPoints = 200

func newTrend(t *trend.Trend, a *arms) *trendView {
	if t == nil {
		return nil
	}
	v := &trendView{Title: "Over time: " + t.Metric.Name, Simulated: t.Simulated(), Notes: t.Notes,
		Legend: fmt.Sprintf("A dashed line marks a step: a change of the level whose p is at most %g in its line.", t.Alpha)}
	unit := report.MetricUnit(t.Metric)
	for _, l := range t.Lines {
		v.Lines = append(v.Lines, newTrendLine(l, line(t.Names.Of(l.Arm)), a.order.Number(l.Arm), unit))
	}
	v.Steps = report.TrendSteps(*t).Pick("line", "label", "before", "after", "change", "verdict", "revisions", "also_changed")
	v.Steps.Page = report.Page{Label: "Steps", Class: "sortable", Caption: "Steps. The cause lies in the revisions, or in what also changed."}
	for _, row := range v.Steps.Rows {
		if row[7] == nil {
			row[7] = ""
		}
	}
	return v
}

func newTrendLine(l trend.Line, name string, arm int, unit report.Unit) trendLine {
	const top, bottom = 6, 58 // of the dots' centres in the line's picture
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
	x := func(i float64) string { return percent(i+0.5, float64(len(points))) }
	y := func(v float64) int {
		if high == low {
			return (top + bottom) / 2
		}
		return bottom - int((v-low)/(high-low)*(bottom-top)+0.5)
	}
	for i, p := range points {
		out.Dots = append(out.Dots, trendDot{X: x(float64(i)), Y: y(p.Value), Text: fmt.Sprintf("%s: %s, %s", line(p.Label), report.Human(p.Value, unit), plural(p.N, "run"))})
		if i > 0 {
			out.Segments = append(out.Segments, trendSegment{X1: x(float64(i - 1)), X2: x(float64(i)), Y1: y(points[i-1].Value), Y2: y(p.Value)})
		}
	}
	for _, s := range l.Steps {
		if at := s.At - skipped; at > 0 {
			out.Steps = append(out.Steps, x(float64(at)-0.5))
		}
	}
	return out
}
