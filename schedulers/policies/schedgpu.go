package policies

import (
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// schedGPU admits a task to its only device if the memory fits (Reaño et al., TPDS 2018,
// section 4). Which waiting client goes next is the queue's order.
type schedGPU struct {
	MemoryHard
	IgnoresSMs
	device int
}

var schedgpu = entry{
	Info: Info{Name: "schedgpu", Binds: BindsTask, Shares: true, KnowsShares: true,
		Brief:  "one device; a task is admitted when its memory fits",
		Rule:   "one device; admitted when the memory fits; the queue order is schedGPU's notification policy",
		Source: "Reaño et al., Intra-Node Memory Safe GPU Co-Scheduling (TPDS 2018), sections 4 and 5",
		Params: []Param{withDefault(paramQueue, string(engine.FirstFit)), withDefault(paramAge, "0"), paramWait, paramRoom, paramManaged, paramDevice, paramArch, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		n, err := s.number("device", 0)
		if err != nil {
			return nil, err
		}
		memory, err := s.memory()
		return schedGPU{MemoryHard: memory, device: n}, err
	},
}

var _ schedulers.Measurer = schedGPU{}

func (p schedGPU) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	if p.device >= v.Len() {
		return schedulers.Placement{}, false
	}
	d := v.Device(p.device)
	at, ok := p.Admits(t, d)
	at.Device = p.device
	return at, ok && d.Open(t)
}

func (p schedGPU) Measure(t schedulers.Task, v schedulers.View, i int) (fresh, known int64) {
	if i != p.device {
		return -1, -1
	}
	return p.MemoryHard.Measure(t, v, i)
}
