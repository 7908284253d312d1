package html

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
)

// standing says which schedulers of a matrix are to be shown first.
type standing struct {
	m      regress.Matrix
	metric int // the headline's in the matrix; -1: it has none
	best   int // row; -1: none can be called so
	other  int // row to which it is compared: the base, or if that is the best the next; -1: there is none
	next   int // row behind the best that is not the base; -1: there is none
}

// stand finds the row with the best headline that is comparable.
func stand(m regress.Matrix) standing {
	s := standing{m: m, best: -1, other: -1, next: -1}
	s.metric = m.IndexOf(results.Headline(m.Of.Open))
	if s.metric < 0 || len(m.Rows) < 2 {
		return s
	}
	order := m.Ranked(s.metric, regress.Overall)
	if len(order) == 0 || order[0] == 0 && s.contested() {
		return s
	}
	s.best = order[0]
	for _, i := range order[1:] {
		if i != 0 && s.next < 0 {
			s.next = i
		}
	}
	if s.other = 0; s.best == 0 {
		s.other = s.next
	}
	return s
}

// contested reports whether the base lost significantly more jobs than a scheduler that seems worse.
func (s standing) contested() bool {
	return slices.ContainsFunc(s.m.Rows, func(row regress.Standing) bool {
		l := row.Over[s.metric]
		return l.LostMore && (l.Ratio.Value < 1) == s.m.Metrics[s.metric].HigherIsBetter
	})
}

// level is a metric of a row: of the mix if there is one alone, else over all mixes.
func (s standing) level(row, metric int) regress.Level {
	if len(s.m.Mixes) == 1 {
		return s.m.Rows[row].Cells[0].Levels[metric]
	}
	return s.m.Rows[row].Over[metric]
}

func (s standing) name(row int) string { return line(s.m.Rows[row].Name) }

// says is the result in a sentence, and what else a reader must know of it.
func (s standing) says() (result string, beside []string) {
	if len(s.m.Rows) == 1 {
		return line(s.m.Rows[0].Name) + " alone", nil
	}
	what := inWords(results.Headline(s.m.Of.Open))
	if s.metric < 0 {
		return "Nothing to compare: no run has a " + what, nil
	}
	base, over := s.name(0), ""
	if n := len(s.m.Mixes); n > 1 {
		over = fmt.Sprintf(" over %d mixes", n)
	} else if n == 1 {
		over = " on " + line(s.m.Names.Mix(s.m.Mixes[0]))
	}
	ratio := func(row int) string { return s.level(row, s.metric).Ratio.String() }
	switch {
	case s.best < 0:
		result = "No scheduler can be called best: figures are not comparable, because jobs crashed"
	case s.best == 0 && s.other < 0:
		result = fmt.Sprintf("%s, the base, is the only scheduler whose figures are comparable", base)
	case s.best == 0:
		result = fmt.Sprintf("%s, the base, is best%s", base, over)
		beside = append(beside, fmt.Sprintf("Next is %s, with %s its %s", s.name(s.next), ratio(s.next), what))
	default:
		verb := "is best"
		if _, word := judge(s.level(s.best, s.metric).Ratio, s.m.Metrics[s.metric].HigherIsBetter); word != string(stats.Better) {
			verb = "is ahead, perhaps by chance"
		}
		result = fmt.Sprintf("%s %s: %s the %s of %s%s", s.name(s.best), verb, ratio(s.best), what, base, over)
		if s.next > 0 {
			beside = append(beside, fmt.Sprintf("Next is %s, with %s", s.name(s.next), ratio(s.next)))
		}
	}
	var lost []string
	for i, row := range s.m.Rows {
		if s.level(i, s.metric).LostMore {
			lost = append(lost, fmt.Sprintf("%s (%s crashed)", line(row.Name), report.Human(*row.CrashRate(), report.Ratio)))
		}
	}
	if len(lost) > 0 {
		beside = append(beside, fmt.Sprintf("Not comparable with %s, because one of the two lost more jobs: %s", base, strings.Join(lost, ", ")))
	}
	return result, beside
}

// judge is what a ratio is for a reader: its direction, and whether its interval shows that it is good. Unlike verdicts, it
// does not correct for the number of comparisons; captions say which of the two a table has.
func judge(r regress.Ratio, higherIsBetter bool) (arrow, word string) {
	const least = stats.DefaultMinEffect
	arrow = arrowOf(r.Value)
	switch {
	case !r.Bounded():
		return arrow, string(stats.Inconclusive)
	case r.Low > 1-least && r.High < 1+least:
		return arrow, string(stats.Same)
	case r.Low > 1 && r.Value >= 1+least, r.High < 1 && r.Value <= 1-least:
		if r.Value > 1 == higherIsBetter {
			return arrow, string(stats.Better)
		}
		return arrow, string(stats.Worse)
	}
	return arrow, string(stats.Inconclusive)
}

// arrowOf shows whether a ratio is of a larger or of a smaller number.
func arrowOf(ratio float64) string {
	switch text := regress.RatioText(ratio); {
	case text == "1.00":
		return "="
	case ratio > 1:
		return "▲"
	}
	return "▼"
}
