package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The reference under policies: when kernels begin, and which are stopped, by the rules of PILOT, section III.C, and by what was added to
// them (docs/reference/schedulers.md). They share nothing with the policies but the rules.

// refRules decide for a device.
type refRules interface {
	act(n *refNode)          // after each thing that happens, and at next
	next(n *refNode) float64 // when they want to act
}

// refEnds are the rules that stop kernels. A kernel begins if nothing runs, or the memory of all fits. For one that has waited so many
// seconds the largest are stopped. Those that are larger than a kernel that has just come are stopped for it too, if so said (AMFit).
type refEnds struct {
	wait   float64
	larger bool
}

const refStop = 0.0015 // from the request to stop to the end of a kernel

func (p *refProcess) runs() bool { return p.state == 'c' || p.state == 'f' || p.state == 'r' }

// active is how many blocks the kernel of p reaches, as far as is known.
func (p *refProcess) active() int { return max(len(p.touched), p.before) }

func (p *refProcess) size() (blocks int) {
	for _, o := range p.objects {
		blocks += o
	}
	return blocks
}

func (r refEnds) isOver(n *refNode, p *refProcess) bool { return n.now >= p.asked+r.wait-1e-12 }

// isSafe: p had waited as long as it may, and has not run an eighth longer.
func (r refEnds) isSafe(n *refNode, p *refProcess) bool {
	return p.waited >= r.wait-1e-12 && n.now < p.begun+p.waited*9/8
}

// stop stops the kernels whose time has come.
func (refEnds) stop(n *refNode) {
	for _, p := range n.ps {
		if p.stops > 0 && n.now >= p.stops-1e-12 && p.runs() {
			n.unqueue(p)
			p.state, p.left, p.asked, p.stops, p.stopped = 'w', math.Inf(1), n.now, 0, true
		}
	}
}

func (r refEnds) next(n *refNode) float64 {
	next := math.Inf(1)
	for _, p := range n.ps {
		if p.runs() && p.stops > n.now {
			next = min(next, p.stops)
		}
		for _, at := range []float64{p.asked + r.wait, p.begun + p.waited*9/8} {
			if at > n.now+1e-12 && (p.state == 'w' || p.runs()) {
				next = min(next, at)
			}
		}
	}
	return next
}

// waiting are the processes that wait, in the order in which they came.
func (n *refNode) waiting() (all []*refProcess) {
	for _, p := range n.ps {
		if p.state == 'w' {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *refProcess) int { return cmp.Compare(a.asked, b.asked) })
	return all
}

func (n *refNode) running() (all []*refProcess) {
	for _, p := range n.ps {
		if p.runs() {
			all = append(all, p)
		}
	}
	return all
}

func (r refEnds) act(n *refNode) {
	r.stop(n)
	for _, p := range n.waiting() {
		running, sum := n.running(), p.size()
		for _, q := range running {
			sum += q.size()
		}
		if len(running) == 0 || sum <= n.blocks {
			n.begin(p)
			continue
		}
		slices.SortStableFunc(running, func(a, b *refProcess) int { return cmp.Compare(b.size(), a.size()) })
		var ends []*refProcess
		for _, q := range running {
			may := r.isOver(n, p) || r.larger && !p.stopped && q.size() > p.size()
			if sum > n.blocks && may && !r.isSafe(n, q) {
				ends, sum = append(ends, q), sum-q.size()
			}
		}
		if sum > n.blocks && len(ends) < len(running) {
			continue
		}
		for _, q := range ends {
			if q.stops == 0 {
				q.stops = n.now + refStop
			}
		}
	}
}

func nextPeriod(now, period float64) float64 { return (math.Floor(now/period+1e-9) + 1) * period }

// refMAdvise: a kernel begins at once. While what kernels use does not fit together, those beyond their quota, an equal part of the
// device, reach on the host what is lacking.
type refMAdvise struct{ period float64 }

func (r refMAdvise) act(n *refNode) {
	for _, p := range n.waiting() {
		p.limit = 0
		n.begin(p)
	}
	running, over := n.running(), -n.blocks
	used := func(p *refProcess) int {
		if p.limit == 0 {
			return p.active()
		}
		return min(p.active(), max(p.limit, p.resident))
	}
	for _, p := range running {
		over += used(p)
	}
	slices.SortStableFunc(running, func(a, b *refProcess) int { return cmp.Compare(used(b), used(a)) })
	for _, p := range running {
		if beyond := min(over, used(p)-n.blocks/len(n.ps)); beyond > 0 {
			p.limit, over = used(p)-beyond, over-beyond
		}
	}
	for _, p := range running {
		if comes := p.active() - used(p); p.limit > 0 && over+comes <= 0 {
			p.limit, over = 0, over+comes
		}
	}
}

func (r refMAdvise) next(n *refNode) float64 {
	if len(n.running()) > 1 {
		return nextPeriod(n.now, r.period)
	}
	return math.Inf(1)
}

// Where the reference has one policy more than 20 % faster than another, by the mean of the times at which both jobs have ended, the
// model has the same order.
func TestPoliciesAreInTheOrderOfTheReference(t *testing.T) { checkOrders(t, 20, 256) }

func checkOrders(t *testing.T, pairs, blocks int) {
	t.Helper()
	arms := []struct {
		scheduler string
		rules     refRules
	}{{"zero", nil}, {"mfit:wait=200ms,estimate=allocated", refEnds{wait: 0.2}}, {"amfit:wait=200ms", refEnds{0.2, true}}, {"madvise:period=20ms", refMAdvise{0.02}}}
	compared, wrong := 0, 0
	for i := range pairs {
		jobs := refPair(rand.New(rand.NewPCG(53, uint64(i))), blocks)
		var want, got []float64
		for _, a := range arms {
			d := h200
			d.blocks = blocks
			_, ends := reference(d, uint64(i), a.rules, jobs[:]...)
			want = append(want, ends[0]+ends[1])
			ends = []float64{0, 0}
			for _, k := range kernelsOf(t, a.scheduler, blocks, jobs[:]...) {
				ends[k.Job] = k.EndS
			}
			got = append(got, ends[0]+ends[1])
		}
		for a := range arms {
			for b := range arms {
				if want[a]*1.2 < want[b] {
					if compared++; got[a] >= got[b] {
						wrong++
						t.Logf("pair %d: %s %.3g s and %s %.3g s, but %.3g and %.3g s in the model", i, arms[a].scheduler, want[a], arms[b].scheduler, want[b], got[a], got[b])
					}
				}
			}
		}
	}
	t.Logf("%d orders, %d wrong", compared, wrong)
	if wrong > 0 || compared < pairs {
		t.Errorf("of %d orders %d are wrong", compared, wrong)
	}
}
