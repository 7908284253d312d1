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
}

// memoryHard admits growth only where the memory is free.
type memoryHard struct{}

func (memoryHard) CanGrow(bytes int64, d *DeviceState) bool { return bytes <= d.FreeBytes() }

// memoryBlind has no knowledge of memory: the driver is left to say no.
type memoryBlind struct{}

func (memoryBlind) CanGrow(int64, *DeviceState) bool { return true }

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
