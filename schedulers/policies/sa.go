package policies

import (
	"math"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// singleAssignment gives each job the first free device, alone, for the job's lifetime (CASE,
// section 5.1; the rule of Slurm and Kubernetes).
type singleAssignment struct {
	MemoryBlind
	IgnoresSMs
}

var sa = entry{
	Info: Info{Name: "sa", Binds: BindsJob,
		Brief:  "one job per device, by default in order of arrival",
		Rule:   "first free device; one job per device for its lifetime; by default in order of arrival",
		Source: casePaper + ", section 5.1, single assignment",
		Params: []Param{omitDefault(withDefault(paramQueue, string(engine.FIFO))), omitDefault(withDefault(paramAge, "0")), omitDefault(paramManaged)}},
	policy: func(s settings) (schedulers.Policy, error) {
		if s["queue"] == string(engine.FIFO) {
			return singleAssignment{}, nil
		}
		return measuredAssignment{}, nil
	},
}

func (singleAssignment) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for i := range v.Len() {
		if d := v.Device(i); d.Jobs() == 0 && d.Open(t) {
			return schedulers.Placement{Device: i}, true
		}
	}
	return schedulers.Placement{}, false
}

// measuredAssignment is singleAssignment for orders in which long queues of jobs wait. By arrival, only one does (runner.Batch).
type measuredAssignment struct{ singleAssignment }

var _ schedulers.Measurer = measuredAssignment{}

// Like returns an empty task: all jobs are alike.
func (measuredAssignment) Like(schedulers.Task) schedulers.Task { return schedulers.Task{} }

// Measure says that any job may have a device without one.
func (measuredAssignment) Measure(_ schedulers.Task, v schedulers.View, i int) (fresh, known int64) {
	if v.Device(i).Jobs() > 0 {
		return -1, -1
	}
	return math.MaxInt64, -1
}
