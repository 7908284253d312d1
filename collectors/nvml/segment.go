package nvml

import (
	"fmt"
	"time"
)

// Kind names a series. A device has at most one series of each kind. A series that the device
// does not offer has no segments.
type Kind uint8

const (
	// GPUUtilization is the fraction of the driver's last sample period in which
	// at least one kernel was resident (nvmlUtilization_t.gpu), a ratio in steps
	// of 0.01. The driver refreshes it every 1/6 s to 1 s.
	GPUUtilization Kind = iota
	// MemoryUtilization is the fraction of that period in which device memory
	// was read or written (nvmlUtilization_t.memory), a ratio in steps of 0.01.
	MemoryUtilization
	// MemoryUsed is the memory in use on the device, in bytes.
	MemoryUsed
	// BufferedGPUUtilization is GPUUtilization from the driver's own sample
	// buffer (nvmlDeviceGetSamples), stamped by the driver.
	BufferedGPUUtilization
	// SMActivity is GPM's SM utilization, a ratio: the mean over all SMs of the
	// fraction of the window in which the SM had a warp assigned. A stamp is the
	// end of its window. It exists on Hopper and later.
	SMActivity
	// Energy is what the device has used since the driver was loaded, in joules
	// (nvmlDeviceGetTotalEnergyConsumption), in steps of 0.01.
	Energy
	// Power is the power that the device draws, in watts, in steps of 0.01: the driver's
	// instantaneous value where it has one, and else nvmlDeviceGetPowerUsage, which is a mean
	// over one second on Ampere and later except GA100.
	Power

	numKinds = iota
)

var kindNames = [numKinds]string{
	"gpu_utilization", "memory_utilization", "memory_used",
	"buffered_gpu_utilization", "sm_activity", "energy", "power",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Segment is a sequence of consecutive samples of one series with equal values. The value
// between the Last of a segment and the First of the next is unknown.
type Segment struct {
	Device      int // position in PCI bus order
	Kind        Kind
	First, Last time.Duration // stamps of the first and the last sample, since the sampler's epoch
	Samples     int           // at least 1
	Value       float64       // a ratio, or in the unit of the Kind
}

// encoder turns the samples of one series into segments. A segment ends
//   - when the value changes;
//   - when no sample comes for longer than maxGap;
//   - when it is maxSpan long, so that an idle device's record reaches the store during the run.
type encoder struct {
	maxGap, maxSpan time.Duration
	open            Segment // Samples is 0 if no segment is open
	newest          time.Duration
}

// add takes a sample and returns the segment that it ends, if any.
func (e *encoder) add(at time.Duration, value float64) (Segment, bool) {
	e.newest = at
	if e.open.Samples > 0 && e.open.Value == value &&
		at-e.open.Last <= e.maxGap && at-e.open.First <= e.maxSpan {
		e.open.Last = at
		e.open.Samples++
		return Segment{}, false
	}
	done, ok := e.flush()
	e.open.First, e.open.Last, e.open.Value, e.open.Samples = at, at, value, 1
	return done, ok
}

// flush ends the open segment.
func (e *encoder) flush() (Segment, bool) {
	done := e.open
	e.open.Samples = 0
	return done, done.Samples > 0
}
