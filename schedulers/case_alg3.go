package schedulers

// caseAlg3 is CASE's Alg. 3: memory is a hard constraint, compute a soft one.
// Among the devices where the memory fits it takes the one with the fewest
// warps in use.
type caseAlg3 struct{ memoryHard }

func (caseAlg3) Place(t Task, s *State) (Placement, bool) {
	best := -1
	for i := range s.Len() {
		d := s.Device(i)
		if !d.Open(t) || !d.Fits(t) {
			continue
		}
		if best < 0 || d.UsedWarps < s.Device(best).UsedWarps {
			best = i
		}
	}
	return Placement{Device: best}, best >= 0
}
