package runner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
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
	case j.protocol != "":
		return results.Crash, j.protocol
	case e.Signal != nil:
		return results.Crash, "ended by " + *e.Signal
	case e.Wrong:
		return results.Wrong, "its output check failed"
	case e.Status != nil && *e.Status != 0:
		return results.Crash, fmt.Sprintf("exit status %d", *e.Status)
	}
	return results.OK, ""
}

// trouble is a job's first fault or unnatural death, and the process that it befell.
type trouble struct {
	job, process int
	at           time.Duration
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
		if process, at, ok := j.trouble(); ok {
			troubles = append(troubles, trouble{i, process, at})
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
		own := j.staysOf(j.fault.process)
		for _, first := range troubles[:k] {
			culprit := b.jobs[first.job]
			its := culprit.staysOf(first.process)
			if culprit.turnedAway() || !sharedDevice(its, own, first.at) && !b.foundBroken(its, own, first.at) {
				continue
			}
			b.collateral(j, fmt.Sprintf("after job %d (%s) failed on the same device %.3f s earlier",
				first.job, culprit.record.Name, (j.fault.at-first.at).Seconds()))
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

// trouble is when a process of the job first could have harmed its neighbours. One that
// ends without a goodbye did so on purpose (_exit) where the job then succeeds.
func (j *job) trouble() (process int, at time.Duration, ok bool) {
	if j.fault != nil {
		process, at, ok = j.fault.process, j.fault.at, true
	}
	failed := j.record.Signal != nil || j.record.ExitStatus != nil && *j.record.ExitStatus != 0
	if d := j.died; d != nil && failed && (!ok || d.at < at) {
		process, at, ok = d.process, d.at, true
	}
	return process, at, ok
}

// staysOf are those of a process of the job, or of the whole job where nobody tells its
// processes apart.
func (j *job) staysOf(process int) []stay {
	if process == 0 {
		return j.stays
	}
	var own []stay
	for _, s := range j.stays {
		if s.process == process || s.process == 0 {
			own = append(own, s)
		}
	}
	return own
}

// stay notes that a process is a client of the device from now on.
func (j *job) stay(process, device int, now time.Duration) {
	for _, s := range j.stays {
		if s.process == process && s.device == device && s.to == schedulers.Never {
			return
		}
	}
	j.stays = append(j.stays, stay{process: process, device: device, from: now, to: schedulers.Never})
}

// leave ends the stays that nobody has ended.
func (j *job) leave(of func(stay) bool, now time.Duration) {
	for i, s := range j.stays {
		if of(s) && s.to == schedulers.Never {
			j.stays[i].to = now
		}
	}
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
