package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
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
		if len(both) == 0 {
			sentences = append(sentences, fmt.Sprintf("Beside the paper's %s: not measured in these runs.", system))
			continue
		}
		how := "measured"
		if both[0].Mode == results.Simulated {
			how = "SIMULATED"
		}
		text := fmt.Sprintf("Beside the paper's %s, %s on %s: ", system, how, both[0].Node)
		if len(both) < stated {
			text += fmt.Sprintf("%d of %d numbers; ", len(both), stated)
		}
		fractions := slices.DeleteFunc(slices.Clone(both), func(r Row) bool { return r.Unit != fraction })
		others := slices.DeleteFunc(slices.Clone(both), func(r Row) bool { return r.Unit == fraction })
		switch {
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
	return strings.Join(sentences, " ")
}

// inPercent is agreement for numbers whose ratio is meaningful.
func inPercent(rows []Row) string {
	if len(rows) == 1 {
		return fmt.Sprintf("%.2f of the published.", *rows[0].Ratio())
	}
	var parts []string
	var all []float64
	worst := rows[0]
	for _, r := range rows {
		all = append(all, *r.Ratio())
		if math.Abs(math.Log(*r.Ratio())) > math.Abs(math.Log(*worst.Ratio())) {
			worst = r
		}
	}
	for _, within := range []float64{0.10, 0.25, 0.50} {
		n := 0
		for _, v := range all {
			if math.Abs(v-1) <= within+1e-9 {
				n++
			}
		}
		parts = append(parts, fmt.Sprintf("%.0f %% in %d", within*100, n))
	}
	return fmt.Sprintf("within %s of %d; median ratio %.2f; furthest: %s, %.2f of the published.", strings.Join(parts, ", "), len(rows),
		summarize(all).Median, worst.label(), *worst.Ratio())
}

// inPoints is agreement for fractions, which may be 0.
func inPoints(rows []Row) string {
	var parts []string
	sum, worst := 0.0, rows[0]
	for _, r := range rows {
		sum += *r.Difference()
		if math.Abs(*r.Difference()) > math.Abs(*worst.Difference()) {
			worst = r
		}
	}
	for _, within := range []float64{0.05, 0.10, 0.20} {
		n := 0
		for _, r := range rows {
			if math.Abs(*r.Difference()) <= within+1e-9 {
				n++
			}
		}
		parts = append(parts, fmt.Sprintf("%.0f points in %d", within*100, n))
	}
	return fmt.Sprintf("within %s of %d; mean difference %+.1f points; furthest: %s, %+.1f points.", strings.Join(parts, ", "), len(rows),
		sum/float64(len(rows))*100, worst.label(), *worst.Difference()*100)
}

// label names a row in a sentence.
func (r Row) label() string {
	return fmt.Sprintf("%s under %s", r.Workload, r.Scheduler)
}
