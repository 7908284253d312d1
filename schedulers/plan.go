package schedulers

import (
	"maps"
	"slices"
	"time"
)

// Prediction is what a job is expected to do on a device of the node, by what the same command did
// before.
type Prediction struct {
	Before time.Duration // from its start to its first request
	Held   time.Duration // while it has a device: from each grant to the release, all tasks together
	After  time.Duration // from its last release to its exit
	Bytes  int64         // the most that its tasks had at one time
	// Kernels is the part of Held in which kernels run, from 0 to 1, and SMs the part of the
	// device's SMs that they fill in the mean. Both are 0 where no kernels were seen.
	Kernels, SMs float64
}

// Plan says in which order jobs get each device. A device waits for the first of its jobs, so nobody
// passes it.
type Plan struct {
	Devices [][]Planned // by device; nil: there is no plan, and the policy alone decides
	// Most is the most memory that jobs are expected to have at one time, in bytes. A job goes to a device with others only if
	// they and it have the room to grow to that.
	Most map[JobID]int64
	// Latest is when the last job of the batch should end at the latest; 0: nobody knows.
	Latest time.Duration
}

// Clone returns a plan that shares nothing with p.
func (p Plan) Clone() Plan {
	p.Devices = slices.Clone(p.Devices)
	for d, jobs := range p.Devices {
		p.Devices[d] = slices.Clone(jobs)
	}
	p.Most = maps.Clone(p.Most)
	return p
}

// Planned is a job's place in a Plan.
type Planned struct {
	Job JobID
	// Until is how long the device waits for the job's request. A job that has not asked by then is
	// passed until the next plan.
	Until time.Duration
}
