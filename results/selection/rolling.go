package selection

import (
	"context"
	"errors"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/results/trend"
)

// RollingHelp says what a baseline may be beside a side of a comparison.
const RollingHelp = `  rolling:14          as a baseline: the last 14 nights before the candidate
                      that passed the gate; rolling:14@v1.5 begins at v1.5`

// maxRolling is the largest number of nights of a rolling baseline, each of which is judged.
const maxRolling = 90

const rolling = "rolling:"

// IsRolling reports whether a baseline is the last nights that passed.
func IsRolling(text string) bool { return strings.HasPrefix(input.Name(text), rolling) }

// ParseRolling reads rolling:N, or rolling:N@RUNS.
func ParseRolling(text string) (nights int, from string, err error) {
	number, from, begins := strings.Cut(strings.TrimPrefix(input.Name(text), rolling), "@")
	n, err := input.Int64(number)
	if err != nil || n < trend.MinNights || n > maxRolling || begins && from == "" {
		return 0, "", Refuse("%q: want rolling:N with %d to %d nights, such as rolling:14, or rolling:14@RUNS for none before those runs; a tag of that name is tag:%[1]s",
			text, trend.MinNights, maxRolling)
	}
	return int(n), from, nil
}

// Rolling finds the last nights before the candidate that passed the gate with the limits.
func Rolling(ctx context.Context, db *store.Store, text string, candidate regress.Side, limits []regress.Limit, alpha float64) (regress.Side, error) {
	nights, from, err := ParseRolling(text)
	if err != nil {
		return regress.Side{}, err
	}
	r := trend.Rolling{Name: input.Name(text), Nights: nights, Limits: limits, Alpha: alpha}
	if from != "" {
		begin, err := Select(ctx, db, from)
		if err != nil {
			return begin, err
		}
		if len(begin.Runs) == 0 {
			return begin, Refuse("--baseline %s: %s", text, WhyEmpty(ctx, db, from, db.Path()))
		}
		r.From = begin.Runs[0].ID
	}
	runs, err := Observations(ctx, db, store.Filter{})
	if err != nil {
		return regress.Side{}, err
	}
	notes, err := LeftOut(ctx, db, store.Filter{})
	if err != nil {
		return regress.Side{}, err
	}
	side, err := r.Baseline(candidate, runs)
	for _, note := range notes {
		side.Notes = append(side.Notes, side.Label+": "+note)
	}
	if errors.Is(err, trend.ErrTooFewNights) {
		return side, Nothing("--baseline %s: %v: until then, name a night as the baseline, such as --baseline TAG", text, err)
	}
	return side, err
}
