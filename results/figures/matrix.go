package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// OfMatrices are the figures of schedulers beside one another: for each metric a group of bars for
// each mix and one for all of them, a bar for each scheduler. A matrix of one scheduler has none.
// If several matrices have figures, the names of the figures say the node.
func OfMatrices(ms []regress.Matrix) []paper.Figure {
	ms = slices.DeleteFunc(slices.Clone(ms), func(m regress.Matrix) bool { return len(m.Rows) < 2 })
	var out []paper.Figure
	for _, m := range ms {
		for _, f := range ofMatrix(m) {
			if len(ms) > 1 {
				f.ID += "-" + strings.NewReplacer(", ", "-", ":", "-", "/", "-").Replace(m.Place())
			}
			out = append(out, f)
		}
	}
	return out
}

// ofMatrix draws the share of crashed jobs only if jobs crashed.
func ofMatrix(m regress.Matrix) []paper.Figure {
	var out []paper.Figure
	for j, metric := range m.Metrics {
		all, label, what := "mean", metric.Name+" over "+m.Base().Name+", ratio", metric.Name+" as a ratio to that under "+m.Base().Name
		bar := func(l regress.Level, _ regress.Count) *stats.Summary {
			return known(stats.Summary{N: 1, Median: l.Ratio.Value, Low: l.Ratio.Low, High: l.Ratio.High})
		}
		switch {
		case metric.Counts():
			all, label, what = "all", "Crashed jobs, %", "share of jobs that crashed"
			bar = func(_ regress.Level, c regress.Count) *stats.Summary {
				if c.CrashRate() == nil {
					return nil
				}
				return &stats.Summary{N: 1, Median: 100 * *c.CrashRate(), Low: math.Inf(-1), High: math.Inf(1)}
			}
		case metric.Absolute:
			label, what = metric.Name+", %", metric.Name
			bar = func(l regress.Level, _ regress.Count) *stats.Summary {
				return known(stats.Summary{N: 1, Median: 100 * l.Median, Low: 100 * l.Low, High: 100 * l.High})
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
			bars := paper.Series{Name: s.Name}
			for _, c := range s.Cells {
				bars.Bars = append(bars.Bars, bar(c.Levels[j], c.Count))
				bars.LostMore = append(bars.LostMore, c.Levels[j].LostMore)
			}
			if len(m.Mixes) > 1 {
				bars.Bars = append(bars.Bars, bar(s.Over[j], s.Count))
				bars.LostMore = append(bars.LostMore, s.Over[j].LostMore)
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
		out = append(out, paper.Figure{ID: metric.Name, Title: title, Bars: b, Caption: caption})
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
