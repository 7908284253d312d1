package policies_test

import (
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// The engine decides what an exhaustive one decides, under every registered scheduler and queue
// order.
func TestTheEngineDecidesLikeAnExhaustiveOne(t *testing.T) {
	var arms []arm
	for _, info := range policies.All() {
		for _, queue := range queuesOf(info) {
			arms = append(arms, arm{info, queue})
		}
	}
	for seed := range chance.Seeds(t, 1000, 20_000) {
		a := arms[seed%uint64(len(arms))]
		if err := schedtest.Compare(a.info, a.queue, seed); err != nil {
			t.Fatal(err)
		}
	}
}

type arm struct {
	info  policies.Info
	queue engine.Order
}
