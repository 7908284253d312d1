// Package blame is the fault attribution: it says which fault or death of a process explains
// the errors of others.
//
// Under MPS the clients of a device share one server, so a device with its clients is a
// fault domain: the fault of one client shows in every other as an error of its own. No
// source says whose fault it was. docs/results/faults.md has what was tried: the order of the reports
// does not tell, nor does the name in the server's log, nor the name in the kernel's log. So
// evidence decides, in this order. Where the evidence does not suffice, no job is named.
//
//   - An error that MPS does not share is the process's own.
//   - A process that died with kernels running, and reported no error, did the harm.
//   - Only kernels fault, so a process without a running kernel when the server broke is
//     innocent. After some errors it must have had none for a while before either, and a process that
//     showed no error is a suspect if it had one.
//   - A job that has faulted without neighbours before goes before other suspects.
//
// The package is pure: it reads no clock, and times are durations since the batch's arrival.
package blame

import (
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// CUDA errors that say something about a fault domain (CUDA Runtime API, cudaError).
const (
	devicesUnavailable  = 46  // cudaErrorDevicesUnavailable
	assertFailed        = 710 // cudaErrorAssert
	misalignedAddress   = 716 // cudaErrorMisalignedAddress
	launchFailure       = 719 // cudaErrorLaunchFailure
	mpsConnectionFailed = 805 // cudaErrorMpsConnectionFailed
	mpsRPCFailure       = 806 // cudaErrorMpsRpcFailure
	mpsServerNotReady   = 807 // cudaErrorMpsServerNotReady
	clientTerminated    = 810 // cudaErrorMpsClientTerminated
)

// Ended is the code of an incident that is no CUDA error: the run ended the process, whose context was lost, because the MPS
// server waited for it.
const Ended = -1

// Incident is a fault that a process reported, or the death of a process.
type Incident struct {
	Process schedulers.Process // serial 0: some process of the job
	At      time.Duration
	Code    int    // CUDA error; 0: a death
	Detail  string // of a fault, for the reader
	Work    Work   // of the process at that time
}

func (i Incident) isDeath() bool { return i.Code == 0 }

// Contained reports whether a fault shows only in the process that caused it and leaves the
// MPS server healthy. A failed assertion does so (14 of 14 on H200s, driver 580).
func (i Incident) Contained() bool { return i.Code == assertFailed }

// OfStop reports whether the error is what a process sees whose work somebody has ended through the MPS server. One that was about
// to make its context is told that the devices are unavailable (H200, driver 580).
func (i Incident) OfStop() bool { return i.Code == clientTerminated || i.turnedAway() }

// mayShowElsewhere reports whether the error may be shown to a neighbour although the process that caused it is shown none. After a
// misaligned address that was so in 14 of 14 episodes (H200, driver 580). A launch failure is reported in the same way.
func (i Incident) mayShowElsewhere() bool {
	return i.Code == misalignedAddress || i.Code == launchFailure
}

// turnedAway reports whether the error is the MPS server's answer to a client that it does
// not serve. Nothing that the client did is the reason. A client that came before a fault
// and makes its context after the fault is told that the devices are unavailable.
func (i Incident) turnedAway() bool {
	switch i.Code {
	case devicesUnavailable, mpsConnectionFailed, mpsRPCFailure, mpsServerNotReady:
		return true
	}
	return false
}

// OwnFault is the first of a job's faults that is not the MPS server's refusal to serve the
// job; if there is none, the first fault. There must be a fault.
func OwnFault(faults []Incident) Incident {
	if i := slices.IndexFunc(faults, func(f Incident) bool { return !f.turnedAway() }); i >= 0 {
		return faults[i]
	}
	return faults[0]
}

// Work is what a process had on its device.
type Work struct {
	Known bool
	Since time.Duration // start of the first kernel whose end it had not seen; Never: none
	Until time.Duration // when it last saw that earlier kernels had ended; 0: there were none
}

// None reports whether the process is known to have had no kernel running.
func (w Work) None() bool { return w.Known && w.Since == schedulers.Never }

// served reports whether the process is known to have had kernels.
func (w Work) served() bool { return w.Known && (w.Since != schedulers.Never || w.Until > 0) }

// running reports whether kernels of the process may have been running at time t.
func (w Work) running(t time.Duration) bool { return !w.Known || w.Since <= t }

// between reports whether kernels of the process may have been running between two times. Those that ended later may have.
func (w Work) between(from, to time.Duration) bool {
	return w.running(to) || w.Until > 0 && w.Until >= from
}

// Residency is a time in which a process was a client of a device: from its first grant
// there to its end. The processes of a job that is bound as a whole are not told apart:
// their serial is 0.
type Residency struct {
	Serial, Device int
	From, To       time.Duration // Never: it lasts
}

// Open reports whether the process has not ended.
func (r Residency) Open() bool { return r.To == schedulers.Never }

func (r Residency) at(t time.Duration) bool { return r.From <= t && t <= r.To }

// Residencies are those of one job.
type Residencies []Residency

// Enter notes that the process is a client of the device from now on.
func (rs Residencies) Enter(serial, device int, now time.Duration) Residencies {
	if slices.ContainsFunc(rs, func(r Residency) bool { return r.Serial == serial && r.Device == device && r.Open() }) {
		return rs
	}
	return append(rs, Residency{Serial: serial, Device: device, From: now, To: schedulers.Never})
}

// Leave ends the open residencies of a process.
func (rs Residencies) Leave(serial int, now time.Duration) {
	for i, r := range rs {
		if r.Serial == serial && r.Open() {
			rs[i].To = now
		}
	}
}

// LeaveAll ends the open residencies of all processes.
func (rs Residencies) LeaveAll(now time.Duration) {
	for i, r := range rs {
		if r.Open() {
			rs[i].To = now
		}
	}
}

// Of is the residencies of a process. They are those of the whole job where its processes
// are not told apart.
func (rs Residencies) Of(serial int) Residencies {
	if serial == 0 {
		return rs
	}
	var own Residencies
	for _, r := range rs {
		if r.Serial == serial || r.Serial == 0 {
			own = append(own, r)
		}
	}
	return own
}
