package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// A device that fails loses what is on it, and is out of the run until it is repaired. A job that had something there repeats its work on
// another device, from its latest snapshot or from its start (section 3.5.7 of the dissertation on CPU-GPU clusters).

// Failures are when devices fail, or the nodes of a cluster, and what is kept of the jobs' work.
type Failures struct {
	at       []failure
	every    time.Duration // mean time between two failures of a device, or node of a cluster, exponential; 0: none at random
	repair   time.Duration // until it is back
	snapshot time.Duration // work behind which a process copies what it has on the device to the host; 0: never
}

type failure struct {
	node, device int // of a cluster its node, and a device there or allDevices
	at           time.Duration
}

// allDevices: the whole node is lost.
const allDevices = -1

// of are the failures of the devices of a cluster's node.
func (f Failures) of(node int) Failures {
	f.every = 0
	f.at = slices.DeleteFunc(slices.Clone(f.at), func(one failure) bool { return one.node != node || one.device == allDevices })
	return f
}

// ofDevices reports whether devices fail, and not only nodes of a cluster.
func (f Failures) ofDevices() bool {
	return slices.ContainsFunc(f.at, func(one failure) bool { return one.device != allDevices })
}

// failureStream marks the generator of failures among those of a seed.
const failureStream = 1<<63 | 1<<62

// mostFailures is how often a job repeats its work. Then it crashes, because it would go on for ever.
const mostFailures = 1000

// ParseFailures reads DEVICE@TIME, every=TIME, repair=TIME and snapshot=TIME, with commas, for a node with so many devices. For a cluster, whose
// nodes have so many, it reads NODE@TIME and NODE.DEVICE@TIME.
func ParseFailures(text string, devices []int, isCluster bool) (f Failures, err error) {
	if text == "" {
		return f, nil
	}
	items, err := input.List(text)
	if err != nil {
		return f, err
	}
	f.repair = time.Minute
	named := map[string]*time.Duration{"every": &f.every, "repair": &f.repair, "snapshot": &f.snapshot}
	for _, item := range items {
		key, value, isNamed := strings.Cut(item, "=")
		if to := named[key]; isNamed && to != nil {
			if *to, err = time.ParseDuration(value); err != nil || *to < 0 || key == "every" && *to == 0 {
				return f, fmt.Errorf("%s: want a time such as 10s", item)
			}
			continue
		}
		one, err := parseFailure(item, devices, isCluster)
		if err != nil {
			return f, fmt.Errorf("%s: %w", item, err)
		}
		f.at = append(f.at, one)
	}
	if len(f.at) == 0 && f.every == 0 {
		return f, fmt.Errorf("%s: nothing fails: add every=10m or 0@30s", text)
	}
	return f, nil
}

func parseFailure(item string, devices []int, isCluster bool) (f failure, err error) {
	of, after, timed := strings.Cut(item, "@")
	node, device, form := "0", of, "0@30s"
	if isCluster {
		node, device, _ = strings.Cut(of, ".")
		form = "0@30s, 0.1@30s"
	}
	isNode := isCluster && node == of
	if isNode {
		device = strconv.Itoa(allDevices)
	}
	var errs [3]error
	f.node, errs[0] = strconv.Atoi(node)
	f.device, errs[1] = strconv.Atoi(device)
	f.at, errs[2] = time.ParseDuration(after)
	switch {
	case !timed || errors.Join(errs[:]...) != nil || f.at < 0:
		return f, fmt.Errorf("want a failure such as %s, every=10m, repair=1m or snapshot=10s", form)
	case f.node < 0 || f.node >= len(devices):
		return f, fmt.Errorf("the cluster has nodes 0 to %d", len(devices)-1)
	case !isNode && (f.device < 0 || f.device >= devices[f.node]):
		return f, fmt.Errorf("the node has devices 0 to %d", devices[f.node]-1)
	}
	return f, nil
}

// planFailures schedules them.
func (x *Executor) planFailures() {
	for _, f := range x.config.Failures.at {
		x.at(f.at, func() { x.fail(x.devices[f.device]) })
	}
	if every := x.config.Failures.every; every > 0 {
		r := rand.New(rand.NewPCG(x.config.Seed, failureStream))
		goesOn := func() bool { // else nothing else will happen any more
			_, more := x.next()
			return more
		}
		x.repeatAtRandom(r, every, len(x.devices), goesOn, func() { x.fail(x.devices[r.IntN(len(x.devices))]) })
	}
}

// fail has a device fail, and come back once it is repaired.
func (x *Executor) fail(d *device) {
	if d.failed {
		return
	}
	d.failed = true
	var there []*process
	for _, p := range x.procs {
		if p.losesOn(d) {
			there = append(there, p)
		}
	}
	slices.SortFunc(there, func(a, b *process) int { return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.rank, b.rank)) })
	for _, p := range there {
		p.fails(d)
	}
	x.post(runner.DeviceLost{Device: d.index, Why: "it has failed (simulated)", Planned: true})
	x.at(x.now+x.config.Failures.repair, func() {
		d.failed = false
		x.post(runner.DeviceAdded{Device: d.index})
	})
}

// losesOn reports whether a process has something on a device. What is on the host is not lost.
func (p *process) losesOn(d *device) bool {
	if p.gone || !p.task.open {
		return false
	}
	if len(p.mirrors) > 0 {
		return p.device == d.index || slices.ContainsFunc(p.mirrors, func(m *mirror) bool { return m.device == d })
	}
	return p.device == d.index && (p.worksOnDevice() || p.resident())
}

// resident reports whether the process has memory on its device.
func (p *process) resident() bool {
	for _, o := range p.task.objects {
		if o.resident > 0 || o.managed() {
			return true
		}
	}
	return false
}

// fails has the process repeat its work, if it is all of its job and on one device; others crash.
func (p *process) fails(d *device) {
	if p.group != nil || len(p.mirrors) > 0 || p.managed > 0 || p.kept.failures == mostFailures {
		p.exit(runner.Exit{Status: new(1), StderrTail: fmt.Sprintf("GPU %d has failed (simulated)", p.x.config.FirstDevice+d.index)})
		return
	}
	k := p.kept
	k.failures++
	lost := k.worked - k.savedWork
	if p.work != nil {
		lost += p.x.now - k.since
	}
	p.x.rec.Event(results.Event{AtS: p.x.now.Seconds(), Kind: results.EventRepeated, Job: &p.index, Device: &d.index,
		Detail: fmt.Sprintf("GPU %d has failed: %.3f s of work are repeated", p.x.config.FirstDevice+d.index, lost.Seconds())})
	p.recordKernels()
	p.halt()
	p.stay()
	p.giveBack()
	p.tell(func(id schedulers.TaskID) runner.Event { return runner.TaskFree{ID: id} })
	p.pool, p.work, p.doing, p.then, p.owes = nil, nil, nil, nil, 0
	p.swap = swap{last: p.swap.last, ended: p.swap.ended}
	p.task = task{begun: p.task.begun, seq: -1}
	k.worked = k.savedWork
	p.todo = p.restored()
	p.x.at(p.x.now, p.proceed)
}

// kept is what a process that is all of its job can do again.
type kept struct {
	whole             []step
	since             time.Duration // when it began what it is doing
	worked, savedWork time.Duration // in all, and up to its latest snapshot
	saved             int           // steps before its latest snapshot
	copying           *activity     // a snapshot that is on its way; nil: none is
	over              *pool         // copying
	failures          int           // of devices that it was on
}

// keep keeps what the process does, if devices fail.
func (p *process) keep() {
	if f := p.x.config.Failures; len(f.at) > 0 || f.every > 0 {
		p.kept = &kept{whole: p.todo}
	}
}

// works notes that the process begins a step.
func (p *process) works() {
	if p.kept != nil {
		p.kept.since = p.x.now
	}
}

// save counts a step that is done. Behind a kernel it copies what the process has on its device to the host, if it has worked for long
// enough since it did so. The process goes on meanwhile.
func (p *process) save(done *step) {
	k, every := p.kept, p.x.config.Failures.snapshot
	if k == nil {
		return
	}
	k.worked += p.x.now - k.since
	at, work := len(k.whole)-len(p.todo), k.worked
	if every == 0 || done.on != sms || k.copying != nil || at <= k.saved || work-k.savedWork < every || !p.task.open || len(p.mirrors) > 0 {
		return
	}
	bytes := int64(0)
	for _, o := range p.task.objects {
		bytes += o.resident
	}
	d := p.x.devices[p.device]
	m := d.model.move(bytes, bytes)
	k.over = d.link
	k.copying = p.x.share(d.link, &activity{demand: m.demand, solo: m.soloS, done: func() { k.copying, k.saved, k.savedWork = nil, at, work }})
}

// forget ends a snapshot that is on its way.
func (p *process) forget() {
	if k := p.kept; k != nil && k.copying != nil {
		p.x.leave(k.over, k.copying)
		k.copying = nil
	}
}

// restored are the steps from the latest snapshot on, behind those that bring back what it has.
func (p *process) restored() []step {
	has := map[string]int64{}
	var steps []step
	for _, s := range p.kept.whole[:p.kept.saved] {
		switch s.Kind {
		case profiles.Allocate:
			has[s.Object] = s.Bytes
			steps = append(steps, s)
		case profiles.Free:
			delete(has, s.Object)
			steps = slices.DeleteFunc(steps, func(a step) bool { return a.Object == s.Object })
		}
	}
	for _, s := range slices.Clone(steps) {
		steps = append(steps, p.scaled(p.x.config.Node.first(), &profiles.Step{Kind: profiles.CopyIn, Object: s.Object, Bytes: s.Bytes}))
	}
	return slices.Concat(steps, p.kept.whole[p.kept.saved:])
}
