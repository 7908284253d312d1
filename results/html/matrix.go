package html

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
)

// matrix has the schedulers of one place beside one another.
type matrix struct {
	Title     string
	Simulated bool
	Over      *report.Table   // over all mixes
	ByMix     []*report.Table // of each metric
	Notes     []string
}

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
	return regress.Matrices(side, base, regress.Options{Metrics: results.OnPages()})
}

func newMatrix(m regress.Matrix) matrix {
	base := line(m.Base().Name)
	v := matrix{Title: "Schedulers on " + line(m.Place()), Simulated: m.Simulated(), Notes: lines(m.Notes)}
	columns := []string{"scheduler", "crash_rate"}
	for _, metric := range m.Metrics {
		columns = append(columns, report.MatrixColumn(metric))
	}
	v.Over = report.MatrixTable(m).Pick(append(columns, "runs")...)
	v.Over.Page = report.Page{Label: v.Title, Class: "sortable matrix", Caption: captionOf(m)}
	for i, s := range m.Rows {
		if s.Base {
			v.Over.Rows[i][0] = report.Cell{Text: base, Small: "(base)"}
		}
	}
	v.ByMix = report.ByMix(m, report.RatioCell)
	for j, t := range v.ByMix {
		t.Title = fmt.Sprintf("%s by mix, ratio to %s", m.Metrics[j].Title(), base)
		for i, s := range m.Rows {
			t.Columns[i+1] = report.Column{Title: line(s.Name), Unit: report.Factor}
		}
		t.Page = report.Page{Class: "matrix bymix", Named: true, Foot: len(m.Mixes) > 1}
		if t.Page.Foot {
			t.Rows[len(m.Mixes)][0] = "Geometric mean"
		}
	}
	return v
}

func captionOf(m regress.Matrix) string {
	over := fmt.Sprintf("%d mixes: geometric means of ratios", len(m.Mixes))
	if len(m.Mixes) == 1 {
		over = line(m.Names.Mix(m.Mixes[0])) + ": ratios"
	}
	intervals := fmt.Sprintf(", with %.0f %% confidence intervals.", 100*(1-m.Alpha))
	if !bounded(m) {
		intervals = ". There are too few repetitions for confidence intervals."
	}
	return caption(m.Simulated(), fmt.Sprintf("%s to %s%s Throughput: more is better. Turnaround and makespan: less is better.", over, line(m.Base().Name), intervals))
}

// bounded reports whether any ratio over the mixes has an interval.
func bounded(m regress.Matrix) bool {
	return slices.ContainsFunc(m.Rows, func(s regress.Standing) bool {
		return slices.ContainsFunc(s.Over, func(l regress.Level) bool { return l.Ratio.Bounded() })
	})
}

func lines(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, line(t))
	}
	return out
}
