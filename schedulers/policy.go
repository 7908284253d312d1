package schedulers

// Policy answers where a task may go. It keeps nothing of its own: what it may
// depend on is in the State, so that the same state and task give the same
// answer. Ties break by device order.
type Policy interface {
	// Place says where t may go now, or false: it must wait. A task that the
	// policy cannot place on an empty node is refused at once.
	Place(t Task, s *State) (Placement, bool)
	// CanGrow says whether a task on device d may have bytes more now.
	CanGrow(bytes int64, d *DeviceState) bool
	// Reshape says how t stands on d, where it is already at a placement, now
	// that a larger kernel of it is known. d is without t's SM slots.
	Reshape(t Task, at Placement, d *DeviceState) Placement
}

// memoryHard admits tasks and growth only where the memory is free.
type memoryHard struct {
	room   float64 // share of a device that a task beside other jobs' leaves free for their growth
	exceed bool    // a managed task may be larger than a device that it has alone
}

// admits says whether t's memory may join d, and as what: a managed task that
// exceeds the device counts as all of its memory and has it alone, because the
// driver then moves its pages to and from the host at its neighbours' expense.
func (m memoryHard) admits(t Task, d *DeviceState) (Placement, bool) {
	if m.exceed && t.Managed && t.Bytes > d.CapacityBytes-d.ContextBytes {
		return Placement{Exclusive: true, WholeMemory: true}, d.Tasks == 0 && d.FreeBytes() >= d.contextFor(t)
	}
	left := d.FreeBytes() - d.contextFor(t)
	if d.Tasks > d.jobs[t.Job] {
		left -= int64(m.room * float64(d.CapacityBytes))
	}
	return Placement{}, t.Bytes <= left
}

func (memoryHard) CanGrow(bytes int64, d *DeviceState) bool { return bytes <= d.FreeBytes() }

// memoryBlind has no knowledge of memory: the driver is left to say no.
type memoryBlind struct{}

func (memoryBlind) CanGrow(int64, *DeviceState) bool { return true }

// noSMs is a policy that does not place blocks: a larger kernel changes only
// the warps in use.
type noSMs struct{}

func (noSMs) Reshape(_ Task, at Placement, _ *DeviceState) Placement { return at }

// nextRoundRobin is the first device after the latest grant that ok accepts.
func nextRoundRobin(s *State, ok func(*DeviceState) bool) (Placement, bool) {
	for i := range s.Len() {
		d := (s.Last() + 1 + i) % s.Len()
		if ok(s.Device(d)) {
			return Placement{Device: d}, true
		}
	}
	return Placement{}, false
}
