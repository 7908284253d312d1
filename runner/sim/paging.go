package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/profiles"
)

// Managed memory is on the host until a kernel reaches it. It comes in blocks, by page faults, which the fault engine of the device
// serves. On a full device the block goes that came first, whoever has it and whenever it was used last, also from under a kernel that
// runs. So a kernel takes turns: it computes up to the first block that it lacks, and waits for that block.

// Of a link, as measured on an H200 with 63 GB/s: what page faults bring in, what goes out to make room for it, and what kernels
// reach on the host.
const (
	faultShare  = 10.3 / 63
	pushShare   = 16.6 / 63
	remoteShare = 36.0 / 63
)

// faultBytes is what one reported page fault brings.
const faultBytes = 64 << 10

// A block is 2 MiB as in the driver, or larger, so that a device has no more than mostBlocks. All blocks of a device have one size,
// because they wait for each other.
const (
	leastBlockBytes = 2 * mib
	mostBlocks      = 1024
	mostOfObject    = 64 * mostBlocks // of an object that is many times as large as the device
)

// blockBytes is the size of the device's blocks.
func (d *device) blockBytes() int64 {
	return max(1, (d.model.MemoryBytes+mostBlocks*leastBlockBytes-1)/(mostBlocks*leastBlockBytes)) * leastBlockBytes
}

// block is a part of an object of managed memory.
type block struct {
	of              *object
	bytes, resident int64
	dirty           bool   // it is newer than the host's contents
	older, younger  *block // on the device
	listed          bool
}

// inBlocks makes the blocks of an object of managed memory.
func (o *object) inBlocks(d *device) {
	each := max(d.blockBytes(), (o.bytes+mostOfObject-1)/mostOfObject)
	for left := o.bytes; left > 0; left -= each {
		o.blocks = append(o.blocks, block{of: o, bytes: min(left, each)})
	}
}

// aged is the blocks on a device in the order in which they came.
type aged struct{ oldest, youngest *block }

func (l *aged) add(b *block) {
	if b.older = l.youngest; b.older == nil {
		l.oldest = b
	} else {
		b.older.younger = b
	}
	l.youngest, b.listed = b, true
}

func (l *aged) remove(b *block) {
	if !b.listed {
		return
	}
	if b.older == nil {
		l.oldest = b.younger
	} else {
		b.older.younger = b.younger
	}
	if b.younger == nil {
		l.youngest = b.older
	} else {
		b.younger.older = b.older
	}
	b.older, b.younger, b.listed = nil, nil, false
}

// makeRoom pushes the oldest blocks out until so many bytes are free, or nothing is left to push out. It returns the bytes that
// have to be written to the host.
func (d *device) makeRoom(bytes int64) (written int64) {
	if d.free >= bytes || d.aged.oldest == nil {
		return 0
	}
	for _, g := range d.paging {
		g.settle()
	}
	for b := d.aged.oldest; b != nil && d.free < bytes; b = d.aged.oldest {
		if b.dirty {
			written += b.resident
		}
		b.of.resident -= b.resident
		d.free += b.resident
		b.resident, b.dirty = 0, false
		d.aged.remove(b)
	}
	for _, g := range d.paging {
		g.look()
	}
	return written
}

// bring brings to the device what it lacks of a block, and returns the seconds that this takes a fault engine of its own. What has no
// place on the device passes through.
func (d *device) bring(b *block, writes bool) (seconds float64) {
	missing := b.bytes - b.resident
	d.aged.remove(b)
	written := d.makeRoom(missing)
	stays := min(missing, d.free)
	d.free -= stays
	b.resident += stays
	b.of.resident += stays
	if writes {
		written += missing - stays
	}
	if b.resident > 0 {
		b.dirty = b.dirty || writes
		d.aged.add(b)
	}
	return float64(missing)/(d.model.LinkBytesPerS*faultShare) + d.pushSeconds(written)
}

// pushSeconds is how long it takes a fault engine of its own to write so many bytes to the host.
func (d *device) pushSeconds(bytes int64) float64 {
	return float64(bytes) / (d.model.LinkBytesPerS * pushShare)
}

// remoteSeconds is how long a kernel of its own takes to reach so many bytes on the host.
func (d *device) remoteSeconds(bytes int64) float64 {
	return float64(bytes) / (d.model.LinkBytesPerS * remoteShare)
}

// reach is how a kernel reaches an object, or a part of one.
type reach struct {
	blocks []block
	bytes  int64   // of the blocks
	sweeps float64 // how many times these bytes the whole kernel reaches
	random bool
	writes bool
	next   int     // in order: the next block, counted over all sweeps
	due    float64 // at random: bytes that it lacked and has not waited for
}

// reaches is how a kernel reaches the managed memory of a process.
func reaches(k *profiles.Step, objects map[string]*object) (out []reach) {
	add := func(blocks []block, sweeps float64, random, writes bool) {
		r := reach{blocks: blocks, sweeps: sweeps, random: random, writes: writes}
		for i := range blocks {
			b := &blocks[i]
			r.bytes += b.bytes
			b.dirty = b.resident > 0 && (b.dirty || writes) // the kernel will have reached it
		}
		r.due = float64(blocks[0].bytes) / 2
		out = append(out, r)
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		o := objects[name]
		if !o.managed() || !k.Uses(name) {
			continue
		}
		a, writes := k.Access[name], k.MayWrite(name)
		if a.HotPart == 0 {
			add(o.blocks, cmp.Or(a.Sweeps, 1), a.Random, writes)
			continue
		}
		n := float64(len(o.blocks))
		hot := max(1, int(math.Round(a.HotPart*n)))
		add(o.blocks[:hot], a.HotShare*n/float64(hot), true, writes)
		if hot < len(o.blocks) {
			add(o.blocks[hot:], (1-a.HotShare)*n/(n-float64(hot)), true, writes)
		}
	}
	return out
}

// rewind has the next round of the kernel begin.
func (r *reach) rewind() {
	if !r.random {
		r.next = max(0, r.next-int(math.Round(r.sweeps*float64(len(r.blocks)))))
	}
}

// nextMiss returns the block that the kernel lacks next, and the part of the kernel's work that is done then; nil: it lacks no more. at
// is the part that is done now.
func (r *reach) nextMiss(at float64) (_ *block, when float64) {
	if r.random {
		return r.nextOfAny(at)
	}
	n := len(r.blocks)
	for i := r.next; i < r.next+n; i++ {
		if when = float64(i) / (r.sweeps * float64(n)); when >= 1 {
			break
		}
		if b := &r.blocks[i%n]; b.resident < b.bytes {
			return b, max(at, when)
		}
	}
	return nil, 1
}

// nextOfAny takes the blocks that are missing in turn, at the rate at which the kernel meets such.
func (r *reach) nextOfAny(at float64) (_ *block, when float64) {
	missing := r.missing()
	if missing == 0 {
		return nil, 1
	}
	for r.blocks[r.next].resident == r.blocks[r.next].bytes {
		r.next = (r.next + 1) % len(r.blocks)
	}
	b := &r.blocks[r.next]
	when = at + (float64(b.bytes-b.resident)-r.due)/(r.sweeps*float64(missing))
	if when >= 1 {
		return nil, 1
	}
	return b, max(at, when)
}

// missing returns how many of the bytes are not on the device.
func (r *reach) missing() int64 {
	missing := r.bytes
	for i := range r.blocks {
		missing -= r.blocks[i].resident
	}
	return missing
}

// advance notes that the kernel has done its work from one part to another, for all of which its blocks were where they are.
func (r *reach) advance(from, to float64) {
	if r.random {
		r.due += (to - from) * r.sweeps * float64(r.missing())
		return
	}
	r.next = max(r.next, int(math.Ceil(to*r.sweeps*float64(len(r.blocks))-1e-6)))
}

// waited notes that the kernel has waited for a block of which it lacked so many bytes.
func (r *reach) waited(missing int64) {
	if r.random {
		r.due -= float64(missing)
		r.next = (r.next + 1) % len(r.blocks)
		return
	}
	r.next++
}

// paging is a kernel with managed memory on a device.
type paging struct {
	of      *process
	on      *device
	kernel  *step
	reaches []reach
	work    activity
	pool    *pool   // in which its work is; nil: in none
	lacks   *block  // for which it waits
	from    *reach  // of the block
	at      float64 // part of its own work that is done, of a kernel that never ends in its present round
	rounds  int     // of a kernel that never ends, that are done
	until   float64 // part that is done when what it computes now is
	over    func()
}

// pages runs a kernel with managed memory on all devices of the process.
func (p *process) pages(k *step) {
	p.begins()
	p.doing, p.pool, p.work, p.parts = k, p.x.devices[p.device].sms, &p.own, int32(1+len(p.mirrors))
	p.paging = append(p.paging, &paging{of: p, on: p.x.devices[p.device], kernel: k, reaches: reaches(k.Step, p.task.objects), over: p.part})
	for _, m := range p.mirrors {
		here := p.onMirror(m, k)
		p.paging = append(p.paging, &paging{of: p, on: m.device, kernel: &here, reaches: reaches(k.Step, m.objects), over: p.part})
	}
	for _, g := range slices.Clone(p.paging) {
		g.work.done = g.worked
		g.on.paging = append(g.on.paging, g)
		g.turn()
	}
	p.note()
}

// reached is how much managed memory the kernel of the process has reached.
func (p *process) reached() int64 {
	reached := 0.0
	for _, g := range p.paging[:min(1, len(p.paging))] { // as the scheduler knows the process by its first device
		for i := range g.reaches {
			reached += g.reaches[i].reached(float64(g.rounds) + g.done())
		}
	}
	return int64(math.Round(reached))
}

// touched is how much managed memory the latest kernel of the process has reached, or if that is more the one before.
func (p *process) touched() int64 { return max(p.reached(), p.swap.touched) }

// reached is how many of the bytes a kernel has reached that has done a part of its work.
func (r *reach) reached(part float64) float64 {
	if r.random {
		return float64(r.bytes) * -math.Expm1(-r.sweeps*part)
	}
	return float64(r.bytes) * min(1, r.sweeps*part)
}

// holds is how much managed memory of the process is on its device.
func (p *process) holds() (bytes int64) {
	for _, o := range p.task.objects {
		if o.managed() {
			bytes += o.resident
		}
	}
	return bytes
}

// unpage takes the process's kernel off its devices, whatever it does there.
func (p *process) unpage() {
	p.swap.touched = p.touched()
	for _, g := range p.paging {
		g.leave()
	}
	p.paging = nil
}

// recordFaults records what page faults brought for a process that ends.
func (p *process) recordFaults() {
	if p.faulted == 0 {
		return
	}
	faults := (p.faulted + faultBytes - 1) / faultBytes
	p.x.rec.Event(results.Event{AtS: p.x.now.Seconds(), Kind: results.EventPageFaults, Job: new(p.index), Device: new(p.device),
		Detail: fmt.Sprintf("%d page faults brought %s of managed memory (simulated)", faults, size.Text(p.faulted))})
}

// turn computes up to the first block that the kernel lacks, or waits for that block, or ends the kernel.
func (g *paging) turn() {
	of, b, when := g.plan()
	switch {
	case (when-g.at)*g.kernel.soloS > 1e-9:
		g.compute(when)
	case b == nil && g.kernel.Endless:
		g.again()
	case b == nil:
		g.leave()
		g.over()
	case g.isRemote(b):
		g.from = of
		of.waited(b.bytes - b.resident)
		g.enter(g.on.link, activity{demand: remoteShare, solo: g.on.remoteSeconds(b.bytes - b.resident)})
	default:
		g.lacks, g.from = b, of
		g.on.queue = append(g.on.queue, g)
		g.on.serve()
	}
}

// again begins the next round of a kernel that never ends. While it lacks nothing, nothing happens.
func (g *paging) again() {
	g.at, g.rounds = 0, g.rounds+1
	for i := range g.reaches {
		g.reaches[i].rewind()
	}
	if _, b, when := g.plan(); b != nil {
		g.turn()
	} else {
		g.until = when
		g.spend(math.Inf(1))
	}
}

// isRemote reports whether a block stays on the host, where the kernel reaches it, because its process has as much on the device as it
// may.
func (g *paging) isRemote(b *block) bool {
	limit := g.of.swap.limit
	return limit != nil && g.of.holds()+b.bytes-b.resident > *limit
}

// serve has the fault engine bring the block that the first kernel in its queue lacks, if it does not do so already.
func (d *device) serve() {
	if len(d.queue) == 0 || d.queue[0].pool != nil {
		return
	}
	g := d.queue[0]
	missing := g.lacks.bytes - g.lacks.resident
	g.of.faulted += missing
	seconds := d.bring(g.lacks, g.from.writes)
	g.from.waited(missing)
	g.enter(d.faults, activity{demand: 1, solo: seconds})
}

// plan returns the first block that the kernel lacks, and when it does.
func (g *paging) plan() (of *reach, b *block, when float64) {
	when = 1
	for i := range g.reaches {
		r := &g.reaches[i]
		if missing, at := r.nextMiss(g.at); missing != nil && at < when {
			of, b, when = r, missing, at
		}
	}
	return of, b, when
}

func (g *paging) compute(until float64) {
	g.until = until
	g.spend((until - g.at) * g.kernel.soloS)
}

// spend has the kernel compute for so many seconds.
func (g *paging) spend(seconds float64) {
	work := g.kernel.activity()
	work.solo = seconds
	g.enter(g.on.sms, work)
}

// enter puts the kernel's next work into a pool.
func (g *paging) enter(to *pool, work activity) {
	work.done = g.work.done
	g.pool, g.work = to, work
	g.of.x.share(to, &g.work)
}

// worked goes on when the work is done.
func (g *paging) worked() {
	switch g.pool {
	case g.on.sms:
		g.advance(g.until)
	case g.on.faults:
		g.on.queue = g.on.queue[1:]
		g.on.serve()
	}
	g.pool = nil
	g.turn()
}

// leave takes the kernel off its device.
func (g *paging) leave() {
	if g.work.cohort != nil {
		g.of.x.leave(g.pool, &g.work)
	}
	g.pool = nil
	is := func(o *paging) bool { return o == g }
	g.on.paging, g.on.queue = slices.DeleteFunc(g.on.paging, is), slices.DeleteFunc(g.on.queue, is)
	g.on.serve()
}

func (g *paging) advance(to float64) {
	for i := range g.reaches {
		g.reaches[i].advance(g.at, to)
	}
	g.at = to
}

// computes reports whether the kernel computes, and is not just done with that.
func (g *paging) computes() bool { return g.pool == g.on.sms && g.work.cohort != nil }

// settle notes what the kernel has computed so far, before blocks of it may leave.
func (g *paging) settle() {
	g.advance(g.done())
}

// done is the part of the kernel's work that is done.
func (g *paging) done() float64 {
	if !g.computes() {
		return g.at
	}
	return max(g.at, g.until-g.on.sms.left(&g.work, g.of.x.now)/g.kernel.soloS)
}

// look has a kernel that computes look again what it lacks.
func (g *paging) look() {
	if !g.computes() {
		return
	}
	if _, _, when := g.plan(); when != g.until {
		g.of.x.leave(g.pool, &g.work)
		g.compute(when)
	}
}

// stalled is the share of SMs that kernels fill which wait for blocks.
func (d *device) stalled() (share float64) {
	for _, g := range d.paging {
		if g.pool != d.sms {
			share += g.kernel.demand
		}
	}
	return share
}
