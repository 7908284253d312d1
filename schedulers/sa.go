package schedulers

// singleAssignment gives each job a device of its own for its lifetime, the
// first that is free (CASE, section 5.1; the rule of Slurm and Kubernetes).
type singleAssignment struct {
	memoryBlind
	noSMs
}

func (singleAssignment) Place(t Task, s *State) (Placement, bool) {
	for i := range s.Len() {
		if d := s.Device(i); d.Jobs() == 0 && d.Open(t) {
			return Placement{Device: i}, true
		}
	}
	return Placement{}, false
}
