package html

import (
	"fmt"
	"math"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
)

const confidence = 1 - stats.DefaultAlpha

// intervalWords explains intervals in legends.
var intervalWords = fmt.Sprintf("%.0f %% confidence interval of the median", confidence*100)

func summarize(values []float64) stats.Summary { return stats.Summarize(values, confidence) }

// summaryCell shows a median, with its interval if there are enough values.
func summaryCell(s stats.Summary, of results.Metric) report.Cell {
	if s.N == 0 {
		return report.Cell{}
	}
	return report.Cell{Value: s.Median, Text: report.Human(s.Median, report.MetricUnit(of)), Small: report.Brackets(report.IntervalText(s, of))}
}

// verdicts judges every arm against the first arm, the base, with one correction for all
// comparisons. Each arm's comparisons are in the order of shownMetrics; the base has none. An arm
// that lost significantly more jobs is not better.
func verdicts(own []*member) (out [][]stats.Comparison, reasons []string) {
	var pairs []stats.Pair
	var others [][]results.Run
	for _, m := range own[1:] {
		others = append(others, m.runs)
		for _, c := range shownMetrics(results.ArmOf(own[0].runs[0]).Open)[:judged] {
			pairs = append(pairs, stats.Pair{A: own[0].values(c), B: m.values(c),
				Options: stats.Options{MinEffect: stats.DefaultMinEffect, HigherIsBetter: c.HigherIsBetter, NoiseFree: own[0].noiseFree || m.noiseFree}})
		}
	}
	lost := regress.LostMore(own[0].runs, others, stats.DefaultAlpha)
	out = [][]stats.Comparison{nil}
	for of := range slices.Chunk(stats.CompareAll(pairs), judged) {
		arm := len(out)
		out = append(out, of)
		for i := range of {
			of[i], _ = regress.Beside(of[i], lost[arm-1], own[0].name.Text, own[arm].name.Text)
			c := of[i]
			if c.Reason != "" && !slices.Contains(reasons, c.Reason) {
				reasons = append(reasons, c.Reason)
			}
		}
	}
	return out, reasons
}

// factor shows the ratio to the base, its interval, and the verdict.
func factor(r regress.Ratio, v stats.Verdict) report.Cell {
	if math.IsNaN(r.Value) {
		return report.Cell{}
	}
	c := report.Cell{Value: r.Value, Text: regress.RatioText(r.Value) + "×", Small: report.Brackets(r.Interval())}
	if v != "" {
		c.Arrow, c.Verdict = arrowOf(r.Value), v
	}
	return c
}
