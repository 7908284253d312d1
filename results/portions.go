package results

import (
	"cmp"
	"fmt"
	"slices"
)

// OfPortions is the record of a job whose portions (mixes.Job.Portions) have these records, in their order. job is its record before
// anything has happened to it.
func OfPortions(job Job, portions []Job) Job {
	ended := true
	var last *float64
	var devices []int
	for i := range portions {
		p := &portions[i]
		job.ArrivalS, job.FootprintBytes = p.ArrivalS, p.FootprintBytes
		if p.StartS != nil && (job.StartS == nil || *p.StartS < *job.StartS) {
			job.StartS, job.WaitS, job.Device = p.StartS, p.WaitS, p.Device
		}
		if p.Device != nil {
			devices = append(devices, *p.Device)
		}
		last = most(last, p.EndS)
		job.UserS, job.SysS, job.LostS, job.Restarts = plus(job.UserS, p.UserS), plus(job.SysS, p.SysS), plus(job.LostS, p.LostS), plus(job.Restarts, p.Restarts)
		job.MaxRSSBytes, job.UsedBytes, job.UnaccountedBytes = most(job.MaxRSSBytes, p.MaxRSSBytes), most(job.UsedBytes, p.UsedBytes), most(job.UnaccountedBytes, p.UnaccountedBytes)
		ended = ended && p.Outcome != nil
	}
	slices.Sort(devices)
	job.Devices = DeviceList(slices.Compact(devices))
	if !ended {
		return job
	}
	decides := slices.MinFunc(portions, worse)
	job.EndS, job.Outcome, job.ExitStatus, job.Signal = last, decides.Outcome, decides.ExitStatus, decides.Signal
	job.Detail, job.StderrTail, job.Suspects = decides.Detail, decides.StderrTail, decides.Suspects
	if n := slices.IndexFunc(portions, func(p Job) bool { return p.Index == decides.Index }); job.Detail != "" {
		job.Detail = fmt.Sprintf("portion %d: %s", n, job.Detail)
	}
	return job
}

// worse orders portions that have ended: the first one settles the outcome of their job. Of several that failed it is the one that
// ended first, because the others may have ended for it.
func worse(a, b Job) int {
	kind := func(j Job) int {
		switch o := *j.Outcome; {
		case o == NotStarted:
			return 0
		case o.Crashed():
			return 1
		case o == Cancelled:
			return 2
		case o == OKAfterOOM:
			return 3
		}
		return 4
	}
	end := func(j Job) (none int, s float64) {
		if j.EndS == nil {
			return 1, 0
		}
		return 0, *j.EndS
	}
	noneA, endA := end(a)
	noneB, endB := end(b)
	return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(noneA, noneB), cmp.Compare(endA, endB), cmp.Compare(a.Index, b.Index))
}

// PortionOf is the row of a portion of a job, which has a record as a job has.
func PortionOf(job, portion int, j Job) Rank {
	return Rank{Job: job, Rank: portion, Portion: true, Device: j.Device, PID: j.PID, StartS: j.StartS, EndS: j.EndS, UserS: j.UserS, SysS: j.SysS,
		MaxRSSBytes: j.MaxRSSBytes, Outcome: j.Outcome, ExitStatus: j.ExitStatus, Signal: j.Signal, Detail: j.Detail}
}

// most is the larger value of those that are known.
func most[T cmp.Ordered](a, b *T) *T {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// plus adds values that are known.
func plus[T int | float64](a, b *T) *T {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return new(*a + *b)
}
