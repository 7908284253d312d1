package schedulers

import "maps"

// State is the accounting of a node's devices. Policies read it; only the
// Engine changes it.
type State struct {
	devices []DeviceState
	last    int // device of the latest grant, -1 before the first
}

// DeviceState is what is in use on one device.
type DeviceState struct {
	Device
	UsedBytes int64  // tasks and contexts
	UsedWarps uint64 // whole grids of the tasks here
	Tasks     int
	SMs       []SM // free slots, kept by placements that name SMs
	NextSM    int  // where the next placement's first block goes

	index    int
	contexts map[Process]bool
	jobs     map[JobID]int // jobs with a context here -> their tasks here now
	isolated bool          // the one job here shares with nobody
	growing  int           // tasks here that wait for more memory
	claimed  int           // of these, those that are not stalled
	closers  int           // tasks here that let nobody join (Placement.Exclusive)
}

// SM is the free part of one streaming multiprocessor.
type SM struct{ FreeBlocks, FreeSlots int }

// SlotsPerWarp is into how many slots a warp's place on an SM is divided, so
// that the share of a block of which an SM holds n is a whole number of them,
// and n such blocks fit, but not one more, for every n that a device allows.
const SlotsPerWarp = 1 << 10

func newState(devices []Device) *State {
	s := &State{last: -1, devices: make([]DeviceState, len(devices))}
	for i, d := range devices {
		ds := DeviceState{Device: d, index: i, contexts: map[Process]bool{}, jobs: map[JobID]int{}, SMs: make([]SM, d.SMs)}
		for j := range ds.SMs {
			ds.SMs[j] = SM{FreeBlocks: d.BlocksPerSM, FreeSlots: d.WarpsPerSM * SlotsPerWarp}
		}
		s.devices[i] = ds
	}
	return s
}

// Len is the number of devices.
func (s *State) Len() int { return len(s.devices) }

// Device is device i. The caller must not change it.
func (s *State) Device(i int) *DeviceState { return &s.devices[i] }

// Last is the device of the latest grant, -1 before the first.
func (s *State) Last() int { return s.last }

// Jobs is the number of jobs with a context on the device.
func (d *DeviceState) Jobs() int { return len(d.jobs) }

// Saturated reports whether a task larger than the device keeps others out.
func (d *DeviceState) Saturated() bool { return d.closers > 0 }

// Open reports whether t may join the device at all: it is not bound to
// another, isolation is respected, no task here keeps others out, and none
// waits for memory that t could take from it.
func (d *DeviceState) Open(t Task) bool {
	if t.OnDevice != nil && *t.OnDevice != d.index {
		return false
	}
	others := len(d.jobs)
	if _, here := d.jobs[t.Job]; here {
		others--
	}
	if others > 0 && (t.Isolate || d.isolated) {
		return false
	}
	return d.claimed == 0 && d.closers == 0
}

// contextFor is what t's process takes beside t: a context where it has none here.
func (d *DeviceState) contextFor(t Task) int64 {
	if d.contexts[t.Process()] {
		return 0
	}
	return d.ContextBytes
}

// FreeBytes is the memory that can still be handed out; negative where tasks
// of a scheduler without memory knowledge hold more than there is.
func (d *DeviceState) FreeBytes() int64 { return d.CapacityBytes - d.UsedBytes }

// Placement is where a policy puts a task.
type Placement struct {
	Device      int
	Blocks      []int // blocks added to each SM, or nil: SM slots are not tracked
	WarpSlots   int   // of its SM that each of them takes; read with Blocks
	NextSM      int   // the device's cursor afterwards; read with Blocks
	Exclusive   bool  // nobody joins the device until the task is released
	WholeMemory bool  // the task counts as all the memory that was free
}

// add puts t at p and returns the memory that it counts as.
func (s *State) add(t Task, p Placement) (bytes int64) {
	d := &s.devices[p.Device]
	bytes = t.Bytes
	if p.WholeMemory {
		bytes = d.FreeBytes() - d.contextFor(t)
	}
	s.put(t, bytes, p)
	s.last = p.Device
	return bytes
}

// put is add where it is known what t counts as.
func (s *State) put(t Task, bytes int64, p Placement) {
	d := &s.devices[p.Device]
	d.enter(t.Process())
	d.UsedBytes += bytes
	d.UsedWarps += t.Warps()
	d.Tasks++
	d.jobs[t.Job]++
	d.isolated = d.isolated || t.Isolate
	d.occupy(p)
}

// enter gives a process a context where it has none.
func (d *DeviceState) enter(p Process) {
	if !d.contexts[p] {
		d.contexts[p] = true
		d.UsedBytes += d.ContextBytes
		d.jobs[p.Job] += 0
	}
}

// remove gives back what task t, counting as so many bytes, holds at p. The
// process's context stays until leave.
func (s *State) remove(t Task, bytes int64, p Placement) {
	d := &s.devices[p.Device]
	d.UsedBytes -= bytes
	d.UsedWarps -= t.Warps()
	d.Tasks--
	d.jobs[t.Job]--
	d.vacate(p)
}

// hasTask reports whether the job has a task on any device.
func (s *State) hasTask(job JobID) bool {
	for i := range s.devices {
		if s.devices[i].jobs[job] > 0 {
			return true
		}
	}
	return false
}

// hasContext reports whether the job has a context on any device.
func (s *State) hasContext(job JobID) bool {
	for i := range s.devices {
		if _, here := s.devices[i].jobs[job]; here {
			return true
		}
	}
	return false
}

// leave gives back the contexts of processes that are gone; they have no tasks.
func (s *State) leave(gone func(Process) bool) {
	for i := range s.devices {
		s.devices[i].leave(gone)
	}
}

func (d *DeviceState) leave(gone func(Process) bool) {
	stay := map[JobID]bool{}
	for p := range d.contexts {
		if gone(p) {
			delete(d.contexts, p)
			d.UsedBytes -= d.ContextBytes
		} else {
			stay[p.Job] = true
		}
	}
	maps.DeleteFunc(d.jobs, func(job JobID, _ int) bool { return !stay[job] })
	if len(d.jobs) == 0 {
		d.isolated = false
	}
}

func (d *DeviceState) occupy(p Placement) {
	if p.Exclusive {
		d.closers++
	}
	if p.Blocks != nil {
		d.moveBlocks(p, -1)
		d.NextSM = p.NextSM
	}
}

func (d *DeviceState) vacate(p Placement) {
	if p.Exclusive {
		d.closers--
	}
	if p.Blocks != nil {
		d.moveBlocks(p, +1)
	}
}

func (d *DeviceState) moveBlocks(p Placement, sign int) {
	for i, n := range p.Blocks {
		d.SMs[i].FreeBlocks += sign * n
		d.SMs[i].FreeSlots += sign * n * p.WarpSlots
	}
}
