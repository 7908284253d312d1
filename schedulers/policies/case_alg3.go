package policies

import "github.com/caserun/caserun/schedulers"

// caseAlg3 is CASE's Algorithm 3 (Alg. 3): memory is a hard constraint, compute a soft one.
// Among the devices where the memory fits it takes the one with the fewest warps in use.
//
// The paper prints MemReq < FreeMem here. In Alg. 2 it prints MemReq > FreeMem for a task that
// does not fit. Both are ≤ in this package: a task that needs exactly the free memory fits.
// With < no task could ever have all of a device.
type caseAlg3 struct {
	MemoryHard
	IgnoresSMs
}

var alg3 = entry{
	Info: Info{Name: "case-alg3", Binds: BindsTask, Shares: true, KnowsShares: true,
		Brief:  "memory hard: where the task fits, the device with the fewest warps in use",
		Rule:   "memory hard, compute soft: among devices with at least the memory free that it needs, the one with the fewest warps in use",
		Source: casePaper + ", section 4, Alg. 3",
		Params: []Param{paramQueue, paramAge, paramWait, paramRoom, paramManaged, paramIsolate,
			omitDefault(withDefault(paramNice, niceOff))}},
	policy: func(s settings) (schedulers.Policy, error) {
		memory, err := s.memory()
		return caseAlg3{MemoryHard: memory}, err
	},
}

func (p caseAlg3) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	var best schedulers.Placement
	var warps uint64 // in use on the best device
	found := false
	for i := range v.Len() {
		d := v.Device(i)
		if !d.Open(t) {
			continue
		}
		at, ok := p.Admits(t, d)
		if !ok {
			continue
		}
		if used := d.UsedWarps(); !found || used < warps {
			best, warps, found = at, used, true
			best.Device = i
		}
	}
	return best, found
}
