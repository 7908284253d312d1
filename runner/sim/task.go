package sim

import (
	"slices"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// task is what the process's tasks hold, by the rules of the lazy runtime (docs/design/lazy-runtime.md).
type task struct {
	begun   int    // tasks so far
	seq     int    // of the latest, among those of all ranks of the job
	open    bool   // the latest of them has its device
	told    bool   // the scheduler knows how many blocks of a kernel an SM holds
	asked   int64  // bytes of the latest request
	granted int64  // bytes
	used    int64  // bytes of all objects
	warps   uint64 // of the largest kernel that the scheduler knows

	objects  map[string]*object
	recorded []step // copies from before the grant
	copies   int64  // their bytes
}

// recordLimit is how many bytes of copies a process records before it asks for its device
// (CASE_RECORD_LIMIT).
const recordLimit = 64 * mib

// id is that of the process's latest task, on its first device.
func (p *process) id() schedulers.TaskID { return p.idOn(0) }

// rankShift leaves room for more tasks than a process can have, each of which takes a step (profiles).
const rankShift = 52

// askedBy returns the process whose task has this id.
func askedBy(id schedulers.TaskID) rankOf {
	return rankOf{int32(uint32(id) - 1), int32(id >> rankShift)}
}

// asks posts what the process must ask the scheduler for before it can do a step, if anything.
// The answer comes to answered.
func (p *process) asks(s *step) bool {
	t := &p.task
	switch {
	case !t.open && t.binds(s.Step):
		p.begin(s.Step)
	case t.open && s.Kind == profiles.Allocate && t.used+s.Bytes > t.granted:
		t.asked = t.used + s.Bytes - t.granted
		p.tell(func(id schedulers.TaskID) runner.Event {
			return runner.TaskGrow{ID: id, Bytes: t.asked, Wait: p.job.Wait}
		})
	default:
		return false
	}
	return true
}

// binds reports whether a step of a process without a device needs one.
func (t *task) binds(s *profiles.Step) bool {
	switch s.Kind {
	case profiles.Kernel, profiles.CopyOut:
		return true
	case profiles.Allocate:
		return s.Binds
	case profiles.CopyIn:
		return t.copies+s.Bytes > recordLimit
	}
	return false
}

// begin asks for a task with all that is allocated, for a step that needs it. The first task has
// the footprint that the job declares, or starts again with, if it is larger (CASE_FOOTPRINT).
func (p *process) begin(s *profiles.Step) {
	t := &p.task
	want := schedulers.Task{Job: schedulers.JobID(p.index), Serial: p.rank, Bytes: t.used, Managed: s.Managed, Wait: p.job.Wait}
	switch s.Kind {
	case profiles.Allocate:
		want.Bytes += s.Bytes
	case profiles.Kernel:
		want.Blocks, want.ThreadsPerBlock, want.BlocksPerSM = s.Blocks, s.ThreadsPerBlock, s.BlocksPerSM
	}
	first, least := 0, int64(0)
	if p.try != nil {
		first, least = p.try.Tasks, p.try.Bytes
	}
	if f := p.job.Footprint; t.begun == first {
		want.Bytes = max(want.Bytes, f.Bytes, least)
		if want.Blocks == 0 {
			want.Blocks, want.ThreadsPerBlock = f.Blocks, f.ThreadsPerBlock
		}
	}
	if p.movable {
		want.Can, want.Need = schedulers.Movable|1<<schedulers.Advise, new(p.needs(s))
		want.Stays = *want.Need
		want.Bytes = max(want.Bytes, p.managed)
		if p.stops {
			want.Can |= 1 << schedulers.Stop
		}
		if p.canMove() {
			want.Can |= 1 << schedulers.Move
		}
	}
	t.seq = t.begun
	t.begun++
	if p.group != nil {
		t.seq = p.group.tasks
		p.group.tasks++
	}
	t.asked, t.warps, t.told = want.Bytes, want.Warps(), want.BlocksPerSM > 0
	want.ID = p.id()
	if len(p.mirrors) > 0 {
		want.OnDevice = new(p.device)
	}
	p.post(runner.TaskBegin{Task: want})
	for i, m := range p.mirrors {
		want.ID, want.OnDevice = p.idOn(i+1), &m.index
		p.post(runner.TaskBegin{Task: want})
	}
}

// answered goes on with the step that had to ask.
func (p *process) answered(d schedulers.Decision) {
	t := &p.task
	switch {
	case p.gone || d.Task.ID != p.id(): // or of another of its devices
		return
	case d.Kind == schedulers.Granted:
		p.device = d.Device
		t.granted = t.asked
		p.open()
		p.swap.permit, p.swap.limit = true, nil
		if p.managed > 0 { // what its first kernel references is not known yet
			p.yield()
		}
		if !p.fill(d.Host) {
			return
		}
	case d.Kind == schedulers.Grown:
		t.granted += t.asked
		p.swap.brings = t.asked
	case d.Kind == schedulers.Resumed:
		p.resumed(d.Host)
		return
	case d.Kind == schedulers.ResumeRefused && d.Reason.Cause != schedulers.TimedOut:
		p.outOfMemory(d.Reason.NeedBytes)
		return
	case d.Kind == schedulers.GrowRefused && d.Reason.Cause != schedulers.TimedOut:
		p.outOfMemory(t.asked)
		return
	default:
		p.exit(runner.Exit{Status: new(statusRefused), StderrTail: d.Reason.Error()})
		return
	}
	p.proceed()
}

// open notes that the latest task has its device.
func (p *process) open() {
	p.task.open = true
	if p.movable {
		at, _ := p.x.tells(p)
		p.x.telling = slices.Insert(p.x.telling, at, p)
	}
}

// close notes that the latest task has ended.
func (p *process) close() {
	p.task.open = false
	if at, found := p.x.tells(p); found {
		p.x.telling = slices.Delete(p.x.telling, at, at+1)
	}
}

// fill puts the process's context, if it has none there, and all that it has allocated on its new
// device, but for so many bytes that stay on the host, and plans the copies that it has recorded. false: the device does not
// have the memory.
func (p *process) fill(stays int64) bool {
	t, d := &p.task, p.x.devices[p.device]
	known := slices.Contains(p.contexts, d)
	if !p.take(max(0, p.placed()-stays), known) {
		missing := t.used
		if s := p.todo[0]; s.Kind == profiles.Allocate {
			missing += s.Bytes
		}
		p.outOfMemory(missing)
		return false
	}
	if !known {
		p.contexts = append(p.contexts, d)
	}
	p.enterAlso(known)
	for _, o := range t.objects {
		if !p.movable {
			o.resident = o.bytes
		}
	}
	p.swap.advised = stays > 0 && p.todo[0].Kind != profiles.Allocate
	for _, o := range t.using(p.todo[0].Step) {
		left := min(o.bytes, stays)
		o.resident, stays = o.bytes-left, stays-left
	}
	if len(t.recorded) > 0 {
		p.todo = slices.Concat(t.recorded, p.todo)
		t.recorded, t.copies = nil, 0
	}
	return true
}

// allocate adds an object. While the task has no device, the object is an address only.
func (p *process) allocate(s *profiles.Step) {
	t, o := &p.task, &object{name: s.Object, bytes: s.Bytes}
	if p.movable {
		p.makes += s.MovableS
		o.copied = s.MovableS > 0
	}
	switch {
	case s.Managed:
		o.inBlocks(p.x.devices[p.device])
	case t.open && p.takeOn(p.x.devices[p.device], p.brought(o.bytes)):
		o.resident = p.brought(o.bytes)
		p.swap.brings = 0
	case t.open:
		p.outOfMemory(o.bytes)
		return
	}
	if !p.allocateAlso(o, t.open) {
		p.x.devices[p.device].give(o)
		p.outOfMemory(o.bytes)
		return
	}
	if t.objects == nil {
		t.objects = map[string]*object{}
	}
	t.objects[o.name] = o
	t.used += o.bytes
}

// free ends the task if nothing is left of it.
func (p *process) free(name string) {
	t := &p.task
	o := t.objects[name]
	delete(t.objects, name)
	for _, m := range p.mirrors {
		m.give(m.objects[name])
		delete(m.objects, name)
	}
	t.used -= o.bytes
	if !t.open {
		t.recorded = slices.DeleteFunc(t.recorded, func(s step) bool {
			if s.Object == name {
				t.copies -= s.Bytes
			}
			return s.Object == name
		})
		return
	}
	p.x.devices[p.device].give(o)
	if len(t.objects) == 0 {
		p.close()
		p.tell(func(id schedulers.TaskID) runner.Event { return runner.TaskFree{ID: id} })
	}
}

// record notes a copy to a device that the process does not have yet.
func (t *task) record(s *step) {
	t.recorded = append(t.recorded, *s)
	t.copies += s.Bytes
}

// tellShape tells the scheduler of a kernel that is news: the first of the task whose occupancy is
// known, or one with more than twice the warps of the largest so far.
func (p *process) tellShape(k *profiles.Step) {
	t := &p.task
	warps := schedulers.Task{Blocks: k.Blocks, ThreadsPerBlock: k.ThreadsPerBlock}.Warps()
	if warps <= 2*t.warps && (t.told || k.BlocksPerSM == 0) {
		return
	}
	t.warps, t.told = max(t.warps, warps), t.told || k.BlocksPerSM > 0
	p.tell(func(id schedulers.TaskID) runner.Event {
		return runner.TaskShape{ID: id, Blocks: k.Blocks, ThreadsPerBlock: k.ThreadsPerBlock, BlocksPerSM: k.BlocksPerSM}
	})
}

// outOfMemory ends the process for an allocation that failed.
func (p *process) outOfMemory(bytes int64) {
	p.x.post(runner.OutOfMemory{Process: p.process(), Bytes: uint64(bytes), Where: "cudaMalloc (simulated)"})
	p.exit(runner.Exit{Status: new(statusOOM), StderrTail: "out of memory (simulated)"})
}
