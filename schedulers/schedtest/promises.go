package schedtest

import (
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/schedulers/policies"
)

// Promises says what each registered scheduler promises. A scheduler that is missing here and in
// Bounds fails a test of package policies.
var Promises = map[string]Rules{
	"sa":        {OneJobPerDevice: true},
	"cg":        {},
	"schedgpu":  {MemoryHard: true},
	"case-alg2": {MemoryHard: true, tracksSMs: true},
	"case-alg3": {MemoryHard: true},
	"plan":      {MemoryHard: true}, // without a plan; package engine tests what it does with one
	"zero":      {},
}

// Bounds says what each registered Preempter promises instead.
var Bounds = map[string]func(policies.Scheduler) Bound{
	"demand":  func(policies.Scheduler) Bound { return Bound{} },
	"mfit":    func(policies.Scheduler) Bound { return Bound{} },
	"amfit":   func(policies.Scheduler) Bound { return Bound{} },
	"madvise": func(policies.Scheduler) Bound { return Bound{advises: true} },
	"quantum": func(s policies.Scheduler) Bound { return Bound{slots: 1, idle: idleOf(s)} },
	"vgpu":    slotsOf,
	"vgpu-preempt": func(s policies.Scheduler) Bound {
		b := slotsOf(s)
		b.idle = idleOf(s)
		return b
	},
}

func idleOf(s policies.Scheduler) time.Duration {
	idle, _ := time.ParseDuration(valuesOf(s)["idle"])
	return idle
}

func slotsOf(s policies.Scheduler) Bound {
	values := valuesOf(s)
	slots, _ := strconv.Atoi(values["n"])
	return Bound{slots: slots, oneVictim: values["victims"] == "1", moves: true, balances: values["balance"] == "on"}
}

func valuesOf(s policies.Scheduler) map[string]string {
	values := map[string]string{}
	for item := range strings.SplitSeq(s.Parameters(), ",") {
		key, value, _ := strings.Cut(item, "=")
		values[key] = value
	}
	return values
}
