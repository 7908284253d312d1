package policies

import "github.com/caserun/caserun/schedulers"

// caseAlg2 is CASE's Algorithm 2 (Alg. 2): memory and compute are both hard constraints. It
// places a task's blocks round robin over a device's SMs, as the hardware does. Each block
// needs a free block slot and free warps on its SM. The task gets the first device on which
// all its blocks fit.
//
// Alg. 2 as printed never admits a grid larger than an empty device. Here such
// a task, or a task whose grid is not known yet, gets a device without tasks and
// saturates it: no other task joins until the release.
//
// A kernel that is larger than the task's earlier kernels cannot wait, so Reshape never
// refuses it. Its blocks replace the task's earlier blocks if they fit beside the
// neighbours. If they do not fit, the task saturates the device like a task that was
// oversized from the start, but the neighbours stay.
type caseAlg2 struct{ MemoryHard }

var alg2 = entry{
	Info: Info{Name: "case-alg2", Binds: BindsTask, Shares: true, KnowsShares: true,
		Brief:  "memory hard, compute hard: every block of the grid has a free slot on an SM",
		Rule:   "memory hard, compute hard: every block must find a free slot on an SM; a larger or unknown grid gets an idle device alone",
		Source: casePaper + ", section 4, Alg. 2",
		Params: []Param{paramQueue, paramAge, paramWait, paramRoom, paramManaged, paramIsolate}},
	policy: func(s settings) (schedulers.Policy, error) {
		memory, err := s.memory()
		return caseAlg2{memory}, err
	},
}

var _ schedulers.Measurer = caseAlg2{}

func (p caseAlg2) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	for i := range v.Len() {
		d := v.Device(i)
		if !d.Open(t) {
			continue
		}
		at, ok := p.Admits(t, d)
		if !ok {
			continue
		}
		at.Device = i
		if at.Exclusive || oversized(t, d.Limits()) {
			at.Exclusive = true
			if d.Tasks() == 0 {
				return at, true
			}
		} else if placeBlocks(t, d, &at) {
			return at, true
		}
	}
	return schedulers.Placement{}, false
}

func (caseAlg2) Like(t schedulers.Task) schedulers.Task {
	return schedulers.Task{Blocks: t.Blocks, ThreadsPerBlock: t.ThreadsPerBlock, BlocksPerSM: t.BlocksPerSM,
		GridUnknown: t.GridUnknown, Managed: t.Managed}
}

func (p caseAlg2) Measure(t schedulers.Task, v schedulers.View, i int) (fresh, known int64) {
	if d := v.Device(i); d.Tasks() > 0 && (oversized(t, d.Limits()) || !blocksFit(t, d)) {
		return -1, -1
	}
	return p.MemoryHard.Measure(t, v, i)
}

func (caseAlg2) Reshape(t schedulers.Task, at schedulers.Placement, d schedulers.DeviceView) schedulers.Placement {
	now := schedulers.Placement{Device: at.Device, WholeMemory: at.WholeMemory}
	now.Exclusive = at.WholeMemory || oversized(t, d.Limits()) || !placeBlocks(t, d, &now)
	return now
}

// warpSlots returns how many of an SM's slots one block of t takes: the slots of its own
// warps, or its share of the SM if registers or shared memory allow fewer blocks than warps
// do.
func warpSlots(t schedulers.Task, d schedulers.Device) int {
	own := int(t.WarpsPerBlock()) * schedulers.SlotsPerWarp
	if t.BlocksPerSM == 0 {
		return own
	}
	return max(own, d.WarpsPerSM*schedulers.SlotsPerWarp/int(t.BlocksPerSM))
}

// oversized reports whether t's grid may be larger than an empty device.
func oversized(t schedulers.Task, d schedulers.Device) bool {
	perSM := room(schedulers.SM{FreeBlocks: d.BlocksPerSM, FreeSlots: d.WarpsPerSM * schedulers.SlotsPerWarp}, warpSlots(t, d))
	return t.GridUnknown || t.Blocks > uint64(d.SMs)*uint64(perSM)
}

// room returns how many more blocks of warpSlots slots the SM takes.
func room(m schedulers.SM, warpSlots int) int {
	if warpSlots == 0 {
		return m.FreeBlocks
	}
	return min(m.FreeBlocks, m.FreeSlots/warpSlots)
}

// blocksFit reports whether d's SMs have room for all of t's blocks.
func blocksFit(t schedulers.Task, d schedulers.DeviceView) bool {
	limits := d.Limits()
	slots := warpSlots(t, limits)
	left := t.Blocks
	for i := 0; i < limits.SMs && left > 0; i++ {
		left -= min(left, uint64(room(d.SM(i), slots)))
	}
	return left == 0
}

// placeBlocks distributes t's blocks one by one over the SMs from the device's cursor, skips
// full SMs, and enters the blocks in at. It counts the blocks that it has placed on each SM,
// and changes nothing if t does not fit.
func placeBlocks(t schedulers.Task, d schedulers.DeviceView, at *schedulers.Placement) bool {
	if !blocksFit(t, d) {
		return false
	}
	limits := d.Limits()
	slots := warpSlots(t, limits)
	rooms := make([]int, limits.SMs)
	for i := range rooms {
		rooms[i] = room(d.SM(i), slots)
	}
	blocks, next := make([]int, len(rooms)), d.NextSM()
	for left := t.Blocks; left > 0; {
		if rooms[next] > blocks[next] {
			blocks[next]++
			left--
		}
		if next++; next == len(rooms) {
			next = 0
		}
	}
	at.Blocks, at.WarpSlots, at.NextSM = blocks, slots, next
	return true
}
