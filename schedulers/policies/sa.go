package policies

import "github.com/caserun/caserun/schedulers"

// singleAssignment gives each job the first free device, alone, for the job's lifetime (CASE,
// section 5.1; the rule of Slurm and Kubernetes).
type singleAssignment struct {
	MemoryBlind
	IgnoresSMs
}

var sa = entry{
	Info: Info{Name: "sa", Binds: BindsJob,
		Brief:  "one job per device, in the order of arrival",
		Rule:   "first free device; one job per device for its lifetime; arrival order",
		Source: casePaper + ", section 5.1, single assignment",
		Params: turns},
	policy: func(settings) (schedulers.Policy, error) { return singleAssignment{}, nil },
}

func (singleAssignment) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for i := range v.Len() {
		if d := v.Device(i); d.Jobs() == 0 && d.Open(t) {
			return schedulers.Placement{Device: i}, true
		}
	}
	return schedulers.Placement{}, false
}
