package plain

import (
	"iter"
	"maps"

	"github.com/caserun/caserun/schedulers"
)

// state is the accounting of a node's devices. Policies read it as a schedulers.View.
type state struct {
	devices []device
	latest  int // device of the latest grant, -1 before the first
}

// device is what is in use on one device.
type device struct {
	limits    schedulers.Device
	index     int
	usedBytes int64  // of tasks and contexts, on the device
	usedWarps uint64 // whole grids of the tasks here
	tasks     int
	sms       []schedulers.SM
	nextSM    int

	contexts map[schedulers.Process]bool
	jobs     map[schedulers.JobID]int // jobs with a context here -> their tasks here now
	isolated bool                     // the only job here shares the device with no other job
	growing  int                      // tasks here that wait for more memory
	claimed  int                      // tasks here that wait for more memory and are not stalled
	closers  int                      // tasks here that let no other task join (Placement.Exclusive)

	// Under a Preempter:
	held     []*holding // the tasks here, by id
	permits  map[schedulers.Process]bool
	reserved *schedulers.TaskID // the request that room is being made for; nil: none
	resuming int                // tasks here that wait to resume and not to grow
	live     int                // tasks here that owe an answer or may be asked again soon, and contexts with a permit that wait for nothing
}

func newState(limits []schedulers.Device) *state {
	s := &state{latest: -1, devices: make([]device, len(limits))}
	for i, l := range limits {
		d := device{limits: l, index: i, contexts: map[schedulers.Process]bool{}, jobs: map[schedulers.JobID]int{}, sms: make([]schedulers.SM, l.SMs)}
		for j := range d.sms {
			d.sms[j] = schedulers.SM{FreeBlocks: l.BlocksPerSM, FreeSlots: l.WarpsPerSM * schedulers.SlotsPerWarp}
		}
		s.devices[i] = d
	}
	return s
}

func (s *state) Len() int                           { return len(s.devices) }
func (s *state) Device(i int) schedulers.DeviceView { return &s.devices[i] }
func (s *state) Latest() int                        { return s.latest }

func (d *device) Limits() schedulers.Device        { return d.limits }
func (d *device) UsedBytes() int64                 { return d.usedBytes }
func (d *device) FreeBytes() int64                 { return d.limits.CapacityBytes - d.usedBytes }
func (d *device) UsedWarps() uint64                { return d.usedWarps }
func (d *device) Tasks() int                       { return d.tasks }
func (d *device) TasksOf(job schedulers.JobID) int { return d.jobs[job] }
func (d *device) Jobs() int                        { return len(d.jobs) }
func (d *device) Saturated() bool                  { return d.closers > 0 }
func (d *device) SM(i int) schedulers.SM           { return d.sms[i] }
func (d *device) NextSM() int                      { return d.nextSM }

// Context implements schedulers.DeviceView.
func (d *device) Context(p schedulers.Process) (here, permit bool) {
	return d.contexts[p], d.permits[p]
}

func (d *device) Permits() int { return len(d.permits) }

// TaskViews implements schedulers.DeviceView.
func (d *device) TaskViews() iter.Seq[schedulers.TaskView] {
	return func(yield func(schedulers.TaskView) bool) {
		for _, h := range d.held {
			if !yield(d.view(h)) {
				return
			}
		}
	}
}

// permit gives the context of p a permit, or takes it.
func (d *device) permit(p schedulers.Process, has bool) {
	switch {
	case !has:
		delete(d.permits, p)
	case d.permits == nil:
		d.permits = map[schedulers.Process]bool{p: true}
	default:
		d.permits[p] = true
	}
}

// isReservedFrom reports whether room is being made here for another request.
func (d *device) isReservedFrom(id schedulers.TaskID) bool {
	return d.reserved != nil && *d.reserved != id
}

// Open implements schedulers.DeviceView: the admission rule.
func (d *device) Open(t schedulers.Task) bool {
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
	return d.claimed == 0 && d.closers == 0 && !d.isReservedFrom(t.ID)
}

// ContextBytes implements schedulers.DeviceView.
func (d *device) ContextBytes(t schedulers.Task) int64 {
	if d.contexts[t.Process()] {
		return 0
	}
	return d.limits.ContextBytes
}

// add puts t at p and returns the bytes that t is charged.
func (s *state) add(t schedulers.Task, p schedulers.Placement) (bytes int64) {
	d := &s.devices[p.Device]
	bytes = t.Needs()
	if p.WholeMemory {
		bytes = d.FreeBytes() - d.ContextBytes(t)
	}
	s.put(t, bytes, p)
	s.latest = p.Device
	return bytes
}

// put puts t at p and charges it bytes.
func (s *state) put(t schedulers.Task, bytes int64, p schedulers.Placement) {
	d := &s.devices[p.Device]
	d.enter(t.Process())
	d.usedBytes += bytes
	d.usedWarps += t.Warps()
	d.tasks++
	d.jobs[t.Job]++
	d.isolated = d.isolated || t.Isolate
	d.occupy(p)
}

// enter gives a process a context if it lacks one.
func (d *device) enter(p schedulers.Process) {
	if !d.contexts[p] {
		d.contexts[p] = true
		d.usedBytes += d.limits.ContextBytes
		d.jobs[p.Job] += 0
	}
}

// remove gives back what t holds at p, of which t is charged bytes. The process's context
// stays until leave.
func (s *state) remove(t schedulers.Task, bytes int64, p schedulers.Placement) {
	d := &s.devices[p.Device]
	d.usedBytes -= bytes
	d.usedWarps -= t.Warps()
	d.tasks--
	d.jobs[t.Job]--
	d.vacate(p)
}

// hasTask reports whether the job has a task on any device.
func (s *state) hasTask(job schedulers.JobID) bool {
	for i := range s.devices {
		if s.devices[i].jobs[job] > 0 {
			return true
		}
	}
	return false
}

// hasContext reports whether the job has a context on any device.
func (s *state) hasContext(job schedulers.JobID) bool {
	for i := range s.devices {
		if _, here := s.devices[i].jobs[job]; here {
			return true
		}
	}
	return false
}

// leave gives back the contexts of processes that are gone. These processes have no tasks.
func (s *state) leave(gone func(schedulers.Process) bool) {
	for i := range s.devices {
		s.devices[i].leave(gone)
	}
}

func (d *device) leave(gone func(schedulers.Process) bool) {
	remaining := map[schedulers.JobID]bool{}
	for p := range d.contexts {
		if gone(p) {
			delete(d.contexts, p)
			delete(d.permits, p)
			d.usedBytes -= d.limits.ContextBytes
		} else {
			remaining[p.Job] = true
		}
	}
	maps.DeleteFunc(d.jobs, func(job schedulers.JobID, _ int) bool { return !remaining[job] })
	if len(d.jobs) == 0 {
		d.isolated = false
	}
}

func (d *device) occupy(p schedulers.Placement) {
	if p.Exclusive {
		d.closers++
	}
	if p.Blocks != nil {
		d.moveBlocks(p, -1)
		d.nextSM = p.NextSM
	}
}

func (d *device) vacate(p schedulers.Placement) {
	if p.Exclusive {
		d.closers--
	}
	if p.Blocks != nil {
		d.moveBlocks(p, +1)
	}
}

func (d *device) moveBlocks(p schedulers.Placement, sign int) {
	for i, n := range p.Blocks {
		d.sms[i].FreeBlocks += sign * n
		d.sms[i].FreeSlots += sign * n * p.WarpSlots
	}
}
