package policies_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// promises says what each registered scheduler promises. A scheduler that is
// missing here fails the test.
var promises = map[string]schedtest.Rules{
	"sa":        {OneJobPerDevice: true},
	"cg":        {},
	"schedgpu":  {MemoryHard: true},
	"case-alg2": {MemoryHard: true, TracksSMs: true},
	"case-alg3": {MemoryHard: true},
	"zero":      {},
}

func TestInvariants(t *testing.T) {
	orders := []engine.Order{engine.FIFO, engine.FirstFit, engine.LargestFirst,
		engine.PriorityFIFO, engine.PriorityFirstFit}
	for _, info := range policies.All() {
		rules, ok := promises[info.Name]
		if !ok {
			t.Errorf("scheduler %s is registered without its promises", info.Name)
			continue
		}
		queues := []engine.Order{""}
		for _, p := range info.Params {
			if p.Name == "queue" {
				queues = orders
			}
		}
		for _, queue := range queues {
			name := info.Name
			if queue != "" {
				name += "/" + string(queue)
			}
			t.Run(name, func(t *testing.T) { schedtest.Check(t, info, queue, rules) })
		}
	}
}
