package sim

import (
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// process is a simulated job: host phase, task begin, rounds of copies in, kernels,
// copies out and host phase with the memory held, task end, host phase.
type process struct {
	x       *Executor
	index   int
	job     mixes.Job
	profile profiles.Profile
	stretch func() float64 // noise for the next phase

	device int
	held   int64
	gone   bool

	pool *pool // in which it works now
	work *activity
}

// step is work of a process in one pool.
type step struct {
	in     *pool
	demand float64
	soloS  float64 // 0: nothing to do
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
	p.x.post(runner.JobStarted{Job: p.index})
	p.do(p.host(p.profile.HostBeforeS), p.begin)
}

// do works through a step and goes on with then.
func (p *process) do(s step, then func()) {
	if s.soloS <= 0 {
		then()
		return
	}
	p.pool = s.in
	p.work = p.x.share(s.in, s.demand, s.soloS, func() {
		p.pool, p.work = nil, nil
		then()
	})
}

// lasts is a step with the noise of a phase.
func (p *process) lasts(in *pool, demand, soloS float64) step {
	if soloS > 0 {
		soloS *= p.stretch()
	}
	return step{in, demand, soloS}
}

func (p *process) host(seconds float64) step {
	return p.lasts(p.x.cores, 1, seconds*p.x.config.Node.Model.HostFactor)
}

// copy moves bytes over the device's link. Alone it lasts as long as profiled,
// scaled as host time because pageable copies are bound by the host, but not
// less than the link needs.
func (p *process) copy(bytes int64, seconds float64) step {
	m := p.x.config.Node.Model
	least := float64(bytes) / m.LinkBytesPerS
	solo := max(seconds*m.HostFactor, least)
	if solo == 0 {
		return step{}
	}
	return p.lasts(p.x.devices[p.device].link, least/solo, solo)
}

// task is the one task of the job.
func (p *process) task() schedulers.TaskID { return schedulers.TaskID(p.index + 1) }

func (p *process) begin() {
	f := p.job.Footprint
	p.x.post(runner.TaskBegin{Task: schedulers.Task{ID: p.task(), Job: schedulers.JobID(p.index), Bytes: f.Bytes,
		Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock, Wait: p.job.Wait}})
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
		p.x.post(runner.OutOfMemory{Process: schedulers.Process{Job: schedulers.JobID(p.index)}, Bytes: uint64(p.job.Footprint.Bytes), Where: "cudaMalloc (simulated)"})
		p.exit(runner.Exit{Status: new(statusOOM), StderrTail: "out of memory (simulated)"})
		return
	}
	p.through(p.steps(), p.end)
}

// steps are the rounds between the grant and the release. The rounds of a job begin at a place
// that depends only on the job's index. Otherwise equal jobs that are granted at once would all
// use the device at the same time, and then all use the host.
func (p *process) steps() []step {
	r := p.profile
	round := []step{p.copy(r.CopyInBytes, r.CopyInS)}
	round = append(round, p.kernels()...)
	round = append(round, p.copy(r.CopyOutBytes, r.CopyOutS), p.host(r.HostHeldS))
	rounds := max(r.Rounds, 1)
	if rounds == 1 {
		return round
	}
	for i := range round {
		round[i].soloS /= float64(rounds)
	}
	_, place := math.Modf(float64(p.index) * math.Phi) // spreads any number of jobs evenly
	return slices.Repeat(begunAt(round, place), rounds)
}

// begunAt is a round that begins and ends at a place, a fraction of the round's length.
func begunAt(round []step, place float64) []step {
	total := 0.0
	for _, s := range round {
		total += s.soloS
	}
	skip := place * total
	for i, s := range round {
		if skip < s.soloS {
			first, last := s, s
			first.soloS, last.soloS = s.soloS-skip, skip
			return slices.Concat([]step{first}, round[i+1:], round[:i], []step{last})
		}
		skip -= s.soloS
	}
	return round
}

// kernels are the steps of the profile's classes of kernels.
func (p *process) kernels() []step {
	m, sms := p.x.config.Node.Model, p.x.devices[p.device].sms
	phases := p.profile.KernelPhases
	if len(phases) == 0 {
		return []step{p.lasts(sms, p.occupancy(), p.profile.KernelS*m.DeviceFactor)}
	}
	var out []step
	for _, k := range phases {
		out = append(out, p.lasts(sms, min(1, k.SMs/float64(m.SMs)), k.S*m.DeviceFactor))
	}
	return out
}

// through does one step after another. It records kernels that follow each other as one
// interval.
func (p *process) through(steps []step, then func()) {
	d := p.x.devices[p.device]
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.soloS <= 0 })
	var since time.Duration
	running := false // kernels, since then
	var next func(i int)
	next = func(i int) {
		on := i < len(steps) && steps[i].in == d.sms
		if running && !on {
			p.x.rec.Kernel(results.Kernel{Job: p.index, Task: new(0), Device: p.device, Name: "all kernels (simulated)",
				StartS: since.Seconds(), EndS: p.x.now.Seconds(), BusyS: (p.x.now - since).Seconds()})
		}
		if on && !running {
			since = p.x.now
		}
		running = on
		if i == len(steps) {
			then()
			return
		}
		p.do(steps[i], func() {
			if on {
				p.x.note(d)
			}
			next(i + 1)
		})
		if on {
			p.x.note(d)
		}
	}
	next(0)
}

// allocate takes the process's context and the job's bytes. It fails if the device does not
// have them free, whatever the scheduler's accounting says.
func (p *process) allocate() bool {
	d := p.x.devices[p.device]
	need := p.job.Footprint.Bytes + runner.DefaultContextBytes
	if need > d.free {
		return false
	}
	d.free -= need
	p.held = need
	return true
}

// occupancy is the share of a device that the job's main kernel fills alone: its blocks and
// warps divided by the device's, at most 1.
func (p *process) occupancy() float64 {
	m, f := p.x.config.Node.Model, p.job.Footprint
	t := schedulers.Task{Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock}
	return min(1, max(float64(t.Blocks)/float64(m.SMs*m.BlocksPerSM), float64(t.Warps())/float64(m.SMs*m.WarpsPerSM)))
}

func (p *process) end() {
	p.x.devices[p.device].free += p.held - runner.DefaultContextBytes
	p.held = runner.DefaultContextBytes
	p.x.post(runner.TaskFree{ID: p.task()})
	p.do(p.host(p.profile.HostAfterS), func() { p.exit(runner.Exit{Status: new(0)}) })
}

// exit ends the process, whatever its state.
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
	p.x.at(p.x.now, func() { p.x.post(runner.JobEnded{Job: p.index, Exit: e}) })
}

var _ runner.Executor = (*Executor)(nil)
