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

// trouble is a fault or the unnatural death of a process of a job.
type trouble struct {
	job, process int
	at           time.Duration
	turnedAway   bool // by the MPS server: another's trouble has come before
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
	for _, j := range b.jobs {
		troubles = append(append(troubles, j.faults...), j.harmful()...)
	}
	slices.SortStableFunc(troubles, func(a, b trouble) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job, b.job))
	})
	for index, j := range b.jobs {
		switch {
		case j.fault == nil || j.record.Outcome == nil || *j.record.Outcome != results.Fault:
		case j.fault.turnedAway:
			if culprit := b.brokeServer(troubles, j.fault.at); culprit != nil && culprit.job != index {
				b.collateral(j, fmt.Sprintf("job %d (%s) had broken the MPS server", culprit.job, b.jobs[culprit.job].record.Name))
			}
		default:
			if culprit := b.harmed(troubles, index); culprit != nil {
				b.collateral(j, fmt.Sprintf("after job %d (%s) failed on the same device %.3f s earlier",
					culprit.job, b.jobs[culprit.job].record.Name, (j.fault.at-culprit.at).Seconds()))
			}
		}
	}
}

// harmed is the first of another job's troubles that the job's fault can come from, or
// nil.
func (b *Batch) harmed(troubles []trouble, index int) *trouble {
	victim := b.jobs[index]
	own := victim.staysOf(victim.fault.process)
	for i, t := range troubles {
		if t.at > victim.fault.at || t.at == victim.fault.at && t.job > index {
			return nil
		}
		if t.job == index || t.turnedAway {
			continue
		}
		if its := b.jobs[t.job].staysOf(t.process); sharedDevice(its, own, t.at) || b.foundBroken(its, own, t.at) {
			return &troubles[i]
		}
	}
	return nil
}

func (b *Batch) collateral(j *job, why string) {
	j.record.Outcome, j.record.Detail = new(results.Collateral), j.fault.detail+", "+why
	b.recorder.Job(j.record)
}

// brokeServer is the trouble that made the MPS server turn clients away at time at: the
// first since it was last seen healthy; or the first one after, of a job that had a
// device by then, because a fault shows in a job only when it next asks. Nil: unknown.
func (b *Batch) brokeServer(troubles []trouble, at time.Duration) *trouble {
	since := schedulers.Never
	for _, a := range b.ailments {
		if a.from < at && at < a.to {
			since = min(since, a.from)
		}
	}
	for i, t := range troubles {
		had := func(s stay) bool { return s.from <= at }
		if t.turnedAway || t.at <= at && t.at < since || t.at > at && !slices.ContainsFunc(b.jobs[t.job].stays, had) {
			continue
		}
		if f := b.jobs[t.job].fault; f != nil && f.at == t.at {
			if first := b.harmed(troubles, t.job); first != nil {
				return first
			}
		}
		return &troubles[i]
	}
	return nil
}

// lastWords is how long before the end of a job, which fails, a process of it that ends
// without a goodbye may have died of itself. One that did so earlier, or of a job that
// succeeds, left on purpose (_exit).
const lastWords = 10 * time.Second

// harmful are the deaths in a job that can have harmed its neighbours.
func (j *job) harmful() []trouble {
	if j.record.EndS == nil || j.record.Signal == nil && (j.record.ExitStatus == nil || *j.record.ExitStatus == 0) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(j.deaths), func(t trouble) bool {
		return *j.record.EndS-seconds(t.at) > lastWords.Seconds() || j.wasTurnedAway(t.process)
	})
}

// wasTurnedAway: it is what the process died of.
func (j *job) wasTurnedAway(process int) bool {
	return slices.ContainsFunc(j.faults, func(f trouble) bool { return f.turnedAway && (f.process == process || process == 0) })
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
		if s.process == process && s.device == device && s.open() {
			return
		}
	}
	j.stays = append(j.stays, stay{process: process, device: device, from: now, to: schedulers.Never})
}

// leave ends the stays that nobody has ended.
func (j *job) leave(of func(stay) bool, now time.Duration) {
	for i, s := range j.stays {
		if of(s) && s.open() {
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
