package policies_test

import (
	"strconv"
	"strings"
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
	"plan":      {MemoryHard: true}, // without a plan; package engine tests what it does with one
	"zero":      {},
}

// bounds says what each registered Preempter promises instead.
var bounds = map[string]func(policies.Scheduler) schedtest.Bound{
	"demand": func(policies.Scheduler) schedtest.Bound { return schedtest.Bound{} },
	"vgpu": func(s policies.Scheduler) schedtest.Bound {
		values := map[string]string{}
		for item := range strings.SplitSeq(s.Parameters(), ",") {
			key, value, _ := strings.Cut(item, "=")
			values[key] = value
		}
		slots, _ := strconv.Atoi(values["n"])
		return schedtest.Bound{Slots: slots, OneVictim: values["victims"] == "1"}
	},
}

func TestInvariants(t *testing.T) {
	for _, info := range policies.All() {
		rules, ok := promises[info.Name]
		bound, preempts := bounds[info.Name]
		if info.Revokes != preempts || ok == preempts {
			t.Errorf("scheduler %s is registered without its promises", info.Name)
			continue
		}
		for _, queue := range queuesOf(info) {
			name := info.Name
			if queue != "" {
				name += "/" + string(queue)
			}
			t.Run(name, func(t *testing.T) {
				if preempts {
					schedtest.CheckPreempter(t, info, queue, bound)
				} else {
					schedtest.Check(t, info, queue, rules)
				}
			})
		}
	}
}

// queuesOf returns the scheduler's queue orders; "" if it does not have the parameter.
func queuesOf(info policies.Info) []engine.Order {
	for _, p := range info.Params {
		if p.Name == "queue" {
			return []engine.Order{engine.FIFO, engine.FirstFit, engine.LargestFirst, engine.PriorityFIFO, engine.PriorityFirstFit}
		}
	}
	return []engine.Order{""}
}
