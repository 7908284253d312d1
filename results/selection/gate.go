package selection

import (
	"context"
	"fmt"

	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
)

// Gated says what a gate compares.
type Gated struct {
	Baseline, Candidate string // as Select takes them, and a baseline also as Rolling does
	Doubted             bool
	Limits              []regress.Limit
	Alpha               float64
}

// Sides finds the sides of a gate. Only the candidate may be without runs, and only beside a baseline that is named. missing makes
// the error of another side that no run matches from the side's flag and text.
func (g Gated) Sides(ctx context.Context, db *store.Store, missing func(flag, text string) error) (baseline, candidate regress.Side, err error) {
	rolls := IsRolling(g.Baseline)
	if !rolls {
		if baseline, err = Select(ctx, db, g.Baseline); err == nil && len(baseline.Runs) == 0 {
			err = missing("--baseline", g.Baseline)
		}
		if err != nil {
			return baseline, candidate, err
		}
	}
	if candidate, err = Select(ctx, db, g.Candidate); err != nil {
		return baseline, candidate, err
	}
	baseline.Doubted, candidate.Doubted = g.Doubted, g.Doubted
	switch {
	case rolls && len(candidate.Runs) == 0:
		return baseline, candidate, missing("--candidate", g.Candidate)
	case rolls:
		baseline, err = Rolling(ctx, db, g.Baseline, candidate, g.Limits, g.Alpha)
		return baseline, candidate, err
	}
	if baseline, candidate, err = regress.Apart(baseline, candidate); err != nil {
		return baseline, candidate, fmt.Errorf("regress: %w", err)
	}
	return baseline, candidate, nil
}
