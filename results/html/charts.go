package html

import (
	"fmt"
	"math"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// chart has a row for each arm. All rows share one scale, which begins at 0.
type chart struct {
	Title  string
	Legend string
	Ticks  []tick
	Rows   []chartRow
}

// chartRow is one arm's line: dots, a box or an interval, and the median.
type chartRow struct {
	Arm     armName
	Text    string // the row in words
	Dots    []dot
	Low     string // lower end of the box (quartiles) or the interval
	Width   string
	Median  string
	Whisker [2]string // of a box: smallest and largest value
	Box     bool
	Empty   bool
}

type dot struct {
	X string
	Y int
}

// maxDots is the largest number of dots in a row. More values are reduced to quantiles, which
// keeps the row's shape.
const maxDots = 60

func charts(own []*member) []chart {
	okTurnaround := func(j results.Job) *float64 {
		if !j.EndedOK() {
			return nil
		}
		return j.TurnaroundS()
	}
	wait := func(j results.Job) *float64 { return j.WaitS }
	var out []chart
	if len(own) > 1 || len(own[0].runs) > 1 {
		for _, of := range shownMetrics(results.ArmOf(own[0].runs[0]).Open)[:judged] {
			out = append(out, runChart(own, of))
		}
	}
	out = append(out, jobChart("Turnaround of jobs that ended ok", own, okTurnaround), jobChart("Time that jobs waited", own, wait))
	return slices.DeleteFunc(out, func(c chart) bool { return len(c.Ticks) == 0 })
}

// runChart shows each repetition as a dot, and their median and interval.
func runChart(own []*member, of results.Metric) chart {
	u, title := report.MetricUnit(of), of.Title()
	if u != report.Seconds { // ticks have seconds
		title += ", " + of.Unit
	}
	c := chart{Title: title, Legend: "A dot for each run; line: median; bar, from 6 runs on: " + intervalWords + "."}
	end := 0.0
	for _, m := range own {
		end = max(end, largest(m.values(of)))
	}
	c.Ticks = ticks(end, u)
	for _, m := range own {
		values := m.values(of)
		s := summarize(values)
		row := chartRow{Arm: m.name, Empty: s.N == 0}
		if s.N > 0 {
			row.Text = fmt.Sprintf("median %s of %s", report.Human(s.Median, u), plural(s.N, "run"))
			row.Dots, row.Median = dots(values, end), percent(s.Median, end)
			if s.Bounded() {
				row.Text += fmt.Sprintf(", interval %s to %s", report.Human(s.Low, u), report.Human(s.High, u))
				row.Low, row.Width = percent(s.Low, end), percent(s.High-s.Low, end)
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// jobChart shows each job of all repetitions as a dot, and their quartiles and range.
func jobChart(title string, own []*member, of func(results.Job) *float64) chart {
	c := chart{Title: title, Legend: "A dot for each job of all runs; box: middle half; line: median; whiskers: smallest and largest."}
	end := 0.0
	for _, m := range own {
		end = max(end, largest(m.jobValues(of)))
	}
	c.Ticks = ticks(end, report.Seconds)
	for _, m := range own {
		values := slices.Sorted(slices.Values(m.jobValues(of)))
		row := chartRow{Arm: m.name, Box: true, Empty: len(values) == 0}
		if len(values) > 0 {
			q1, q2, q3 := results.Quantile(values, 0.25), results.Quantile(values, 0.5), results.Quantile(values, 0.75)
			row.Text = fmt.Sprintf("%s: median %s, middle half %s to %s, largest %s",
				plural(len(values), "job"), seconds(q2), seconds(q1), seconds(q3), seconds(values[len(values)-1]))
			row.Dots = dots(values, end)
			row.Low, row.Width, row.Median = percent(q1, end), percent(q3-q1, end), percent(q2, end)
			row.Whisker = [2]string{percent(values[0], end), percent(values[len(values)-1], end)}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// dots places values along the scale. Neighbouring dots differ in height, so that equal values
// remain visible.
func dots(values []float64, end float64) []dot {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) > maxDots {
		thin := make([]float64, maxDots)
		for i := range thin {
			thin[i] = results.Quantile(sorted, float64(i)/(maxDots-1))
		}
		sorted = thin
	}
	heights := []int{15, 11, 19, 8, 22}
	out := make([]dot, len(sorted))
	for i, v := range sorted {
		out[i] = dot{percent(v, end), heights[i%len(heights)]}
	}
	if len(out) == 1 {
		out[0].Y = 15
	}
	return out
}

// largest returns the end of a scale that holds all values.
func largest(values []float64) float64 {
	end := 0.0
	for _, v := range values {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			end = max(end, v)
		}
	}
	return end * headroom
}

// headroom keeps the largest dot inside the drawing.
const headroom = 1.02
