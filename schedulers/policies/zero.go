package policies

import "github.com/caserun/caserun/schedulers"

// grantAlways grants at once, round robin, so that a run measures only the overhead of asking.
type grantAlways struct {
	MemoryBlind
	IgnoresSMs
}

var zero = entry{
	Info: Info{Name: "zero", Binds: BindsTask, Shares: true, Oversubscribes: true,
		Brief:  "grants at once, round robin; for measuring overhead",
		Rule:   "grants at once, round robin; for measuring overhead",
		Source: "this project"},
	policy: func(settings) (schedulers.Policy, error) { return grantAlways{}, nil },
}

func (grantAlways) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	return RoundRobin(v, func(d schedulers.DeviceView) bool { return d.Open(t) })
}
