package sim

import (
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// A process of several devices does on each of them what its steps say, all at the same time: it has its objects on each, and a task. A
// step ends when the last device has done it. Time on the host passes once.

// mirror is a device of such a process beside its first, and what the process has and does there.
type mirror struct {
	*device
	objects map[string]*object
	work    activity
}

// noDevice is the device of a process that has none yet.
const noDevice = -1

// place gives a new process the devices to which its job is bound.
func (p *process) place(devices []int) {
	p.own.done = p.did
	if p.device = noDevice; len(devices) == 0 {
		return
	}
	p.device = devices[0]
	for _, d := range devices[1:] {
		p.mirrors = append(p.mirrors, &mirror{device: p.x.devices[d], objects: map[string]*object{}, work: activity{done: p.part}})
	}
	if len(p.mirrors) > 0 {
		p.own.done = p.part
	}
}

// idOn is the id of the process's latest task on its first device (0), or on another of several. Such a process is its job's only one, so
// the place stands where others have their rank.
func (p *process) idOn(place int) schedulers.TaskID {
	return schedulers.TaskID(p.rank+place)<<rankShift | schedulers.TaskID(p.task.begun-1)<<32 | schedulers.TaskID(p.index+1)
}

// seqOn is the number of that task within the process.
func (p *process) seqOn(place int) int { return p.task.seq*(1+len(p.mirrors)) + place }

// tell posts an event of the task on the first device, and of those on the others.
func (p *process) tell(event func(schedulers.TaskID) runner.Event) {
	for place := range 1 + len(p.mirrors) {
		p.post(event(p.idOn(place)))
	}
}

// doAlso works through a step of the first device on the others.
func (p *process) doAlso(s *step) {
	if p.parts = 1; s.on != link && s.on != sms {
		return
	}
	for _, m := range p.mirrors {
		pool, here := m.link, p.onMirror(m, s)
		if s.on == sms {
			pool = m.sms
		}
		p.parts++
		here.work(&m.work)
		p.x.share(pool, &m.work)
	}
}

// onMirror is a step of the first device on another.
func (p *process) onMirror(m *mirror, s *step) step {
	first := p.x.devices[p.device].model
	if m.model == first {
		return *s
	}
	here := p.scaled(m.model, s.Step)
	here.soloS *= s.soloS / p.scaled(first, s.Step).soloS
	return here
}

// part goes on once all devices have done the step.
func (p *process) part() {
	if p.parts--; p.parts == 0 {
		p.did()
	}
}

// note records the SM use of the process's devices.
func (p *process) note() {
	p.x.note(p.x.devices[p.device])
	for _, m := range p.mirrors {
		p.x.note(m.device)
	}
}

// allocateAlso adds an object on the other devices. resident: the process has them, so it takes memory there.
func (p *process) allocateAlso(o *object, resident bool) bool {
	for _, m := range p.mirrors {
		own := &object{name: o.name, bytes: o.bytes}
		switch {
		case o.managed():
			own.inBlocks(m.device)
		case resident && !p.takeOn(m.device, o.bytes):
			return false
		case resident:
			own.resident = o.bytes
		}
		m.objects[o.name] = own
	}
	return true
}

// takeOn takes memory on a device. The process waits for what has to go out for it (pays).
func (p *process) takeOn(d *device, bytes int64) bool {
	written, ok := d.take(bytes)
	p.owes = max(p.owes, d.pushSeconds(written))
	return ok
}

// take takes memory on all devices of the process, each with its context unless it has one there, or on none.
func (p *process) take(bytes int64, hasContext bool) bool {
	devices := []*device{p.x.devices[p.device]}
	for _, m := range p.mirrors {
		devices = append(devices, m.device)
	}
	need := func(d *device) int64 {
		if hasContext {
			return bytes
		}
		return bytes + d.model.context()
	}
	for i, d := range devices {
		if !p.takeOn(d, need(d)) {
			for _, has := range devices[:i] {
				has.free += need(has)
			}
			return false
		}
	}
	return true
}

// enterAlso puts what the process has allocated on the other devices, where it has taken the memory, and its context if it is new.
func (p *process) enterAlso(known bool) {
	for _, m := range p.mirrors {
		for _, o := range m.objects {
			o.resident = o.bytes
		}
		if !known {
			p.contexts = append(p.contexts, m.device)
		}
	}
}

// leaveOthers ends what the process does on the other devices, and gives back what it has there.
func (p *process) leaveOthers() {
	for _, m := range p.mirrors {
		if m.work.cohort != nil && p.doing != nil {
			pool := m.link
			if p.doing.on == sms {
				pool = m.sms
			}
			p.x.leave(pool, &m.work)
		}
		for _, o := range m.objects {
			m.give(o)
		}
		p.x.note(m.device)
	}
}
