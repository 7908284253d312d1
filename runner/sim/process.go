package sim

import (
	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// process is a simulated job: host phase, task begin, copies in, kernels,
// copies out, host phase with the memory still held, task end, host phase.
type process struct {
	x       *Executor
	index   int
	job     mixes.Job
	profile profiles.Profile
	stretch func() float64 // noise for the next phase

	device int
	task   schedulers.TaskID
	held   int64
	gone   bool

	pool *pool // what it works in now
	work *activity
}

// Exit statuses as the builtin suite's programs use them.
const (
	statusOOM     = 2
	statusRefused = 5
)

func (p *process) start() {
	if p.gone {
		return
	}
	p.x.batch.JobStarted(p.index, p.x.now)
	p.host(p.profile.HostBeforeS, p.begin)
}

// in works through solo seconds in a pool and goes on with then.
func (p *process) in(to *pool, demand, solo float64, then func()) {
	if solo <= 0 {
		then()
		return
	}
	p.pool = to
	p.work = p.x.share(to, demand, solo*p.stretch(), func() {
		p.pool, p.work = nil, nil
		then()
	})
}

func (p *process) host(seconds float64, then func()) {
	p.in(p.x.cores, 1, seconds*p.x.config.Node.Model.HostFactor, then)
}

// copy moves bytes over the device's link. Alone it lasts as long as profiled,
// scaled as host time because pageable copies are bound by the host, but not
// less than the link needs.
func (p *process) copy(bytes int64, seconds float64, then func()) {
	m := p.x.config.Node.Model
	least := float64(bytes) / m.LinkBytesPerS
	solo := max(seconds*m.HostFactor, least)
	if solo == 0 {
		then()
		return
	}
	p.in(p.x.devices[p.device].link, least/solo, solo, then)
}

func (p *process) begin() {
	f := p.job.Footprint
	p.x.batch.TaskBegin(p.index, runner.TaskRequest{Bytes: f.Bytes, Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock, Wait: p.job.Wait},
		p.x.now, func(id schedulers.TaskID) {
			p.task = id
			p.x.byTask[id] = p
		})
}

func (p *process) answered(d schedulers.Decision) {
	if p.gone {
		return
	}
	if d.Kind != schedulers.Granted {
		p.exit(runner.Exit{Status: new(statusRefused), StderrTail: d.Reason.Error()})
		return
	}
	p.device = d.Device
	if !p.allocate() {
		p.x.batch.ReportOOM(p.index, 0, uint64(p.job.Footprint.Bytes), "cudaMalloc (simulated)", p.x.now)
		p.exit(runner.Exit{Status: new(statusOOM), StderrTail: "out of memory (simulated)"})
		return
	}
	r := p.profile
	p.copy(r.CopyInBytes, r.CopyInS, func() {
		p.kernels(func() {
			p.copy(r.CopyOutBytes, r.CopyOutS, func() {
				p.host(r.HostHeldS, p.end)
			})
		})
	})
}

// allocate takes the process's context and the job's bytes, whatever the
// scheduler believed: what is not free is out of memory.
func (p *process) allocate() bool {
	d := p.x.devices[p.device]
	need := p.job.Footprint.Bytes + contextBytes
	if need > d.free {
		return false
	}
	d.free -= need
	p.held = need
	return true
}

func (p *process) kernels(then func()) {
	d := p.x.devices[p.device]
	from := p.x.now
	p.in(d.sms, p.occupancy(), p.profile.KernelS*p.x.config.Node.Model.DeviceFactor, func() {
		p.x.note(d)
		p.x.rec.Kernel(results.Kernel{Job: p.index, Task: new(0), Device: p.device, Name: "all kernels (simulated)",
			StartS: from.Seconds(), EndS: p.x.now.Seconds(), BusyS: (p.x.now - from).Seconds()})
		then()
	})
	p.x.note(d)
}

// occupancy is the share of a device that the job's main kernel fills alone:
// its blocks and warps against the device's, at most all of it.
func (p *process) occupancy() float64 {
	m, f := p.x.config.Node.Model, p.job.Footprint
	t := schedulers.Task{Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock}
	return min(1, max(float64(t.Blocks)/float64(m.SMs*m.BlocksPerSM), float64(t.Warps())/float64(m.SMs*m.WarpsPerSM)))
}

func (p *process) end() {
	p.x.devices[p.device].free += p.held - contextBytes
	p.held = contextBytes
	p.x.batch.TaskFree(p.task, p.x.now)
	p.host(p.profile.HostAfterS, func() { p.exit(runner.Exit{Status: new(0)}) })
}

// exit ends the process in whatever state it is.
func (p *process) exit(e runner.Exit) {
	if p.gone {
		return
	}
	p.gone = true
	if p.work != nil {
		p.x.leave(p.pool, p.work)
		p.pool, p.work = nil, nil
	}
	if p.device != runner.Unbound {
		d := p.x.devices[p.device]
		d.free += p.held
		p.x.note(d)
	}
	p.x.at(p.x.now, func() { p.x.batch.JobEnded(p.index, e, p.x.now) })
}

var _ runner.Executor = (*Executor)(nil)
