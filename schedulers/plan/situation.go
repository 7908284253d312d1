// Package plan finds in which order the jobs of a batch should get the devices of a node.
//
// A search is a pure function of a situation: what runs, what waits, what is still to come, and what
// each job is expected to do. It plays candidates forward in a model of the node and keeps the best
// (search.go). A candidate is an order for each device; a job goes when it has asked, those
// before it on its device have gone, and its memory is free.
//
// The model: jobs use the host before and after they have a device, and for the part of that time in
// which no kernels run. The host's cores are shared by nice level. Kernels share
// the SMs of their device. Memory is held from the grant to the release, and a context
// from the grant to the exit.
package plan

import (
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Situation is a batch under way.
type Situation struct {
	Now     time.Duration // since the batch's arrival
	Cores   int           // physical cores of the host; 0: unknown, so that jobs never wait for one
	Workers int           // jobs that run at once; 0: all
	Devices []Device
	Jobs    []Job         // that have not ended, in the order of the mix
	Ended   time.Duration // sum of the turnarounds of the jobs that have ended
	Current schedulers.Plan
	First   bool // nothing was planned before
}

// Device is a device and what is free there now.
type Device struct {
	CapacityBytes int64
	FreeBytes     int64
	ContextBytes  int64 // of each process
	Closed        bool  // only jobs that must have it go there
}

// Stage is how far a job is.
type Stage uint8

const (
	Coming  Stage = iota // its process does not run yet
	Before               // it has not asked for a device yet
	Waiting              // it has asked
	Held                 // it has a device
	After                // it has given back what it had, and its process still runs
)

// Job is a job that has not ended. Its durations are what is left of each stage, as if it were alone.
type Job struct {
	ID      schedulers.JobID
	Stage   Stage
	Device  int   // of Held, and of After if it has a context there; -1: none
	Only    int   // the device that it must have; -1: any
	Isolate bool  // it shares its device with no other job
	Bytes   int64 // what it has or asks for, and what it will grow by
	Most    int64 // the most that it is expected to have at one time; 0: unknown
	Arrived time.Duration

	Before, Held, After time.Duration
	Kernels, SMs        float64 // as in schedulers.Prediction
	Nice                int     // its level on the host until it has a device (schedulers.NiceLevels)
	// Patience is how long a device waits for the job beyond the time at which it should have asked.
	Patience time.Duration
}

// may reports whether the job may have device d.
func (j *Job) may(d int, devices []Device) bool {
	return j.Only == d || j.Only < 0 && !devices[d].Closed
}
