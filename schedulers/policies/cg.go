package policies

import "github.com/caserun/caserun/schedulers"

// coreToGPU runs a fixed number of jobs on the node at once and spreads them
// round robin. Each device takes its share of the workers (CASE, section 5.1). It has no
// knowledge of memory, so it can crash jobs.
type coreToGPU struct {
	MemoryBlind
	IgnoresSMs
	workers int
}

var cg = entry{
	Info: Info{Name: "cg", Binds: BindsJob, Shares: true,
		Brief:  "a fixed number of jobs at once, round robin; blind to memory, so jobs can crash",
		Rule:   "a fixed number of jobs at once, spread round robin; blind to memory, so it can crash jobs",
		Source: casePaper + ", section 5.1, core-to-GPU",
		Params: []Param{paramWorkers, omitDefault(paramManaged), paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		n, err := s.number("workers", 0)
		return coreToGPU{workers: n}, err
	},
}

func (p coreToGPU) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	running := 0
	for i := range v.Len() {
		running += v.Device(i).Jobs()
	}
	if running >= p.workers {
		return schedulers.Placement{}, false
	}
	share := (p.workers + v.Len() - 1) / v.Len()
	return RoundRobin(v, func(d schedulers.DeviceView) bool { return d.Jobs() < share && d.Open(t) })
}
