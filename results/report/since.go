package report

import (
	"fmt"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results/regress"
)

// sinceText is "fails since nightly-11-12, 12 nights: between nightly-11-11 and nightly-11-12, revisions 1a2b3c4d5..6f7a8b9c0".
func sinceText(s regress.Since) string {
	text := fmt.Sprintf("fails since %s, %s: between %s and %s, revisions %s", s.First, size.Count(s.Nights, "night"), s.After, s.By, revisionRange(s.Revisions[0], s.Revisions[1]))
	if !s.Step {
		text += "; not yet a step of the trend"
	}
	return text
}

// sinceNotes say since when the checks of a gate fail: a line for each beginning, with its checks.
func sinceNotes(r regress.Report) (notes []string) {
	const shown = 4
	checks := map[string][]string{}
	var order []string
	for _, c := range r.Checks {
		if c.Since == nil {
			continue
		}
		text := sinceText(*c.Since)
		if checks[text] == nil {
			order = append(order, text)
		}
		checks[text] = append(checks[text], fmt.Sprintf("%s %s %s", r.Names.Mix(c.Arm), schedulerOf(c.Arm, r.Names), c.Limit.Metric.Name))
	}
	for _, text := range order {
		notes = append(notes, fmt.Sprintf("%s: %s", strings.ToUpper(text[:1])+text[1:], size.Few(checks[text], shown, "; ")))
	}
	return notes
}

// sinceCells are the cells of data of when a check began to fail.
func sinceCells(s *regress.Since) []any {
	if s == nil {
		return make([]any, 6)
	}
	return []any{s.First, s.Nights, s.After, s.By, s.Revisions[0], s.Revisions[1]}
}
