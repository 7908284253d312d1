package plan

import (
	"math"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// model plays a situation forward. Times are seconds since the situation's Now.
type model struct {
	cores   float64 // of the host; infinite if unknown
	workers int
	devices []Device
	jobs    []modelled
	arrived float64 // sum of the jobs' arrivals, negative, and the turnarounds of those that have ended

	// Of the play under way:
	stage  []Stage
	left   []float64 // of the stage, at full speed
	device []int
	asked  []float64 // when the job asked, if it was still to
	end    []float64
	active []int     // jobs in stages that take time
	rates  []float64 // of these
	over   []int     // of these, whose stage is over
	coming []int     // jobs without a process, by the mix's order
	free   []int64
	here   []int // jobs on each device, from the first grant to the exit,
	alone  []int // and how many of these are isolated
	usage  usage
	now    float64
}

// usage is what the jobs in stages that take time use of the node.
type usage struct {
	host  [schedulers.NiceLevels]float64 // cores that each nice level wants
	rates [schedulers.NiceLevels]float64 // of work on the host, by its level; share settles them
	load  []float64                      // SMs of each device, as parts of all
}

// add adds what a job uses in a stage, or takes it away (sign -1). While it has a device it uses the
// host when no kernels run. nice is its level before that.
func (u *usage) add(s Stage, nice, device int, kernels, sms, sign float64) {
	switch s {
	case Before:
		u.host[nice] += sign
	case Held:
		u.host[0] += sign * (1 - kernels)
		u.load[device] += sign * kernels * sms
	case After:
		u.host[0] += sign
	}
}

// share settles who gets how much of the host's cores.
func (u *usage) share(cores float64) { schedulers.NiceShares(cores, u.host[:], u.rates[:]) }

// rate is how much of its stage a job does in a second.
func (u *usage) rate(s Stage, nice, device int, kernels float64) float64 {
	switch s {
	case Before:
		return u.rates[nice]
	case Held:
		return 1 / ((1-kernels)/u.rates[0] + kernels*max(1, u.load[device]))
	}
	return u.rates[0]
}

// modelled is a job as the model needs it.
type modelled struct {
	Job
	before, held, after float64 // seconds
}

// least is what a stage takes that is overdue.
const least = 0.05

func newModel(s Situation) *model {
	n := len(s.Jobs)
	m := &model{cores: math.Inf(1), workers: n, devices: s.Devices, jobs: make([]modelled, n), arrived: s.Ended.Seconds(),
		stage: make([]Stage, n), left: make([]float64, n), device: make([]int, n), asked: make([]float64, n), end: make([]float64, n), rates: make([]float64, n),
		free: make([]int64, len(s.Devices)), here: make([]int, len(s.Devices)), alone: make([]int, len(s.Devices)), usage: usage{load: make([]float64, len(s.Devices))}}
	if s.Cores > 0 {
		m.cores = float64(s.Cores)
	}
	if s.Workers > 0 {
		m.workers = s.Workers
	}
	for i, j := range s.Jobs {
		m.jobs[i] = modelled{Job: j, before: j.Before.Seconds(), held: j.Held.Seconds(), after: j.After.Seconds()}
		m.arrived += (s.Now - j.Arrived).Seconds()
	}
	return m
}

// chooser grants devices to jobs that have asked, through model.grant.
type chooser interface{ choose(m *model) }

// play has everything happen until all jobs have ended. false: jobs wait that are never granted.
func (m *model) play(c chooser) bool {
	m.begin()
	for {
		c.choose(m)
		if len(m.active) == 0 {
			break
		}
		m.advance()
	}
	for i := range m.jobs {
		if m.stage[i] != Ended {
			return false
		}
	}
	return true
}

func (m *model) begin() {
	m.now, m.usage.host = 0, [schedulers.NiceLevels]float64{}
	m.active, m.coming = m.active[:0], m.coming[:0]
	for d := range m.devices {
		m.free[d], m.here[d], m.alone[d], m.usage.load[d] = m.devices[d].FreeBytes, 0, 0, 0
	}
	for i := range m.jobs {
		j := &m.jobs[i]
		m.device[i], m.asked[i] = j.Device, 0
		m.occupy(i, j.Device, 1)
		switch m.stage[i] = j.Stage; j.Stage {
		case Coming:
			m.coming = append(m.coming, i)
		case Before:
			m.enter(i, Before, j.before)
		case Held:
			m.enter(i, Held, j.held)
		case After:
			m.enter(i, After, j.after)
		}
	}
	m.start()
}

// start starts processes while there are workers.
func (m *model) start() {
	for len(m.coming) > 0 && m.running() < m.workers {
		i := m.coming[0]
		m.coming = m.coming[1:]
		m.enter(i, Before, m.jobs[i].before)
	}
}

func (m *model) running() int {
	n := 0
	for _, s := range m.stage {
		if s != Coming && s != Ended {
			n++
		}
	}
	return n
}

// enter begins a stage that takes time.
func (m *model) enter(i int, s Stage, left float64) {
	m.stage[i], m.left[i] = s, max(left, 0)
	m.active = append(m.active, i)
	m.use(i, 1)
}

// use adds what the job uses in its stage, or takes it away.
func (m *model) use(i int, sign float64) {
	m.usage.add(m.stage[i], m.jobs[i].Nice, m.device[i], m.jobs[i].Kernels, m.jobs[i].SMs, sign)
}

// fits reports whether a job that waits can have a device now.
func (m *model) fits(i, d int) bool {
	j := &m.jobs[i]
	return j.may(d, m.devices) && j.Bytes+m.context(i, d) <= m.free[d] && m.open(i, d)
}

// open reports whether a job may be beside those on a device.
func (m *model) open(i, d int) bool {
	others, alone := m.here[d], m.alone[d]
	if m.device[i] == d {
		others--
	}
	return others == 0 || !m.jobs[i].Isolate && alone == 0
}

// occupy says that a job is on a device, or leaves it (by -1). It is on no device if that is -1.
func (m *model) occupy(i, d, by int) {
	if d < 0 {
		return
	}
	m.here[d] += by
	if m.jobs[i].Isolate {
		m.alone[d] += by
	}
}

// context is what the job's context takes on a device beside what it has there.
func (m *model) context(i, d int) int64 {
	if m.jobs[i].Device == d {
		return 0
	}
	return m.devices[d].ContextBytes
}

func (m *model) grant(i, d int) {
	m.free[d] -= m.jobs[i].Bytes + m.context(i, d)
	m.occupy(i, m.device[i], -1)
	m.occupy(i, d, 1)
	m.device[i] = d
	m.enter(i, Held, m.jobs[i].held)
}

// advance moves to the next end of a stage.
func (m *model) advance() {
	m.usage.share(m.cores)
	step := math.Inf(1)
	for n, i := range m.active {
		m.rates[n] = m.usage.rate(m.stage[i], m.jobs[i].Nice, m.device[i], m.jobs[i].Kernels)
		step = min(step, m.left[i]/m.rates[n])
	}
	m.now += step
	kept := m.active[:0]
	m.over = m.over[:0]
	for n, i := range m.active {
		m.left[i] -= step * m.rates[n]
		if m.left[i] > 1e-9 {
			kept = append(kept, i)
		} else {
			m.over = append(m.over, i)
		}
	}
	m.active = kept
	for _, i := range m.over {
		m.leave(i)
	}
}

// leave ends a stage that takes time.
func (m *model) leave(i int) {
	m.use(i, -1)
	switch d := m.device[i]; m.stage[i] {
	case Before:
		m.stage[i], m.asked[i] = Waiting, m.now
	case Held:
		m.free[d] += m.jobs[i].Bytes
		m.enter(i, After, m.jobs[i].after)
	default:
		m.stage[i], m.end[i] = Ended, m.now
		if d >= 0 {
			m.free[d] += m.devices[d].ContextBytes
		}
		m.occupy(i, d, -1)
		m.start()
	}
}

// ends are the latest end, and the sum of the turnarounds of all jobs of the batch, in seconds.
func (m *model) ends() (last, sum float64) {
	sum = m.arrived
	for _, e := range m.end {
		last, sum = max(last, e), sum+e
	}
	return last, sum
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
