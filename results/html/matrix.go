package html

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
)

// matrix has the schedulers of one place beside one another.
type matrix struct {
	Title     string
	Simulated bool
	Caption   string
	Metrics   []string
	Rows      []standing
	ByMix     []mixTable
	Notes     []string
}

// standing is a scheduler over all mixes.
type standing struct {
	Name    string
	Base    bool
	Crashed level
	Levels  []level
	Runs    cell
}

// level is a metric's ratio to the base.
type level struct {
	cell
	Of       string // the scheduler, in a row of a mix
	Interval string // or the counts behind a share
	Doubt    string // what takes value from the figure
}

// mixTable has one metric: a row for each mix, a column for each scheduler.
type mixTable struct {
	Title   string
	Names   []string
	Rows    []mixRow
	Summary *mixRow // over all mixes; nil if there is one mix
}

type mixRow struct {
	Mix    string
	Levels []level
}

// shownMetrics are the metrics of the page's matrix, by their names in package regress.
var shownMetrics = []string{"throughput", "turnaround", "makespan"}

// newSide makes the page's runs a side of a comparison. Warm-up runs are not measurements.
func newSide(runs []results.Run, jobs [][]results.Job, devices map[int64][]results.Device) regress.Side {
	side := regress.Side{Label: "this page"}
	for i, r := range runs {
		if !r.Warmup {
			side.Runs = append(side.Runs, regress.Observation{Run: r, Devices: devices[r.ID], Commands: results.CommandList(jobs[i])})
		}
	}
	return side
}

// compareSchedulers finds the matrix of each place.
func compareSchedulers(side regress.Side, base string) ([]regress.Matrix, error) {
	var metrics []results.Metric
	for _, name := range shownMetrics {
		m, err := regress.LookupMetric(name)
		if err != nil {
			return nil, err
		}
		metrics = append(metrics, m)
	}
	return regress.Matrices(side, base, regress.Options{Metrics: metrics})
}

func newMatrix(m regress.Matrix) matrix {
	v := matrix{Title: "Schedulers on " + line(m.Place()), Simulated: m.Simulated(), Notes: lines(m.Notes)}
	over := fmt.Sprintf("%d mixes: geometric means of ratios", len(m.Mixes))
	if len(m.Mixes) == 1 {
		over = line(m.Names.Mix(m.Mixes[0])) + ": ratios"
	}
	v.Caption = fmt.Sprintf("%s to %s, with %.0f %% confidence intervals.", over, line(m.Base().Name), 100*(1-m.Alpha))
	if !bounded(m) {
		v.Caption = fmt.Sprintf("%s to %s. There are too few repetitions for confidence intervals.", over, line(m.Base().Name))
	}
	for _, metric := range m.Metrics {
		v.Metrics = append(v.Metrics, headingOf(metric))
	}
	for _, s := range m.Rows {
		row := standing{Name: line(s.Name), Base: s.Base, Crashed: crashedLevel(s.Count), Runs: integer(s.Runs)}
		for _, l := range s.Over {
			row.Levels = append(row.Levels, newLevel(l, regress.Count{}))
		}
		v.Rows = append(v.Rows, row)
	}
	for j, metric := range m.Metrics {
		t := mixTable{Title: fmt.Sprintf("%s by mix, ratio to %s", headingOf(metric), line(m.Base().Name))}
		all := mixRow{Mix: "Geometric mean"}
		for _, s := range m.Rows {
			t.Names = append(t.Names, line(s.Name))
			all.add(s, newLevel(s.Over[j], lossesOf(metric, s.Count)))
		}
		for i, batch := range m.Mixes {
			row := mixRow{Mix: line(m.Names.Mix(batch))}
			for _, s := range m.Rows {
				row.add(s, newLevel(s.Cells[i].Levels[j], lossesOf(metric, s.Cells[i].Count)))
			}
			t.Rows = append(t.Rows, row)
		}
		if len(m.Mixes) > 1 {
			t.Summary = &all
		}
		v.ByMix = append(v.ByMix, t)
	}
	return v
}

// bounded reports whether any ratio over the mixes has an interval.
func bounded(m regress.Matrix) bool {
	return slices.ContainsFunc(m.Rows, func(s regress.Standing) bool {
		return slices.ContainsFunc(s.Over, func(l regress.Level) bool { return l.Ratio.Bounded() })
	})
}

func (r *mixRow) add(s regress.Standing, l level) {
	l.Of = line(s.Name)
	r.Levels = append(r.Levels, l)
}

func headingOf(m results.Metric) string {
	return map[string]string{"throughput": "Throughput", "turnaround": "Mean turnaround", "makespan": "Makespan"}[m.Name]
}

// lossesOf is what a metric's figure names of crashed jobs: throughput alone gains from them.
func lossesOf(m results.Metric, c regress.Count) regress.Count {
	if m.HigherIsBetter {
		return c
	}
	return regress.Count{}
}

func newLevel(l regress.Level, lost regress.Count) level {
	if math.IsNaN(l.Ratio.Value) {
		return level{cell: cell{Text: "–"}}
	}
	out := level{cell: cell{Text: report.RatioText(l.Ratio.Value) + "×", Value: strconv.FormatFloat(l.Ratio.Value, 'g', 7, 64)}}
	if l.Ratio.Bounded() {
		out.Interval = report.RatioText(l.Ratio.Low) + " to " + report.RatioText(l.Ratio.High)
	}
	var doubts []string
	switch {
	case lost.Crashed > 0:
		doubts = append(doubts, "✕ "+report.Human(*lost.CrashRate(), report.Ratio)+" crashed")
	case l.Survivors:
		doubts = append(doubts, survivorsOnly)
	}
	if l.LostMore {
		doubts = append(doubts, notComparable)
	}
	out.Doubt = strings.Join(doubts, ", ")
	return out
}

// crashedLevel is a crash rate, with the counts behind it.
func crashedLevel(c regress.Count) level {
	out := level{cell: number(c.CrashRate(), report.Ratio)}
	if c.Jobs > 0 {
		out.Interval = fmt.Sprintf("%d of %d", c.Crashed, c.Jobs)
	}
	if c.Crashed > 0 {
		out.Text = "✕ " + out.Text
	}
	out.Text = unbroken(out.Text)
	return out
}

// survivorsOnly marks figures that are others because jobs crashed: see results.Metric.OfSurvivors.
const survivorsOnly = "survivors only"

// notComparable marks figures of which one side looks better and lost significantly more jobs: see
// regress.Level.LostMore.
const notComparable = "not comparable"

func lines(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, line(t))
	}
	return out
}
