package policies

import "github.com/caserun/caserun/schedulers"

// pageFit is best-fit bin packing by memory: among the devices where the task fits, it
// takes the one with the least memory left.
type pageFit struct {
	MemoryHard // admits tasks and growth only where the memory is free
	IgnoresSMs // places no blocks on SMs
}

var pageFitEntry = entry{
	Info: Info{Name: "page-fit", Binds: BindsTask, Shares: true,
		Brief:  "memory hard: where the task fits, the fullest device",
		Rule:   "memory hard: among the devices where it fits, the one with the least memory left",
		Source: "this page",
		Params: []Param{paramQueue, paramAge, paramWait, paramRoom, paramManaged, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		memory, err := s.memory()
		return pageFit{MemoryHard: memory}, err
	},
}

func (p pageFit) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	var best schedulers.Placement
	var least int64 // bytes free on the best device
	found := false
	for i := range v.Len() {
		d := v.Device(i)
		at, fits := p.Admits(t, d)
		if !fits || !d.Open(t) {
			continue
		}
		if free := d.FreeBytes(); !found || free < least {
			at.Device = i
			best, least, found = at, free, true
		}
	}
	return best, found
}
