package schedulers

// zero grants at once, round robin: what is left is the overhead of asking.
type zero struct {
	memoryBlind
	noSMs
}

func (zero) Place(t Task, s *State) (Placement, bool) {
	return nextRoundRobin(s, func(d *DeviceState) bool { return d.Open(t) })
}
