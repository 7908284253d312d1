package policies

import "github.com/caserun/caserun/schedulers"

// The parts that policies share. A policy embeds one of MemoryHard and MemoryBlind, and
// IgnoresSMs unless it places blocks on SMs.

// MemoryHard admits tasks and growth only if the memory is free.
type MemoryHard struct {
	// Room is the share of a device, from 0 to below 1, that a task beside other jobs'
	// tasks leaves free for their growth.
	Room float64
	// Exceed allows oversubscription by managed memory: a managed task may be larger than
	// its device, which it then has alone.
	Exceed bool
}

// Admits returns whether t's memory may join d, and the placement. A managed task that
// exceeds the device is charged all of its memory and has the device alone. The driver
// moves the pages of such a task to and from the host, at its neighbours' expense.
func (m MemoryHard) Admits(t schedulers.Task, d schedulers.DeviceView) (schedulers.Placement, bool) {
	limits, context := d.Limits(), d.ContextBytes(t)
	if m.Exceed && t.Managed && t.Bytes > limits.CapacityBytes-limits.ContextBytes {
		return schedulers.Placement{Exclusive: true, WholeMemory: true}, d.Tasks() == 0 && d.FreeBytes() >= context
	}
	left := d.FreeBytes() - context
	if d.Tasks() > d.TasksOf(t.Job) {
		left -= int64(m.Room * float64(limits.CapacityBytes))
	}
	return schedulers.Placement{}, t.Bytes <= left
}

// CanGrow implements schedulers.Policy.
func (MemoryHard) CanGrow(bytes int64, d schedulers.DeviceView) bool { return bytes <= d.FreeBytes() }

// MemoryBlind has no knowledge of memory, so that only the driver refuses allocations.
type MemoryBlind struct{}

// CanGrow implements schedulers.Policy.
func (MemoryBlind) CanGrow(int64, schedulers.DeviceView) bool { return true }

// IgnoresSMs does not place blocks on SMs: a larger kernel changes only the warps in use.
type IgnoresSMs struct{}

// Reshape implements schedulers.Policy.
func (IgnoresSMs) Reshape(_ schedulers.Task, at schedulers.Placement, _ schedulers.DeviceView) schedulers.Placement {
	return at
}

// RoundRobin returns the first device after the latest grant that ok accepts.
func RoundRobin(v schedulers.View, ok func(schedulers.DeviceView) bool) (schedulers.Placement, bool) {
	for i := range v.Len() {
		d := (v.Latest() + 1 + i) % v.Len()
		if ok(v.Device(d)) {
			return schedulers.Placement{Device: d}, true
		}
	}
	return schedulers.Placement{}, false
}
