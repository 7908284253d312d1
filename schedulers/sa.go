package schedulers

// singleAssignment gives each job a device of its own for its lifetime, the
// first that is free (CASE, section 5.1; the rule of Slurm and Kubernetes).
type singleAssignment struct{ memoryBlind }

func (singleAssignment) Place(_ Task, s *State) (Placement, bool) {
	for i := range s.Len() {
		if s.Device(i).Jobs() == 0 {
			return Placement{Device: i}, true
		}
	}
	return Placement{}, false
}
