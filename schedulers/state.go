package schedulers

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
	Saturated bool // a task larger than the device has it alone

	jobs     map[JobID]int // jobs with a context here -> their tasks here now
	isolated bool          // the one job here shares with nobody
	growing  int           // tasks here that wait for more memory
}

// SM is the free part of one streaming multiprocessor.
type SM struct{ FreeBlocks, FreeWarps int }

func newState(devices []Device) *State {
	s := &State{last: -1, devices: make([]DeviceState, len(devices))}
	for i, d := range devices {
		ds := DeviceState{Device: d, jobs: map[JobID]int{}, SMs: make([]SM, d.SMs)}
		for j := range ds.SMs {
			ds.SMs[j] = SM{FreeBlocks: d.BlocksPerSM, FreeWarps: d.WarpsPerSM}
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

// Open reports whether t may join the device at all: isolation is respected,
// and no task here waits for memory that t could take from it.
func (d *DeviceState) Open(t Task) bool {
	others := len(d.jobs)
	if _, here := d.jobs[t.Job]; here {
		others--
	}
	if others > 0 && (t.Isolate || d.isolated) {
		return false
	}
	return d.growing == 0
}

// Need is what t would add to UsedBytes: its bytes, and a context where its
// job has none on this device yet.
func (d *DeviceState) Need(t Task) int64 { return t.Bytes + d.contextFor(t) }

// Fits reports whether t's memory fits now. No sum is formed that a size near
// the largest integer could wrap.
func (d *DeviceState) Fits(t Task) bool { return t.Bytes <= d.FreeBytes()-d.contextFor(t) }

func (d *DeviceState) contextFor(t Task) int64 {
	if _, here := d.jobs[t.Job]; here {
		return 0
	}
	return d.ContextBytes
}

// FreeBytes is the memory that can still be handed out; negative where tasks
// of a scheduler without memory knowledge hold more than there is.
func (d *DeviceState) FreeBytes() int64 { return d.CapacityBytes - d.UsedBytes }

// Placement is where a policy puts a task.
type Placement struct {
	Device    int
	Blocks    []int // blocks added to each SM, or nil: SM slots are not tracked
	NextSM    int   // the device's cursor afterwards; read with Blocks
	Exclusive bool  // the task is larger than the device and saturates it
}

func (s *State) add(t Task, p Placement) {
	d := &s.devices[p.Device]
	d.UsedBytes += d.Need(t)
	d.UsedWarps += t.Warps()
	d.Tasks++
	d.jobs[t.Job]++
	d.isolated = d.isolated || t.Isolate
	d.Saturated = d.Saturated || p.Exclusive
	if p.Blocks != nil {
		d.moveBlocks(p.Blocks, -1, int(t.WarpsPerBlock()))
		d.NextSM = p.NextSM
	}
	s.last = p.Device
}

// remove gives back what task t, with grown bytes on top, holds at p. The
// job's context stays until leave.
func (s *State) remove(t Task, grown int64, p Placement) {
	d := &s.devices[p.Device]
	d.UsedBytes -= t.Bytes + grown
	d.UsedWarps -= t.Warps()
	d.Tasks--
	d.jobs[t.Job]--
	if p.Exclusive {
		d.Saturated = false
	}
	if p.Blocks != nil {
		d.moveBlocks(p.Blocks, +1, int(t.WarpsPerBlock()))
	}
}

// leave gives back the job's contexts once its process is gone.
func (s *State) leave(job JobID) {
	for i := range s.devices {
		d := &s.devices[i]
		if _, here := d.jobs[job]; here {
			delete(d.jobs, job)
			d.UsedBytes -= d.ContextBytes
			if len(d.jobs) == 0 {
				d.isolated = false
			}
		}
	}
}

func (d *DeviceState) moveBlocks(blocks []int, sign, warpsPerBlock int) {
	for i, n := range blocks {
		d.SMs[i].FreeBlocks += sign * n
		d.SMs[i].FreeWarps += sign * n * warpsPerBlock
	}
}
