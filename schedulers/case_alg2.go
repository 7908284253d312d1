package schedulers

// caseAlg2 is CASE's Alg. 2: memory and compute are both hard constraints. It
// places a task's blocks round robin over a device's SMs, as the hardware
// does, against the free blocks and warps of each, and takes the first device
// on which all of them fit.
//
// Alg. 2 as printed never admits a grid larger than an empty device. Here such
// a task, or one whose grid is not known yet, gets a device that has no task and
// saturates it: nobody joins until it is released.
//
// A kernel larger than those before it cannot be put off, so Reshape never says
// no. Its blocks replace the task's earlier ones if they fit beside the
// neighbours; if not, the task saturates the device like one that was oversized
// from the start, except that the neighbours stay.
type caseAlg2 struct{ memoryHard }

func (p caseAlg2) Place(t Task, s *State) (Placement, bool) {
	for i := range s.Len() {
		d := s.Device(i)
		at, ok := p.admits(t, d)
		if !ok || !d.Open(t) {
			continue
		}
		at.Device = i
		if at.Exclusive || oversized(t, d.Device) {
			at.Exclusive = true
			if d.Tasks == 0 {
				return at, true
			}
		} else if placeBlocks(t, d, &at) {
			return at, true
		}
	}
	return Placement{}, false
}

// Reshape implements Policy.
func (caseAlg2) Reshape(t Task, at Placement, d *DeviceState) Placement {
	now := Placement{Device: at.Device, WholeMemory: at.WholeMemory}
	now.Exclusive = at.WholeMemory || oversized(t, d.Device) || !placeBlocks(t, d, &now)
	return now
}

// warpSlots is how many of an SM's slots one block of t takes: those of its own
// warps, or its share of the SM where registers or shared memory leave room for
// fewer blocks than warps do.
func warpSlots(t Task, d Device) int {
	own := int(t.WarpsPerBlock()) * SlotsPerWarp
	if t.BlocksPerSM == 0 {
		return own
	}
	return max(own, d.WarpsPerSM*SlotsPerWarp/int(t.BlocksPerSM))
}

// oversized reports whether t's grid may be larger than an empty device.
func oversized(t Task, d Device) bool {
	perSM := SM{FreeBlocks: d.BlocksPerSM, FreeSlots: d.WarpsPerSM * SlotsPerWarp}.room(warpSlots(t, d))
	return t.GridUnknown || t.Blocks > uint64(d.SMs)*uint64(perSM)
}

// room is how many blocks of so many slots each the SM still takes.
func (m SM) room(warpSlots int) int {
	if warpSlots == 0 {
		return m.FreeBlocks
	}
	return min(m.FreeBlocks, m.FreeSlots/warpSlots)
}

// placeBlocks distributes t's blocks one by one over the SMs from the device's
// cursor, skipping full ones, and enters them in at. It works on its own copy of
// the rooms, so that each block sees the ones placed before it and a misfit
// changes nothing.
func placeBlocks(t Task, d *DeviceState, at *Placement) bool {
	slots := warpSlots(t, d.Device)
	rooms := make([]int, len(d.SMs))
	total := uint64(0)
	for i, m := range d.SMs {
		rooms[i] = m.room(slots)
		total += uint64(rooms[i])
	}
	if t.Blocks > total {
		return false
	}
	blocks, next := make([]int, len(d.SMs)), d.NextSM
	for left := t.Blocks; left > 0; next = (next + 1) % len(d.SMs) {
		if rooms[next] > blocks[next] {
			blocks[next]++
			left--
		}
	}
	at.Blocks, at.WarpSlots, at.NextSM = blocks, slots, next
	return true
}
