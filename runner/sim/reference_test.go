package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// The reference is a device with page faults, block by block of 2 MiB: kernels compute from one block that they reach to the next,
// a block that is not there waits in one queue for the fault engine, and on a full device the block goes that came first.

const refBlock = 2 << 20

// refReach is how a kernel of the reference works through an object.
type refReach struct {
	object int
	kind   string // cyclic, random or hot
	sweeps float64
	f, h   float64 // hot
	writes bool
}

func (r refReach) pattern() string {
	if r.kind == "hot" {
		return fmt.Sprintf("hot %g,%g", r.f, r.h)
	}
	return fmt.Sprintf("%s %g", r.kind, r.sweeps)
}

// refJob launches one kernel some times.
type refJob struct {
	start, gap float64 // seconds; between launches
	launches   int
	seconds    float64 // of the kernel alone, with all that it reaches on the device
	blocks     int     // grid; a small node's device has 132 × 64 warps, and the kernel one warp for each block
	objects    []int   // sizes in blocks
	reaches    []refReach
}

func (j refJob) demand() float64 { return min(1, float64(j.blocks)/(132*32)) }

// steps are the job's steps file.
func (j refJob) steps() (text string) {
	var objects []string
	for i, size := range j.objects {
		objects = append(objects, fmt.Sprint("o", i))
		text += managed(objects[i], fmt.Sprintf("%dMiB", 2*size))
	}
	text += host(j.start)
	var reads, writes, access []string
	for _, r := range j.reaches {
		name := fmt.Sprintf(`"o%d"`, r.object)
		if r.writes {
			writes = append(writes, name)
		} else {
			reads = append(reads, name)
		}
		access = append(access, fmt.Sprintf(`%s: %q`, name, r.pattern()))
	}
	more := fmt.Sprintf(`, "reads": [%s], "writes": [%s], "access": {%s}, "stoppable": true`, strings.Join(reads, ","), strings.Join(writes, ","), strings.Join(access, ","))
	for range j.launches {
		text += kernel(j.blocks, j.seconds, more) + host(j.gap)
	}
	return text + free(objects...) + host(1e6) // its context stays beside the other's
}

// refDevice is what the reference has of a device.
type refDevice struct {
	blocks          int     // capacity
	in, out, remote float64 // seconds of a block
}

type refPage struct{ there, dirty bool }

// refProcess is a job in the reference.
type refProcess struct {
	refJob
	pages  [][]refPage
	next   []int     // of each reach: its next access
	at     float64   // part of the kernel
	left   float64   // seconds of what it does
	state  byte      // 'h'ost, 'w'aiting to begin, 'c'omputing, 'f'aulting, 'r'eaching the host, or over
	wants  [2]int    // object and block
	writes bool      // the kernel will write what it wants
	begun  float64   // of the kernel
	took   []float64 // of each kernel
	end    float64   // of its latest kernel
	rng    *rand.Rand

	// Under rules (reference_rules_test.go):
	asked    float64         // when it last asked to begin
	waited   float64         // from then on
	stops    float64         // when its kernel ends before it is done; 0: it does not
	stopped  bool            // its kernel has ended so
	touched  map[[2]int]bool // blocks that its kernel has reached
	before   int             // blocks that the kernel before has reached
	resident int             // blocks
	limit    int             // of them, beyond which it reaches blocks on the host; 0: without limit
}

// total is how many blocks a reach reaches.
func (p *refProcess) total(r refReach) float64 { return r.sweeps * float64(len(p.pages[r.object])) }

// nextAccess returns the reach whose access comes next, and the part of the kernel at which it does.
func (p *refProcess) nextAccess() (of int, when float64) {
	of, when = -1, 1
	for i, r := range p.reaches {
		if w := float64(p.next[i]) / p.total(r); w < when {
			of, when = i, w
		}
	}
	return of, when
}

// pick is the block of the next access of a reach.
func (p *refProcess) pick(of int) int {
	r, n := p.reaches[of], len(p.pages[p.reaches[of].object])
	k := p.next[of]
	p.next[of]++
	switch r.kind {
	case "cyclic":
		return k % n
	case "hot":
		hot := max(1, int(math.Round(r.h*float64(n))))
		if p.rng.Float64() < r.f {
			return p.rng.IntN(hot)
		}
		return hot + p.rng.IntN(max(1, n-hot)) - max(0, 1-(n-hot))
	}
	return p.rng.IntN(n)
}

// refPlace is a block that is on the device.
type refPlace struct {
	p             *refProcess
	object, block int
}

// refNode is a device on which processes of the reference run.
type refNode struct {
	refDevice
	ps    []*refProcess
	ages  []refPlace    // in the order in which they came
	queue []*refProcess // for the fault engine
	now   float64
	rules refRules // nil: each kernel starts at once
}

// reference runs jobs on a device, and returns how long each kernel took, from its latest start, and when each job's last kernel ended.
func reference(d refDevice, seed uint64, rules refRules, jobs ...refJob) (took [][]float64, ends []float64) {
	n := refNode{refDevice: d, rules: rules}
	for i, j := range jobs {
		p := &refProcess{refJob: j, next: make([]int, len(j.reaches)), left: j.start, state: 'h', rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		for _, size := range j.objects {
			p.pages = append(p.pages, make([]refPage, size))
		}
		n.ps = append(n.ps, p)
	}
	for n.step() {
	}
	for _, p := range n.ps {
		took, ends = append(took, p.took), append(ends, p.end)
	}
	return took, ends
}

// serve has the fault engine bring the block of the first in its queue.
func (n *refNode) serve() {
	p := n.queue[0]
	seconds := n.in
	if len(n.ages) == n.blocks {
		oldest := n.ages[0]
		out := &oldest.p.pages[oldest.object][oldest.block]
		if out.dirty {
			seconds += n.out
		}
		*out = refPage{}
		oldest.p.resident--
		n.ages = n.ages[1:]
	}
	p.pages[p.wants[0]][p.wants[1]] = refPage{true, p.writes}
	p.resident++
	n.ages = append(n.ages, refPlace{p, p.wants[0], p.wants[1]})
	p.left = seconds
}

func (p *refProcess) compute() {
	_, when := p.nextAccess()
	p.state, p.left = 'c', (when-p.at)*p.seconds
	p.at = when
}

// unqueue takes p out of the queue for the fault engine.
func (n *refNode) unqueue(p *refProcess) {
	first := len(n.queue) > 0 && n.queue[0] == p
	n.queue = slices.DeleteFunc(n.queue, func(o *refProcess) bool { return o == p })
	if first && len(n.queue) > 0 {
		n.serve()
	}
}

// begin starts p's kernel from its beginning.
func (n *refNode) begin(p *refProcess) {
	p.begun, p.at, p.waited = n.now, 0, n.now-p.asked
	p.before, p.touched = max(p.before, len(p.touched)), map[[2]int]bool{}
	clear(p.next)
	n.access(p)
}

// advance goes on where what p did is over.
func (n *refNode) advance(p *refProcess) {
	switch {
	case p.state == 'h' && len(p.took) == p.launches:
		p.state = 0
		n.ages = slices.DeleteFunc(n.ages, func(a refPlace) bool { return a.p == p })
	case p.state == 'h':
		p.state, p.asked, p.left = 'w', n.now, math.Inf(1)
		if n.rules == nil {
			n.begin(p)
		}
	case p.state == 'f':
		n.unqueue(p)
		p.compute()
	case p.state == 'r':
		p.compute()
	default:
		n.access(p)
	}
}

// access has p's kernel come to its next block, or to its end.
func (n *refNode) access(p *refProcess) {
	of, _ := p.nextAccess()
	if of < 0 {
		p.took, p.end = append(p.took, n.now-p.begun), n.now
		p.state, p.left, p.stops, p.before = 'h', p.gap, 0, len(p.touched)
		p.touched, p.stopped = nil, false
		return
	}
	block := p.pick(of)
	p.writes = p.reaches[of].writes
	p.wants = [2]int{p.reaches[of].object, block}
	if p.touched[p.wants] = true; p.pages[p.wants[0]][block].there {
		page := &p.pages[p.wants[0]][block]
		page.dirty = page.dirty || p.writes
		p.compute()
		return
	}
	if p.limit > 0 && p.resident >= p.limit {
		p.state, p.left = 'r', n.remote
		return
	}
	p.state = 'f'
	if n.queue = append(n.queue, p); len(n.queue) == 1 {
		n.serve()
	}
}

// step goes to the next moment at which something happens. It reports false if nothing does any more.
func (n *refNode) step() bool {
	demand := 0.0
	for _, p := range n.ps {
		if p.state == 'c' {
			demand += p.demand()
		}
	}
	slow := max(1, demand)
	var first *refProcess
	least := math.Inf(1)
	if n.rules != nil {
		least = n.rules.next(n) - n.now
	}
	for _, p := range n.ps {
		left := p.left
		switch {
		case p.state == 0 || p.state == 'f' && n.queue[0] != p:
			continue
		case p.state == 'c':
			left *= slow
		}
		if left < least {
			first, least = p, left
		}
	}
	if math.IsInf(least, 1) {
		return false
	}
	n.now += least
	for _, p := range n.ps {
		switch {
		case p == first:
			p.left = 0
		case p.state == 'c':
			p.left -= least / slow
		case p.state == 'h' || p.state == 'r' || p.state == 'f' && n.queue[0] == p:
			p.left -= least
		}
	}
	if first != nil {
		n.advance(first)
	}
	if n.rules != nil {
		n.rules.act(n)
	}
	return true
}

// refPair is two random jobs that want 60 to 200 % of a device of so many blocks.
func refPair(rng *rand.Rand, capacity int) (jobs [2]refJob) {
	between := func(least, most float64) float64 { return least * math.Pow(most/least, rng.Float64()) }
	share := 0.2 + 0.6*rng.Float64()
	subscription := 0.6 + 1.4*rng.Float64()
	for i := range jobs {
		j := &jobs[i]
		size := max(2, int(float64(capacity)*subscription*share))
		share = 1 - share
		j.objects = []int{size}
		if rng.IntN(2) == 0 {
			first := max(1, int(float64(size)*(0.2+0.6*rng.Float64())))
			j.objects = []int{first, max(1, size-first)}
		}
		most := 0.0
		for o, n := range j.objects {
			r := refReach{object: o, kind: []string{"cyclic", "cyclic", "random", "hot"}[rng.IntN(4)], writes: rng.IntN(2) == 0}
			switch r.kind {
			case "hot":
				r.sweeps, r.f, r.h = 1, 0.5+0.4*rng.Float64(), 0.1+0.3*rng.Float64()
			default:
				r.sweeps = []float64{1, 1, 2, 5, 10, 20}[rng.IntN(6)]
			}
			most = max(most, r.sweeps*float64(n))
			j.reaches = append(j.reaches, r)
		}
		// A sweep takes from a thirtieth of what it takes to bring all of it to three times as long.
		j.seconds = most * refBlock / 10.3e9 * between(1.0/30, 3)
		j.blocks = int(between(400, 9000))
		j.launches = 1 + rng.IntN(4)
		j.gap = max(j.seconds*between(0.01, 1), 0.002) // what is shorter ends no burst
		j.start = j.seconds * rng.Float64()
	}
	return jobs
}

// pairNode is a node of one device with room for so many blocks beside the contexts of two processes.
func pairNode(t testing.TB, blocks int) Node {
	n := uncrowded(t, "sim:1xH200")
	n.Groups[0].MemoryBytes = int64(blocks)*refBlock + 2*runner.DefaultContextBytes + runner.ServerBytes
	return n
}

// kernelsOf are the kernels of the jobs on the simulated node.
func kernelsOf(t testing.TB, scheduler string, blocks int, jobs ...refJob) []results.Kernel {
	var steps []string
	for _, j := range jobs {
		steps = append(steps, j.steps())
	}
	_, rec := stepping(t, pairNode(t, blocks), scheduler, steps...).must(t)
	return rec.Kernels
}

// modelled is how long each kernel of the jobs took on the simulated node.
func modelled(t testing.TB, scheduler string, blocks int, jobs ...refJob) (took [][]float64) {
	took = make([][]float64, len(jobs))
	for _, k := range kernelsOf(t, scheduler, blocks, jobs...) {
		took[k.Job] = append(took[k.Job], k.EndS-k.StartS)
	}
	return took
}

var h200 = refDevice{in: refBlock / 10.3e9, out: refBlock / 16.6e9, remote: refBlock / 36e9}

// errorsOf are the relative errors of the kernels of random pairs.
func errorsOf(t testing.TB, pairs, blocks int) (errs []float64) {
	d := h200
	d.blocks = blocks
	for i := range pairs {
		rng := rand.New(rand.NewPCG(52, uint64(i)))
		jobs := refPair(rng, blocks)
		want, _ := reference(d, uint64(i), nil, jobs[:]...)
		got := modelled(t, "zero", blocks, jobs[:]...)
		for j := range want {
			for k := range want[j] {
				errs = append(errs, math.Abs(got[j][k]/want[j][k]-1))
			}
		}
	}
	slices.SortFunc(errs, cmp.Compare)
	return errs
}

// Kernel times are within 15 % of the reference's for 90 % of the kernels of random pairs.
func TestPageFaultsAreThoseOfTheReference(t *testing.T) { checkPairs(t, 40, 256) }

func checkPairs(t *testing.T, pairs, blocks int) {
	t.Helper()
	errs := errorsOf(t, pairs, blocks)
	ninth := errs[len(errs)*9/10]
	t.Logf("%d kernels of %d pairs: 9 of 10 within %.3f, half within %.3f", len(errs), pairs, ninth, errs[len(errs)/2])
	if len(errs) < 2*pairs || ninth > 0.15 {
		t.Errorf("of %d kernels 9 of 10 are within %.3f, want 0.15", len(errs), ninth)
	}
}
