package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results/stats"
)

// agreement says in words, for each system, how far the rows agree that have both numbers. It
// counts and does not judge. apart says why the numbers cannot be compared; empty if they can.
func agreement(t Table, systems []string, apart string) string {
	var sentences []string
	for _, system := range systems {
		stated := 0
		var both []Row
		for _, r := range t.Rows {
			if r.System != system || r.Published == nil {
				continue
			}
			stated++
			if r.Measured != nil {
				both = append(both, r)
			}
		}
		if stated == 0 {
			continue
		}
		if len(both) == 0 {
			sentences = append(sentences, fmt.Sprintf("Beside the paper's %s: not measured in these runs.", system))
			continue
		}
		text := fmt.Sprintf("Beside the paper's %s, %s on %s: ", system, Says(both[0].Mode), both[0].Node)
		if len(both) < stated {
			text += fmt.Sprintf("%d of %d numbers; ", len(both), stated)
		}
		of := func(fractions bool) []Row {
			return slices.DeleteFunc(slices.Clone(both), func(r Row) bool { return (r.Unit == fraction) != fractions })
		}
		switch fractions, others := of(true), of(false); {
		case apart != "":
			text += "not compared: " + apart
		case len(fractions) == 0:
			text += inPercent(others)
		case len(others) == 0:
			text += inPoints(fractions)
		default:
			text += inPercent(others) + " Fractions: " + inPoints(fractions)
		}
		sentences = append(sentences, text)
	}
	return cmp.Or(strings.Join(sentences, " "), "The paper draws these numbers and does not state them.")
}

// inPercent is agreement for numbers whose ratio is meaningful.
func inPercent(rows []Row) string {
	if len(rows) == 1 {
		return fmt.Sprintf("%.2f of the published.", *rows[0].Ratio())
	}
	ratio := func(r Row) float64 { return *r.Ratio() }
	worst := furthest(rows, func(r Row) float64 { return math.Abs(math.Log(ratio(r))) })
	all := within(rows, func(r Row) float64 { return ratio(r) - 1 }, "%.0f %% in %d", 0.10, 0.25, 0.50)
	return fmt.Sprintf("%s; median ratio %.2f; furthest: %s, %.2f of the published.", all, summarize(each(rows, ratio)).Median, worst.label(), ratio(worst))
}

// inPoints is agreement for fractions, which may be 0.
func inPoints(rows []Row) string {
	points := func(r Row) float64 { return *r.Difference() }
	worst := furthest(rows, func(r Row) float64 { return math.Abs(points(r)) })
	all := within(rows, points, "%.0f points in %d", 0.05, 0.10, 0.20)
	return fmt.Sprintf("%s; mean difference %+.1f points; furthest: %s, %+.1f points.", all, stats.Mean(each(rows, points))*100, worst.label(), points(worst)*100)
}

func each(rows []Row, of func(Row) float64) (out []float64) {
	for _, r := range rows {
		out = append(out, of(r))
	}
	return out
}

// within counts the rows that are off by some fractions at most.
func within(rows []Row, off func(Row) float64, format string, most ...float64) string {
	var parts []string
	for _, m := range most {
		n := 0
		for _, v := range each(rows, off) {
			if math.Abs(v) <= m+1e-9 {
				n++
			}
		}
		parts = append(parts, fmt.Sprintf(format, m*100, n))
	}
	return fmt.Sprintf("within %s of %d", strings.Join(parts, ", "), len(rows))
}

// furthest is the first row with the largest distance.
func furthest(rows []Row, far func(Row) float64) Row {
	return slices.MaxFunc(rows, func(a, b Row) int { return cmp.Compare(far(a), far(b)) })
}

// label names a row in a sentence.
func (r Row) label() string {
	return fmt.Sprintf("%s under %s", r.Workload, r.Scheduler)
}
