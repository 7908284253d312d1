package schedulers

// caseAlg2 is CASE's Alg. 2: memory and compute are both hard constraints. It
// places a task's blocks round robin over a device's SMs, as the hardware
// does, against the free blocks and warps of each, and takes the first device
// on which all of them fit.
//
// Alg. 2 as printed never admits a grid larger than an empty device. Here such
// a task gets a device that has no task and saturates it until it is released.
type caseAlg2 struct{ memoryHard }

func (caseAlg2) Place(t Task, s *State) (Placement, bool) {
	for i := range s.Len() {
		d := s.Device(i)
		if d.Saturated || !d.Open(t) || !d.Fits(t) {
			continue
		}
		if oversized(t, d.Device) {
			if d.Tasks == 0 {
				return Placement{Device: i, Exclusive: true}, true
			}
			continue
		}
		if blocks, next, ok := placeBlocks(t, d); ok {
			return Placement{Device: i, Blocks: blocks, NextSM: next}, true
		}
	}
	return Placement{}, false
}

// blocksPerEmptySM is how many blocks of t one empty SM can host.
func blocksPerEmptySM(t Task, d Device) int {
	return SM{FreeBlocks: d.BlocksPerSM, FreeWarps: d.WarpsPerSM}.room(int(t.WarpsPerBlock()))
}

func oversized(t Task, d Device) bool {
	return t.Blocks > uint64(d.SMs)*uint64(blocksPerEmptySM(t, d))
}

func (m SM) room(warpsPerBlock int) int {
	if warpsPerBlock == 0 {
		return m.FreeBlocks
	}
	return min(m.FreeBlocks, m.FreeWarps/warpsPerBlock)
}

// placeBlocks distributes t's blocks one by one over the SMs from the device's
// cursor, skipping full ones. It works on its own copy of the rooms, so that
// each block sees the ones placed before it and a misfit changes nothing.
func placeBlocks(t Task, d *DeviceState) (blocks []int, next int, ok bool) {
	wpb := int(t.WarpsPerBlock())
	rooms := make([]int, len(d.SMs))
	total := uint64(0)
	for i, m := range d.SMs {
		rooms[i] = m.room(wpb)
		total += uint64(rooms[i])
	}
	if t.Blocks > total {
		return nil, 0, false
	}
	blocks = make([]int, len(d.SMs))
	next = d.NextSM
	for left := t.Blocks; left > 0; next = (next + 1) % len(d.SMs) {
		if rooms[next] > blocks[next] {
			blocks[next]++
			left--
		}
	}
	return blocks, next, true
}
