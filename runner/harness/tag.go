package harness

import (
	"context"
	"fmt"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// CheckTag refuses a tag under which the store has live runs if the next run is simulated, and
// the other way round: who reads runs by their tag would take one for the other.
func CheckTag(ctx context.Context, db *store.Store, tag string, mode results.Mode) error {
	if tag == "" {
		return nil
	}
	runs, err := db.Modes(ctx, store.Filter{Tag: tag, Warmups: true, Excluded: true})
	if err != nil {
		return err
	}
	sweeps, err := db.Sweeps(ctx) // one that has only been planned has no run yet
	if err != nil {
		return err
	}
	mixed := false
	for _, other := range runs {
		mixed = mixed || other != mode
	}
	for _, w := range sweeps {
		mixed = mixed || w.Tag == tag && w.Mode != mode
	}
	if !mixed {
		return nil
	}
	has, next := "live", "SIMULATED"
	if mode == results.Live {
		has, next = next, has
	}
	return Refuse(fmt.Errorf("tag %s: it has %s runs, and the next are %s: give another --tag, or add --allow-simulated to keep both under one", tag, has, next))
}
