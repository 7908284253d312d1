package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// state is the accounting of a node's devices. Policies read it as a schedulers.View.
type state struct {
	devices []device
	latest  int // device of the latest grant, -1 before the first
	jobs    map[schedulers.JobID]*presence
	changed []int // devices of which more or less is in use since the index looked
}

// presence is what a job has on the node.
type presence struct {
	contexts []context
	tasks    []schedulers.TaskID

	// Where these begin, because most jobs never have more.
	oneContext [1]context
	oneTask    [1]schedulers.TaskID
}

func newPresence() *presence {
	p := &presence{}
	p.contexts, p.tasks = p.oneContext[:0], p.oneTask[:0]
	return p
}

// context is a process's context on a device.
type context struct {
	device  int
	process schedulers.Process
}

// device is what is in use on one device.
type device struct {
	limits    schedulers.Device
	index     int
	isChanged bool // it is in state.changed
	phase     phase
	sealed    bool   // Engine.Seal
	usedBytes int64  // of tasks and contexts, on the device
	usedWarps uint64 // whole grids of the tasks here
	tasks     int
	sms       []schedulers.SM
	nextSM    int

	contexts map[schedulers.Process]bool
	jobs     map[schedulers.JobID]int  // jobs with a context here -> their tasks here now
	isolated bool                      // the only job here shares the device with no other job
	growing  int                       // tasks here that wait for more memory
	claimed  int                       // tasks here that wait for more memory and are not stalled
	closers  int                       // tasks here that let no other task join (Placement.Exclusive)
	shares   int                       // of the jobs with a task here (schedulers.Terms.Share)
	barred   map[schedulers.JobID]bool // jobs that are granted nothing here (Engine.Limit)
	member   bool                      // a copy in which a member of a task for several devices is here (attempt)
	excesses map[schedulers.Process]*excess
	given    map[schedulers.Process]bool // those that gave memory back since the latest look; nil: nobody has looked

	// Under a Preempter:
	held     []*holding // the tasks here, by id
	permits  map[schedulers.Process]permit
	reserved *schedulers.TaskID // the request that room is being made for; nil: none
	lent     map[schedulers.Process]lent
	arriving int // moves to this device that are under way
}

func newState(limits []schedulers.Device) *state {
	s := &state{latest: -1, devices: make([]device, len(limits)), jobs: map[schedulers.JobID]*presence{}}
	for i, l := range limits {
		s.devices[i] = device{limits: l, index: i, contexts: map[schedulers.Process]bool{}, jobs: map[schedulers.JobID]int{}, sms: make([]schedulers.SM, l.SMs)}
		s.devices[i].freeSMs()
	}
	return s
}

// clear makes s what newState returns.
func (s *state) clear() {
	s.latest, s.changed = -1, s.changed[:0]
	clear(s.jobs)
	for i := range s.devices {
		d := &s.devices[i]
		clear(d.contexts)
		clear(d.jobs)
		clear(d.permits)
		*d = device{limits: d.limits, index: i, phase: d.phase, sealed: d.sealed, contexts: d.contexts, jobs: d.jobs, permits: d.permits, sms: d.sms}
		d.freeSMs()
	}
}

func (d *device) freeSMs() {
	for i := range d.sms {
		d.sms[i] = schedulers.SM{FreeBlocks: d.limits.BlocksPerSM, FreeSlots: d.limits.WarpsPerSM * schedulers.SlotsPerWarp}
	}
}

func (s *state) Len() int                           { return len(s.devices) }
func (s *state) Device(i int) schedulers.DeviceView { return &s.devices[i] }
func (s *state) Latest() int                        { return s.latest }

// change notes that more or less of device i is in use than before, or that it is open to more or
// fewer tasks.
func (s *state) change(i int) {
	if d := &s.devices[i]; !d.isChanged {
		d.isChanged = true
		s.changed = append(s.changed, i)
	}
}

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

func (d *device) Context(p schedulers.Process) (here, permit bool) {
	return d.contexts[p], d.permitted(p)
}

func (d *device) Permits() int { return len(d.permits) }

func (d *device) Ranks() iter.Seq2[schedulers.JobID, int] {
	return func(yield func(schedulers.JobID, int) bool) {
		for p, its := range d.permits {
			if its.ranks > 1 && !yield(p.Job, its.ranks) {
				return
			}
		}
	}
}

func (d *device) TaskViews() iter.Seq[schedulers.TaskView] {
	return func(yield func(schedulers.TaskView) bool) {
		for _, h := range d.held {
			if !yield(d.view(h)) {
				return
			}
		}
	}
}

// permit is since when a context has its permit, and how long its request had waited.
type permit struct {
	since, waited time.Duration
	ranks         int // of its job
}

// permit gives the context of p a permit, unless it has one.
func (d *device) permit(p schedulers.Process, its permit) {
	if d.permits == nil {
		d.permits = map[schedulers.Process]permit{}
	}
	if _, has := d.permits[p]; !has {
		d.permits[p] = its
	}
}

// unpermit takes the permit of p's context.
func (d *device) unpermit(p schedulers.Process) {
	delete(d.permits, p)
	has := d.lent[p]
	has.permit = false
	d.lend(p, has)
}

func (d *device) permitted(p schedulers.Process) bool {
	_, has := d.permits[p]
	return has
}

// list enters a task that is here.
func (d *device) list(h *holding) {
	at, _ := slices.BinarySearchFunc(d.held, h, byID)
	d.held = slices.Insert(d.held, at, h)
}

func (d *device) unlist(h *holding) {
	d.held = slices.DeleteFunc(d.held, func(o *holding) bool { return o == h })
}

// hasTaskOf reports whether a task of p is here.
func (d *device) hasTaskOf(p schedulers.Process) bool {
	return slices.ContainsFunc(d.held, func(h *holding) bool { return h.task.Process() == p })
}

// isReservedFrom reports whether room is being made here for another request.
func (d *device) isReservedFrom(id schedulers.TaskID) bool {
	return d.reserved != nil && *d.reserved != id
}

// Open is the admission rule.
func (d *device) Open(t schedulers.Task) bool {
	if t.OnDevice != nil && *t.OnDevice != d.index || d.barred[t.Job] {
		return false
	}
	others := len(d.jobs)
	if _, here := d.jobs[t.Job]; here {
		others--
	}
	if others > 0 && (t.Isolate || d.isolated) {
		return false
	}
	if share := t.Terms.OrNone().Share; share > 0 && d.jobs[t.Job] == 0 && d.shares > schedulers.WholeDevice-share {
		return false
	}
	return d.admits(t) && !d.member && d.claimed == 0 && d.closers == 0 && !d.isReservedFrom(t.ID)
}

// admits reports whether t may join the device as far as it is closed.
func (d *device) admits(t schedulers.Task) bool {
	return !d.shuts(t.Process()) && (d.phase == open || d.phase == closing && d.belongs(t))
}

// shuts reports whether the device is sealed, and the process has no context here.
func (d *device) shuts(p schedulers.Process) bool { return d.sealed && !d.contexts[p] }

// belongs reports whether t must be here, and its process has its context here.
func (d *device) belongs(t schedulers.Task) bool { return t.OnDevice != nil && d.contexts[t.Process()] }

func (d *device) Closed() bool { return d.phase != open }

func (d *device) ContextBytes(t schedulers.Task) int64 {
	if d.limits.ContextBytes == 0 || d.contexts[t.Process()] {
		return 0
	}
	return d.limits.ContextBytes
}

// add puts t at p and returns the bytes that t is charged.
func (s *state) add(t schedulers.Task, p schedulers.Placement) (bytes int64) {
	bytes = s.devices[p.Device].charged(t, p)
	s.put(t, bytes, p)
	s.latest = p.Device
	return bytes
}

// charged is what t is charged at p, which is here.
func (d *device) charged(t schedulers.Task, p schedulers.Placement) int64 {
	if p.WholeMemory {
		return d.FreeBytes() - d.ContextBytes(t)
	}
	return t.Needs()
}

// put puts t at p and charges it bytes.
func (s *state) put(t schedulers.Task, bytes int64, p schedulers.Placement) {
	s.enter(p.Device, t.Process())
	s.charge(p.Device, bytes)
	s.devices[p.Device].join(t, p)
	if job := s.jobs[t.Job]; !t.Several() || len(job.tasks) == 0 {
		job.tasks = append(job.tasks, t.ID)
	}
}

// join counts t, which is at p.
func (d *device) join(t schedulers.Task, p schedulers.Placement) {
	d.usedWarps += t.Warps()
	d.tasks++
	if d.jobs[t.Job]++; d.jobs[t.Job] == 1 {
		d.shares += t.Terms.OrNone().Share
	}
	d.isolated = d.isolated || t.Isolate
	d.occupy(p)
}

// charge says that bytes more are in use on device i.
func (s *state) charge(i int, bytes int64) {
	s.devices[i].usedBytes += bytes
	s.change(i)
}

// claim says that so many tasks more wait to grow on device i and are not stalled.
func (s *state) claim(i int, tasks int) {
	s.devices[i].claimed += tasks
	s.change(i)
}

// enter gives a process a context on device i if it lacks one.
func (s *state) enter(i int, p schedulers.Process) {
	d := &s.devices[i]
	if d.contexts[p] {
		if x := d.excesses[p]; x != nil {
			x.entered = false
		}
		return
	}
	d.contexts[p] = true
	d.jobs[p.Job] += 0
	s.charge(i, d.limits.ContextBytes)
	if s.jobs[p.Job] == nil {
		s.jobs[p.Job] = newPresence()
	}
	s.jobs[p.Job].contexts = append(s.jobs[p.Job].contexts, context{i, p})
}

// remove gives back what t holds at p, of which t is charged bytes. The process's context
// stays until leave.
func (s *state) remove(t schedulers.Task, bytes int64, p schedulers.Placement) {
	job := s.jobs[t.Job]
	s.charge(p.Device, -bytes)
	s.devices[p.Device].gaveBack(t.Process())
	s.devices[p.Device].part(t, p)
	job.tasks = slices.DeleteFunc(job.tasks, func(id schedulers.TaskID) bool { return id == t.ID })
}

// tasksOf returns the tasks of the job that have a device. They are the state's own.
func (s *state) tasksOf(job schedulers.JobID) []schedulers.TaskID {
	if p := s.jobs[job]; p != nil {
		return p.tasks
	}
	return nil
}

// contextsOf returns the contexts of the job. They are the state's own.
func (s *state) contextsOf(job schedulers.JobID) []context {
	if p := s.jobs[job]; p != nil {
		return p.contexts
	}
	return nil
}

// part is the reverse of join.
func (d *device) part(t schedulers.Task, p schedulers.Placement) {
	d.usedWarps -= t.Warps()
	d.tasks--
	if d.jobs[t.Job]--; d.jobs[t.Job] == 0 {
		d.shares -= t.Terms.OrNone().Share
	}
	d.vacate(p)
}

// leave gives back the contexts of the job that are gone, which have no tasks.
func (s *state) leave(job schedulers.JobID, gone func(context) bool) {
	p := s.jobs[job]
	if p == nil {
		return
	}
	var left []context
	for _, c := range p.contexts {
		if !gone(c) {
			left = append(left, c)
			continue
		}
		d := &s.devices[c.device]
		s.charge(c.device, -d.limits.ContextBytes-d.chargedUnseen(c.process))
		delete(d.contexts, c.process)
		delete(d.permits, c.process)
		delete(d.excesses, c.process)
	}
	for _, c := range p.contexts {
		if slices.ContainsFunc(left, func(l context) bool { return l.device == c.device }) {
			continue
		}
		d := &s.devices[c.device]
		delete(d.jobs, job)
		if len(d.jobs) == 0 {
			d.isolated = false
		}
	}
	if p.contexts = left; len(left) == 0 {
		delete(s.jobs, job)
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
