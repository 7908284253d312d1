package schedulers

// caseAlg3 is CASE's Alg. 3: memory is a hard constraint, compute a soft one.
// Among the devices where the memory fits it takes the one with the fewest
// warps in use. The paper prints MemReq < FreeMem here and MemReq > FreeMem, as what does
// not fit, in Alg. 2. Both are ≤ in this package: a task that needs exactly what is free
// fits, and with < none could ever have all of a device.
type caseAlg3 struct {
	memoryHard
	noSMs
}

func (p caseAlg3) Place(t Task, s *State) (Placement, bool) {
	var best Placement
	found := false
	for i := range s.Len() {
		d := s.Device(i)
		at, ok := p.admits(t, d)
		if !ok || !d.Open(t) {
			continue
		}
		if !found || d.UsedWarps < s.Device(best.Device).UsedWarps {
			best, found = at, true
			best.Device = i
		}
	}
	return best, found
}
