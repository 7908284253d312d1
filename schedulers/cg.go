package schedulers

// coreToGPU runs a fixed number of jobs on the node at once and spreads them
// round robin, each device taking its share of the workers (CASE, section
// 5.1). It knows nothing of memory, so it can crash jobs.
type coreToGPU struct {
	memoryBlind
	noSMs
	workers int
}

func (p coreToGPU) Place(t Task, s *State) (Placement, bool) {
	running := 0
	for i := range s.Len() {
		running += s.Device(i).Jobs()
	}
	if running >= p.workers {
		return Placement{}, false
	}
	share := (p.workers + s.Len() - 1) / s.Len()
	return nextRoundRobin(s, func(d *DeviceState) bool { return d.Jobs() < share && d.Open(t) })
}
