package schedulers

// schedGPU admits a task to its one device when the memory fits (Reaño et al.,
// TPDS 2018, section 4). Which waiting client goes next is the queue's order.
type schedGPU struct {
	memoryHard
	noSMs
	device int
}

func (p schedGPU) Place(t Task, s *State) (Placement, bool) {
	if p.device >= s.Len() {
		return Placement{}, false
	}
	d := s.Device(p.device)
	at, ok := p.admits(t, d)
	at.Device = p.device
	return at, ok && d.Open(t)
}
