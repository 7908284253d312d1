package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// OfMatrices are the figures of schedulers beside one another: for each metric a group of bars for
// each mix and one for all of them, a bar for each scheduler. A matrix of one scheduler has none.
// If several matrices have figures, the names of the figures say the node.
func OfMatrices(ms []regress.Matrix) []paper.Figure {
	var out []paper.Figure
	arms := ArmsOf(ms)
	ms = slices.DeleteFunc(slices.Clone(ms), func(m regress.Matrix) bool { return len(m.Rows) < 2 })
	for _, m := range ms {
		for _, f := range OfMatrix(m, arms) {
			if len(ms) > 1 {
				f.ID += "-" + strings.NewReplacer(", ", "-", ":", "-", "/", "-", " ", "-").Replace(m.Place())
			}
			out = append(out, f)
		}
	}
	return out
}

// Arms are arms of several matrices in one order, so that each has one colour wherever it is drawn.
type Arms []results.Arm

// ArmsOf are the arms of matrices, in the order in which they come first. Schedulers that ran alone on their node come
// last.
func ArmsOf(ms []regress.Matrix) Arms {
	var out Arms
	for _, alone := range []bool{false, true} {
		for _, m := range ms {
			for _, row := range m.Rows {
				if (len(m.Rows) == 1) == alone {
					out.Add(row.Arm)
				}
			}
		}
	}
	return out
}

// Add adds an arm behind the others, unless they have it.
func (a *Arms) Add(arm results.Arm) {
	if a.Number(arm) < 0 {
		*a = append(*a, Anywhere(arm))
	}
}

// Number is the place of an arm, by which it has its colour; -1 if it has none.
func (a Arms) Number(arm results.Arm) int { return slices.Index(a, Anywhere(arm)) }

// Anywhere is an arm without its batch: what has one name and one colour.
func Anywhere(arm results.Arm) results.Arm {
	arm.Mix, arm.Jobs, arm.Node, arm.Mode, arm.Traced, arm.Open = "", 0, "", "", false, false
	return arm
}

// OfMatrix are the figures of one matrix, with the colours of arms. It draws the share of crashed jobs only if jobs crashed.
func OfMatrix(m regress.Matrix, arms Arms) []paper.Figure {
	var out []paper.Figure
	for j, metric := range m.Metrics {
		all, label, what := "mean", metric.Name+" over "+m.Base().Name+", ratio", metric.Name+" as a ratio to that under "+m.Base().Name
		bar := func(l regress.Level, _ regress.Count) (*stats.Summary, string) {
			return known(stats.Summary{N: 1, Median: l.Ratio.Value, Low: l.Ratio.Low, High: l.Ratio.High}), l.Ratio.String()
		}
		switch {
		case metric.Counts():
			all, label, what = "all", "Crashed jobs, %", "share of jobs that crashed"
			bar = func(_ regress.Level, c regress.Count) (*stats.Summary, string) {
				if c.CrashRate() == nil {
					return nil, ""
				}
				share := 100 * *c.CrashRate()
				return &stats.Summary{N: 1, Median: share, Low: math.Inf(-1), High: math.Inf(1)}, fmt.Sprintf("%.1f %%, %d of %d", share, c.Crashed, c.Jobs)
			}
		case metric.Absolute:
			label, what = metric.Name+", %", metric.Name
			bar = func(l regress.Level, _ regress.Count) (*stats.Summary, string) {
				return known(stats.Summary{N: 1, Median: 100 * l.Median, Low: 100 * l.Low, High: 100 * l.High}), fmt.Sprintf("%.1f %%", 100*l.Median)
			}
		}
		b := &paper.Bars{XLabel: "Mix", YLabel: strings.ToUpper(label[:1]) + label[1:]}
		for _, batch := range m.Mixes {
			b.Groups = append(b.Groups, m.Names.Mix(batch))
		}
		if len(m.Mixes) > 1 {
			b.Groups = append(b.Groups, all)
		}
		crashed := 0
		for _, s := range m.Rows {
			crashed += s.Crashed
			bars := paper.Series{Name: s.Name, Arm: arms.Number(s.Arm)}
			add := func(l regress.Level, c regress.Count) {
				value, text := bar(l, c)
				bars.Bars, bars.Texts, bars.LostMore = append(bars.Bars, value), append(bars.Texts, text), append(bars.LostMore, l.LostMore)
			}
			for _, c := range s.Cells {
				add(c.Levels[j], c.Count)
			}
			if len(m.Mixes) > 1 {
				add(s.Over[j], s.Count)
			}
			b.Series = append(b.Series, bars)
		}
		if metric.Counts() && crashed == 0 {
			continue
		}
		title := "measured on " + m.Place()
		if m.Simulated() {
			title = "SIMULATED on " + m.Place()
		}
		caption := fmt.Sprintf("%s, %s. Error bars: %g %% confidence intervals.", what, title, 100*(1-m.Alpha)) + b.Crosses()
		out = append(out, paper.Figure{ID: metric.Name, Title: title, Bars: b, Caption: caption, Simulated: m.Simulated()})
	}
	return out
}

// known is nil for a figure that is not.
func known(s stats.Summary) *stats.Summary {
	if math.IsNaN(s.Median) || math.IsInf(s.Median, 0) {
		return nil
	}
	return &s
}
