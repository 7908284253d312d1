package runner

import (
	"time"

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
