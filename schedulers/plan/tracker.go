package plan

import (
	"math"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Tracker follows how far the jobs of a batch are. Its clock is that of the model: a job that shares
// the host or its device does less in a second than it does alone.
type Tracker struct {
	cores   float64
	devices int
	now     time.Duration
	jobs    []tracked
	active  []int // jobs in stages that take time
}

type tracked struct {
	expected schedulers.Prediction
	nice     int // until it has a device
	stage    Stage
	device   int
	left     float64 // seconds of the stage, alone; negative once it has taken longer
	held     float64 // of all time with a device, what is left
}

// Ended is the stage of a job that has ended.
const Ended = After + 1

// NewTracker begins with all jobs to come. nice has their levels until they have a device; nil: all have
// the first. cores are the host's, 0 if unknown.
func NewTracker(expected []schedulers.Prediction, nice []int, cores, devices int) *Tracker {
	t := &Tracker{cores: math.Inf(1), devices: devices, jobs: make([]tracked, 0, len(expected))}
	if cores > 0 {
		t.cores = float64(cores)
	}
	for i, e := range expected {
		level := 0
		if nice != nil {
			level = nice[i]
		}
		t.Add(e, level)
	}
	return t
}

// Add adds a job that is to come.
func (t *Tracker) Add(expected schedulers.Prediction, nice int) {
	t.jobs = append(t.jobs, tracked{expected: expected, nice: nice, device: -1, left: expected.Before.Seconds(), held: expected.Held.Seconds()})
}

// Enter says that a job is in a stage since now. device is what it got; it counts only with Held.
func (t *Tracker) Enter(job schedulers.JobID, s Stage, device int, now time.Duration) {
	j := &t.jobs[job]
	if j.stage == s {
		return
	}
	t.Advance(now)
	if takesTime(j.stage) {
		t.active = without(t.active, int(job))
	}
	if j.stage == Held {
		j.held = j.left
	}
	j.stage = s
	switch s {
	case Before:
		j.left = j.expected.Before.Seconds()
	case Held:
		j.device, j.left = device, max(j.held, again*j.expected.Held.Seconds())
	case After:
		j.left = j.expected.After.Seconds()
	}
	if takesTime(s) {
		t.active = append(t.active, int(job))
	}
}

// again is the part of a job's time with a device that a further task of it is expected to take at
// least.
const again = 0.1

func takesTime(s Stage) bool { return s == Before || s == Held || s == After }

func without(all []int, job int) []int {
	for i, other := range all {
		if other == job {
			return append(all[:i], all[i+1:]...)
		}
	}
	return all
}

// Stage is how far the job is.
func (t *Tracker) Stage(job schedulers.JobID) Stage { return t.jobs[job].stage }

// Advance takes in that time has passed.
func (t *Tracker) Advance(now time.Duration) {
	passed := (now - t.now).Seconds()
	if passed <= 0 {
		return
	}
	t.now = now
	var u usage
	u.load = make([]float64, t.devices)
	for _, i := range t.active {
		j := &t.jobs[i]
		u.add(j.stage, j.nice, j.device, j.expected.Kernels, j.expected.SMs, 1)
	}
	u.share(t.cores)
	for _, i := range t.active {
		j := &t.jobs[i]
		j.left -= passed * u.rate(j.stage, j.nice, j.device, j.expected.Kernels)
	}
}

// Job tells how far the job is, as a Situation has it.
func (t *Tracker) Job(job schedulers.JobID) Job {
	j := &t.jobs[job]
	e := j.expected
	out := Job{ID: job, Stage: j.stage, Device: j.device, Only: -1, Bytes: e.Bytes, Kernels: e.Kernels, SMs: e.SMs, Nice: j.nice,
		Before: e.Before, Held: seconds(max(j.held, again*e.Held.Seconds())), After: e.After, Patience: patience(e.Before)}
	switch j.stage {
	case Before:
		out.Before = overdue(j.left, e.Before)
		if j.left < 0 {
			out.Patience -= seconds(-j.left)
		}
	case Held:
		out.Held = overdue(j.left, e.Held)
	case After:
		out.After = overdue(j.left, e.After)
	}
	return out
}

// patience is how long a device waits for a job that should have asked.
func patience(before time.Duration) time.Duration { return max(time.Second, before/2) }

// overdue is what is left of a stage. One that has taken longer than expected is taken to be nearly over.
func overdue(left float64, expected time.Duration) time.Duration {
	return seconds(max(left, min(least, expected.Seconds())))
}
