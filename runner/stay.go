package runner

import (
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// stay is a time that a process of a job was a client of a device: from its first task
// there to its end. Of a job that is bound as a whole, whose processes nobody tells
// apart, process is 0.
type stay struct {
	process, device int
	from, to        time.Duration
}

func (s stay) open() bool { return s.to == schedulers.Never }

// at reports whether it lasted at that time.
func (s stay) at(t time.Duration) bool { return s.from <= t && t <= s.to }

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

// Used says how much memory a process of a job had in use at most, where its probe tells. It
// is called before ProcessGone.
func (b *Batch) Used(index, serial int, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	if j.uses == nil {
		j.uses = map[int]int64{}
	}
	j.uses[serial] = bytes
}

// used is the most that the job had in use, when all its stays have ended: that of processes
// which had a device at one time is added up. It is unknown if one of them did not tell.
func (j *job) used() *int64 {
	held := map[int]*results.Task{}
	for _, s := range j.stays {
		bytes, known := j.uses[s.process]
		if !known {
			return nil
		}
		t := held[s.process]
		if t == nil {
			t = &results.Task{GrantS: new(seconds(s.from)), ReleaseS: new(seconds(s.to)), Bytes: bytes}
			held[s.process] = t
		}
		*t.ReleaseS = max(*t.ReleaseS, seconds(s.to))
	}
	if len(held) == 0 {
		return nil
	}
	var all []results.Task
	for _, t := range held {
		all = append(all, *t)
	}
	return new(results.PeakBytes(all, 0))
}
