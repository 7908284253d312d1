package sim

import "slices"

// contention is what a kernel and those of others beside it do to each other in the caches, the address translation and the bandwidth
// of a device's memory. Beside others a kernel takes 1 + sensitivity × the sum of their pressures times as long as alone, and
// what sharing the SMs costs is a factor of its own.
type contention struct {
	pressure    float64
	sensitivity float64
	suffers     float64 // sensitivity × pressure of the others now
}

// slowdown is how many times as long as alone the kernel takes beside those that run now.
func (c *contention) slowdown() float64 { return 1 + c.suffers }

// contend takes in that an activity has come.
func (p *pool) contend(a *activity) {
	a.suffers = 0
	if a.pressure > 0 || a.sensitivity > 0 {
		p.contending = append(p.contending, a)
		p.suffer()
	}
}

// relent takes in that activities have left.
func (p *pool) relent() {
	if len(p.contending) > 0 {
		p.contending = slices.DeleteFunc(p.contending, func(a *activity) bool { return a.cohort == nil })
		p.suffer()
	}
}

// suffer works out anew how much longer each activity takes.
func (p *pool) suffer() {
	for _, a := range p.contending {
		pressure := 0.0
		for _, other := range p.contending {
			if other != a {
				pressure += other.pressure
			}
		}
		before := a.slowdown()
		if a.suffers = a.sensitivity * pressure; a.slowdown() != before {
			left := a.cohort.left / before * a.slowdown()
			p.extract(a)
			p.insert(a, left)
		}
	}
}
