package html

import (
	"fmt"
	"math"

	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
)

// tile is a metric of the best scheduler and of the base.
type tile struct {
	Name  string
	Ratio string // "2.44×"; empty: there is none
	Small string // its interval
	Arrow string
	Word  string // what the ratio is for the best
	Lines []tileLine
}

type tileLine struct {
	Arm  armName
	Text string
	Base bool
}

// tiles show the first metrics and the crashed jobs of the best scheduler beside the base, or of a scheduler that is
// alone.
func tiles(s standing, a *arms) []tile {
	rows := []int{s.best, s.other}
	if s.best < 0 || s.other < 0 {
		if len(s.m.Rows) > 1 {
			return nil
		}
		rows = []int{0}
	}
	if len(s.m.Mixes) == 0 {
		return nil
	}
	compared := rows[0] // the one that is not the base
	if compared == 0 && len(rows) > 1 {
		compared = rows[1]
	}
	var out []tile
	for _, of := range shownMetrics(s.m.Of.Open)[:judged] {
		at := s.m.IndexOf(of)
		if at < 0 {
			continue
		}
		t := tile{Name: of.Title()}
		if r := s.level(compared, at).Ratio; len(rows) > 1 && !math.IsNaN(r.Value) {
			t.Ratio, t.Small = regress.RatioText(r.Value)+"×", report.Brackets(r.Interval())
			t.Arrow, t.Word = judge(r, of.HigherIsBetter)
		}
		for _, row := range rows {
			t.add(s, row, report.Human(s.level(row, at).Median, report.MetricUnit(of)), a)
		}
		out = append(out, t)
	}
	return append(out, crashTile(s, rows, a))
}

func (t *tile) add(s standing, row int, text string, a *arms) {
	t.Lines = append(t.Lines, tileLine{a.names[a.order.Number(s.m.Rows[row].Arm)], text, s.m.Rows[row].Base && len(s.m.Rows) > 1})
}

func crashTile(s standing, rows []int, a *arms) tile {
	t := tile{Name: "Crashed jobs"}
	for _, row := range rows {
		c := s.m.Rows[row].Count
		t.add(s, row, fmt.Sprintf("%d of %d", c.Crashed, c.Jobs), a)
	}
	x, y := s.m.Rows[rows[0]].CrashRate(), s.m.Rows[rows[len(rows)-1]].CrashRate()
	if x == nil || y == nil || len(rows) == 1 {
		return t
	}
	t.Ratio, t.Arrow, t.Word = report.Human(*x, report.Ratio), "=", string(stats.Same)
	switch {
	case *x > *y:
		t.Arrow, t.Word = "▲", string(stats.Worse)
	case *x < *y:
		t.Arrow, t.Word = "▼", string(stats.Better)
	}
	if *x != *y {
		t.Small = fmt.Sprintf("(%+.1f points)", 100*(*x-*y))
	}
	return t
}
