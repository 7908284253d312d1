package sim

import (
	"math"
	"slices"

	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// resource is what a step works on.
type resource uint8

const (
	nothing resource = iota // the step takes no time
	cores                   // of the host
	link                    // of the process's device
	sms                     // of the process's device
	faults                  // its fault engine
	nic                     // of the node, for what it sends
)

// step is a step of a job as its process does it on a device.
type step struct {
	*profiles.Step
	on     resource
	gets   bool    // a message
	peer   int32   // of a message: the other rank
	demand float64 // share of the resource that it needs to go at full speed; of cores: their number
	soloS  float64 // seconds at full speed
}

// activity is the work of the step.
func (s *step) activity() activity {
	a := activity{demand: s.demand, solo: s.soloS}
	if s.on == sms {
		a.contention = contention{pressure: s.Pressure, sensitivity: s.Sensitivity}
	}
	return a
}

// work has an activity do the step. What it does then is as before.
func (s *step) work(a *activity) {
	done := a.done
	*a = s.activity()
	a.done = done
}

// offDevice reports whether the step can be done while the process's memory moves.
func (s *step) offDevice() bool {
	return s.Kind == profiles.Host || s.Kind == profiles.Barrier || s.Kind == profiles.Message
}

// plan is what the process does if all of it is on the node's first device, with the noise of this run. Steps of no length are
// left out. Jobs of one kind have one plan in common, unless they have noise or rounds of their own.
func (p *process) plan() []step {
	if p.noise != nil || p.rounds > 1 {
		return p.makePlan()
	}
	if p.common == nil {
		p.common = p.makePlan()
	}
	return p.common
}

func (p *process) makePlan() []step {
	steps := make([]step, 0, len(p.steps))
	for i := range p.steps {
		if s := &p.steps[i]; s.Kind == profiles.Message {
			steps = p.messages(steps, s)
		} else {
			steps = append(steps, p.on(p.x.config.Node.first(), s))
		}
	}
	if p.rounds > 1 {
		// Behind the first host time and the allocation, before the release and the last host time.
		steps = slices.Concat(steps[:2], p.inRounds(steps[2:len(steps)-2]), steps[len(steps)-2:])
	}
	return slices.DeleteFunc(steps, func(s step) bool { return s.on != nothing && s.soloS <= 0 })
}

// on scales a step to the node and a device of a model, and draws its noise.
func (p *process) on(m *Model, s *profiles.Step) step {
	out := p.scaled(m, s)
	if p.stretch > 0 {
		out.soloS *= p.stretch
	}
	if p.noise != nil && out.soloS > 0 {
		out.soloS *= math.Exp(p.x.config.Noise * p.noise.NormFloat64())
	}
	return out
}

// here returns a step of the plan as the process does it on its device, which may be of another model than the node's first.
func (p *process) here(planned *step) *step {
	if p.device == noDevice || planned.on != link && planned.on != sms && planned.Scale != profiles.ByDevice {
		return planned
	}
	m, first := p.x.devices[p.device].model, p.x.config.Node.first()
	if m == first {
		return planned
	}
	elsewhere := p.scaled(m, planned.Step)
	elsewhere.soloS *= planned.soloS / p.scaled(first, planned.Step).soloS // its noise, and its part in a round
	return &elsewhere
}

// scaled scales a step to the node and a device of a model.
func (p *process) scaled(m *Model, s *profiles.Step) step {
	hostFactor, deviceFactor := p.x.config.Node.Host.Factor/p.profiled.Host.Factor, m.DeviceFactor/p.profiled.DeviceFactor
	memoryFactor := p.profiled.BytesPerS / m.BytesPerS
	out := step{Step: s}
	switch s.Kind {
	case profiles.Host:
		out.on, out.demand, out.soloS = cores, 1, scaled(s, hostFactor, deviceFactor, memoryFactor)
	case profiles.CopyIn, profiles.CopyOut:
		// Alone a copy lasts as long as profiled, scaled as host time because pageable copies are
		// bound by the host, but not less than the link needs.
		least := float64(s.Bytes) / m.LinkBytesPerS
		out.on, out.soloS = link, max(s.S*hostFactor, least)
		if out.soloS > 0 {
			out.demand = least / out.soloS
		}
	case profiles.Message:
		out.on, out.demand, out.soloS = cores, 1, float64(s.Bytes)/messageBytesPerS
	case profiles.Kernel:
		out.on, out.demand, out.soloS = sms, m.filledBy(s), scaled(s, deviceFactor, deviceFactor, memoryFactor)
		if s.Scale != profiles.ByMemory { // an instance's bandwidth is in its factor
			out.soloS *= m.squeezed(s)
		}
	}
	return out
}

// scaled is how long a step takes, from the factor of its kind, that of the device and that of its memory.
func scaled(s *profiles.Step, byKind, byDevice, byMemory float64) float64 {
	switch s.Scale {
	case profiles.ByDevice:
		return s.S * byDevice
	case profiles.ByMemory:
		return s.S * byMemory
	case profiles.Unscaled:
		return s.S
	default:
		return s.S * byKind
	}
}

// filledBy is the share of a device's SMs that a kernel fills alone, at most 1. If nothing is known
// of its registers and shared memory, it is the kernel's blocks and warps divided by the device's.
func (m *Model) filledBy(k *profiles.Step) float64 {
	fills := k.SMs / float64(m.SMs)
	if k.Blocks > 0 && k.BlocksPerSM > 0 {
		fills = float64(k.Blocks) / float64(k.BlocksPerSM) / float64(m.SMs)
	} else if k.Blocks > 0 {
		t := schedulers.Task{Blocks: k.Blocks, ThreadsPerBlock: k.ThreadsPerBlock}
		fills = max(float64(t.Blocks)/float64(m.SMs*m.BlocksPerSM), float64(t.Warps())/float64(m.SMs*m.WarpsPerSM))
	}
	return min(1, fills)
}

// inRounds divides the steps of a profile among its rounds. The rounds of a job begin at a place
// that depends only on the job's index and the rank. Otherwise equal jobs that are granted at once would all
// use the device at the same time, and then all use the host.
func (p *process) inRounds(round []step) []step {
	for i := range round {
		round[i].soloS /= float64(p.rounds)
	}
	_, place := math.Modf(float64(p.index+p.rank) * math.Phi) // spreads any number of jobs evenly
	return slices.Repeat(begunAt(round, place), p.rounds)
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
