package runner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/results"
)

// outcome says how a job ended. What the probe reported goes before the exit
// status: programs that do not check CUDA calls exit 0 after an error.
func (j *job) outcome(e Exit) (results.Outcome, string) {
	switch {
	case j.stopped:
		return results.Cancelled, "stopped with the run"
	case j.timedOut:
		return results.Timeout, "it ran longer than its limit"
	case e.Err != nil:
		return results.Crash, e.Err.Error()
	case j.oom != "":
		return results.OOM, j.oom
	case j.fault != nil:
		return results.Fault, j.fault.detail
	case j.refused != "":
		return results.Refused, j.refused
	case e.Signal != nil:
		return results.Crash, "ended by " + *e.Signal
	case e.Wrong:
		return results.Wrong, "its output check failed"
	case e.Status != nil && *e.Status != 0:
		return results.Crash, fmt.Sprintf("exit status %d", *e.Status)
	}
	return results.OK, ""
}

// trouble is a job's first fault or unnatural death.
type trouble struct {
	job int
	at  time.Duration
}

// attributeFaults tells culprits from collateral. Under MPS the clients of a
// device share one server, and a fault of one, or the death of one with work
// outstanding, shows in its neighbours as an error of their own (seen on H200:
// kill -9 in mid-kernel gave three neighbours error 700). A job with a fault is
// collateral when an earlier fault or unnatural death happened on its device
// while it was there, or before it came and the server was not seen healthy in
// between. The earliest is the culprit. One that the server turned away is no
// culprit: another has broken it, on whatever device.
func (b *Batch) attributeFaults() {
	if !b.config.MPS {
		return
	}
	var troubles []trouble
	for i, j := range b.jobs {
		if at, ok := j.trouble(); ok {
			troubles = append(troubles, trouble{i, at})
		}
	}
	slices.SortFunc(troubles, func(a, b trouble) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job, b.job))
	})
	for k, victim := range troubles {
		j := b.jobs[victim.job]
		if j.fault == nil || j.record.Outcome == nil || *j.record.Outcome != results.Fault {
			continue
		}
		if j.fault.turnedAway {
			if culprit := b.brokeServer(troubles, victim.at); culprit != nil {
				b.collateral(j, fmt.Sprintf("job %d (%s) had broken the MPS server", culprit.job, b.jobs[culprit.job].record.Name))
			}
			continue
		}
		for _, first := range troubles[:k] {
			culprit := b.jobs[first.job]
			if culprit.turnedAway() || !sharedDevice(culprit.stays, j.stays, first.at) && !b.foundBroken(culprit.stays, j.stays, first.at) {
				continue
			}
			b.collateral(j, fmt.Sprintf("after job %d (%s) failed on the same device %.3f s earlier",
				first.job, culprit.record.Name, (victim.at-first.at).Seconds()))
			break
		}
	}
}

func (b *Batch) collateral(j *job, why string) {
	j.record.Outcome, j.record.Detail = new(results.Collateral), j.fault.detail+", "+why
	b.recorder.Job(j.record)
}

// brokeServer is the trouble that made the MPS server turn clients away at time
// at: the last one before, if the server was not seen healthy since; or the first
// one after, of a job that had a device by then, because a fault shows in a job
// only when it next asks. Nil: unknown.
func (b *Batch) brokeServer(troubles []trouble, at time.Duration) *trouble {
	broken := slices.ContainsFunc(b.ailments, func(a ailment) bool { return a.from < at && at < a.to })
	var found *trouble
	for i, t := range troubles {
		j := b.jobs[t.job]
		switch {
		case j.turnedAway():
		case t.at <= at && broken:
			found = &troubles[i]
		case t.at > at && found == nil && slices.ContainsFunc(j.stays, func(s stay) bool { return s.from <= at }):
			found = &troubles[i]
		}
	}
	return found
}

func (j *job) turnedAway() bool { return j.fault != nil && j.fault.turnedAway }

// trouble is when the job first could have harmed its neighbours.
func (j *job) trouble() (time.Duration, bool) {
	switch {
	case j.fault != nil:
		return j.fault.at, true
	case j.record.Signal != nil && j.exited != nil && len(j.stays) > 0:
		return *j.exited, true
	case j.record.Signal != nil && len(j.stays) > 0:
		return j.stays[len(j.stays)-1].to, true
	}
	return 0, false
}

// sharedDevice reports whether both were on one device at time at.
func sharedDevice(a, b []stay, at time.Duration) bool {
	for _, x := range a {
		for _, y := range b {
			if x.device == y.device && x.from <= at && at <= x.to && y.from <= at && at <= y.to {
				return true
			}
		}
	}
	return false
}
