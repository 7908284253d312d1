package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
)

// process is a simulated job, or one rank of it. It does its steps one after another; its tasks follow from them.
type process struct {
	*kind
	x     *Executor
	index int
	rank  int
	group *group // nil: its job has no other
	job   *mixes.Job
	noise *rand.Rand // of the lengths of its steps; nil: none
	// stretch is how many times as long its steps take as in its profile, which is drawn for each job; 0: as long.
	stretch float64
	try     *runner.Try // nil: its first

	todo     []step // which other jobs of its kind may have too
	again    []step // todo from the step on that it does
	task     task
	device   int       // of the job, or of the latest task
	mirrors  []*mirror // its other devices, if it has several
	contexts []*device // on which it has its context, until it ends
	gone     bool
	kernels  bool  // run, or have just run
	nice     int32 // of its host steps
	parts    int32 // of the step that it does, not done yet, if the process has several devices or managed memory
	swap     swap
	whole    *whole    // its job, if that gives way as a whole; else nil
	faulted  int64     // bytes that page faults have brought
	paging   []*paging // its kernel on each of its devices, if that has managed memory
	makes    float64   // seconds that it takes, once there is a device, to make what the process has allocated
	owes     float64   // seconds that a device takes to push managed memory out for what the process has allocated

	pool         *pool     // in which it works now
	work         *activity // nil, or own
	own          activity  // of the step that it does
	doing        *step     // with work
	then         func()    // what follows it
	kernelsSince time.Duration
	kernelSince  time.Duration // when the latest kernel began
	kept         *kept         // nil: no device fails
}

var statusOK = 0 // all records of jobs that end well point to it

// Exit statuses as the builtin suite's programs use them.
const (
	statusOOM     = 2
	statusRefused = 5
)

func (p *process) start() {
	if p.gone {
		return
	}
	p.x.post(runner.JobStarted{Job: p.index})
	p.todo = p.plan()
	p.keep()
	p.proceed()
}

// proceed does steps, up to one that takes time or that the scheduler must be asked for.
func (p *process) proceed() {
	for !p.gone && len(p.todo) > 0 {
		s := &p.todo[0]
		if s.Kind != profiles.Kernel {
			p.recordKernels()
		}
		if p.pays() {
			return
		}
		if (p.swap.moving != nil || p.swap.locked) && !s.offDevice() { // its gate is closed
			p.swap.held = p.proceed
			return
		}
		if s.endsBurst() {
			p.yield()
		}
		if p.asks(s) || p.resumes(s) {
			return
		}
		p.again, p.todo = p.todo, p.todo[1:]
		p.swap.used(p, s)
		switch {
		case s.Kind == profiles.Allocate:
			p.allocate(s.Step)
		case s.Kind == profiles.Free:
			p.free(s.Object)
		case s.Kind == profiles.CopyIn && !p.task.open:
			p.task.record(s)
		case s.Kind == profiles.Kernel:
			p.launch(p.here(s))
			return
		case s.Kind == profiles.Barrier || s.Kind == profiles.Message:
			if !p.meets(s) {
				return
			}
		default:
			p.do(p.here(s), nil)
			return
		}
	}
	p.recordKernels()
	p.exit(runner.Exit{Status: &statusOK})
}

// do works through a step and goes on with then; nil: with its next step.
func (p *process) do(s *step, then func()) {
	p.pool = p.x.cores
	switch s.on {
	case link:
		p.pool = p.x.devices[p.device].link
	case sms:
		p.pool = p.x.devices[p.device].sms
	case faults:
		p.pool = p.x.devices[p.device].faults
	case nic:
		p.pool = p.x.nicOut
	}
	p.doing, p.then = s, then
	p.works()
	s.work(&p.own)
	if p.pool == p.x.cores {
		p.own.nice = int(p.nice)
	}
	p.work = p.x.share(p.pool, &p.own)
	if len(p.mirrors) > 0 {
		p.doAlso(s)
	}
}

// did goes on behind the step that it was doing.
func (p *process) did() {
	if len(p.paging) > 0 {
		p.swap.touched, p.paging = p.reached(), nil
	}
	s, then := p.doing, p.then
	if s.on != cores && s.on != nic {
		p.swap.last = p.x.now
		p.swap.ended++
	}
	p.pool, p.work, p.doing, p.then = nil, nil, nil, nil
	p.moveOut()
	p.whole.changed()
	if then != nil {
		then()
		return
	}
	if s.on == sms {
		p.note()
	}
	p.save(s)
	p.proceed()
}

// pays waits until memory that can move is made, and until a device has pushed out what gave room to the process.
func (p *process) pays() bool {
	switch {
	case p.makes > 0 && p.task.open:
		p.do(&step{on: faults, soloS: p.makes}, nil)
		p.makes = 0
	case p.owes > 0:
		p.do(&step{on: faults, demand: 1, soloS: p.owes}, nil)
		p.owes = 0
	default:
		return false
	}
	return true
}

// launch runs a kernel.
func (p *process) launch(s *step) {
	p.tellShape(s.Step)
	if p.managed > 0 {
		p.pages(s)
		return
	}
	if s.Endless {
		forEver := *s
		forEver.soloS, s = math.Inf(1), &forEver
	}
	p.begins()
	var then func()
	if on := p.onHost(s); on > 0 {
		then = func() {
			p.note()
			p.do(&step{on: link, demand: remoteShare, soloS: on}, nil)
		}
	}
	p.do(s, then)
	p.note()
}

// begins notes that a kernel begins.
func (p *process) begins() {
	p.kernelSince = p.x.now
	if !p.kernels {
		p.kernels, p.kernelsSince = true, p.x.now
	}
}

// recordKernels records the kernels that followed each other until now as one interval.
func (p *process) recordKernels() {
	if !p.kernels {
		return
	}
	p.kernels = false
	record := func(place, device int) {
		p.x.rec.Kernel(results.Kernel{Job: p.index, Task: new(p.seqOn(place)), Device: device, Name: "all kernels (simulated)",
			StartS: p.kernelsSince.Seconds(), EndS: p.x.now.Seconds(), BusyS: (p.x.now - p.kernelsSince).Seconds()})
	}
	record(0, p.device)
	for i, m := range p.mirrors {
		record(i+1, m.index)
	}
}

// halt takes what the process does out of its pool.
func (p *process) halt() {
	p.unpage()
	if p.work != nil && p.work.cohort != nil { // else the other devices are not done with the step
		p.x.leave(p.pool, p.work)
	}
}

// giveBack ends the latest task, and takes its memory off the device.
func (p *process) giveBack() {
	p.forget()
	for _, o := range p.task.objects {
		p.x.devices[p.device].give(o)
	}
	p.close()
}

// exit ends the process, whatever its state.
func (p *process) exit(e runner.Exit) {
	if p.gone {
		return
	}
	p.gone = true
	delete(p.x.procs, p.key())
	p.halt()
	p.recordFaults()
	p.leaveOthers()
	p.pool, p.work = nil, nil
	p.stay()
	p.whole.changed()
	if p.task.open {
		p.giveBack()
	}
	for _, d := range p.contexts {
		d.free += d.model.context()
	}
	if p.device != noDevice {
		p.x.note(p.x.devices[p.device])
	}
	p.todo, p.task.objects = nil, nil
	if p.group != nil {
		p.group.ended(p, e)
		return
	}
	p.x.at(p.x.now, func() { p.x.post(runner.JobEnded{Job: p.index, Exit: e}) })
}

var (
	_ runner.Revoker     = (*Executor)(nil)
	_ runner.Prioritizer = (*Executor)(nil)
)
