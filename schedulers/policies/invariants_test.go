package policies_test

import (
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

func TestInvariants(t *testing.T) {
	for _, info := range enginetest.Policies() {
		rules, ok := schedtest.Promises[info.Name]
		bound, preempts := schedtest.Bounds[info.Name]
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
					chance.Check(t, schedtest.Registered(info).Preempting(queue, bound))
				} else {
					chance.Check(t, schedtest.Registered(info).Workload(queue, rules))
				}
			})
		}
	}
}

// Processes that stop and lie, limits, and devices that come and go break no rule of the schedulers that take back.
func TestInvariantsAmongLiars(t *testing.T) {
	for _, info := range enginetest.Policies() {
		for _, queue := range queuesOf(info) {
			if bound, preempts := schedtest.Bounds[info.Name]; preempts {
				t.Run(info.Name+"/"+string(queue), func(t *testing.T) {
					chance.CheckTimes(t, 40, 1000, schedtest.Registered(info).Lying(queue, bound))
				})
			}
		}
	}
}

// What decides where nothing is planned keeps to the same rules.
func TestInvariantsWithoutAPlan(t *testing.T) {
	info := enginetest.Policies()[slices.IndexFunc(enginetest.Policies(), func(i policies.Info) bool { return i.Name == "plan" })]
	unplanned := schedtest.Subject{Info: info, Settle: func(parameters string, devices int) (policies.Scheduler, error) {
		s, err := policies.Parse(policies.With(info.Name, parameters), devices)
		if err == nil {
			s.Policy = s.Plans.Unplanned
		}
		return s, err
	}}
	for _, queue := range queuesOf(info) {
		t.Run(string(queue), func(t *testing.T) { chance.Check(t, unplanned.Workload(queue, schedtest.Promises[info.Name])) })
	}
}

// queuesOf returns the scheduler's queue orders; "" if it does not have the parameter. An order is the engine's, so one policy
// of each kind is enough for those that differ in what they compare alone, outside the soak.
func queuesOf(info policies.Info) []engine.Order {
	orders := info.Orders()
	switch {
	case orders == nil:
		return []engine.Order{""}
	case chance.Seed() != 0:
		return orders
	}
	return slices.DeleteFunc(orders, func(o engine.Order) bool {
		switch info.Name {
		case "case-alg3", "vgpu":
			return false
		case "sa":
			return !o.Admits() && o != engine.FIFO
		}
		return o.Admits()
	})
}
