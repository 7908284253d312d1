package schedtest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

type state int

const (
	waiting state = iota
	asking        // a request that does not wait, until it is answered
	held
	growing
	refused
	ended
)

// entry is what the decisions so far say about one task.
type entry struct {
	task    schedulers.Task
	state   state
	device  int
	others  []int         // devices of a task for several, beside device
	bytes   int64         // the charged memory, on each device
	request int64         // bytes that it waits to grow by
	expires time.Duration // when the wait of the task or of the growth ends
	passed  int
	alone   bool // larger than its device, or unknown, as granted or shaped since
	whole   bool // managed memory larger than its device
}

// books are kept from the decisions alone, apart from the engine's accounting.
type books struct {
	entries  map[schedulers.TaskID]*entry
	living   map[schedulers.JobID]bool
	contexts []map[schedulers.Process]bool // by device
	looks    looks
	nodes    []schedulers.Device
	rules    Rules
	memory   memory
	config   engine.Config
}

func newBooks(devices []schedulers.Device, rules Rules, memory memory, config engine.Config) books {
	b := books{entries: map[schedulers.TaskID]*entry{}, living: map[schedulers.JobID]bool{}, nodes: devices, rules: rules, memory: memory, config: config, looks: newLooks(len(devices))}
	for range devices {
		b.contexts = append(b.contexts, map[schedulers.Process]bool{})
	}
	return b
}

func (b *books) wait(t schedulers.Task, now time.Duration) {
	e := &entry{task: t, state: waiting, device: -1, expires: b.expiry(t.Wait, now)}
	if e.expires == now {
		e.state = asking
	}
	b.entries[t.ID] = e
	b.living[t.Job] = true
}

func (b *books) grow(id schedulers.TaskID, bytes int64, wait *time.Duration, now time.Duration) {
	e := b.entries[id]
	e.state, e.request, e.expires = growing, bytes, b.expiry(wait, now)
}

func (b *books) expiry(wait *time.Duration, now time.Duration) time.Duration {
	switch {
	case wait != nil:
		return now + *wait
	case b.config.WaitLimit > 0:
		return now + b.config.WaitLimit
	}
	return schedulers.Never
}

func (b *books) shrink(id schedulers.TaskID, bytes int64) {
	if e := b.entries[id]; !e.whole {
		e.bytes -= bytes
	}
}

// shape enters a kernel if it is the task's largest so far.
func (b *books) shape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32) {
	e := b.entries[id]
	t, larger := e.task.WithKernel(blocks, threadsPerBlock, blocksPerSM)
	if larger {
		e.task, e.alone = t, false
	}
}

func (b *books) end(id schedulers.TaskID) { b.entries[id].state = ended }

func (b *books) exit(gone func(schedulers.Process) bool) {
	for _, e := range b.entries {
		if gone(e.task.Process()) && e.state != refused {
			e.state = ended
		}
	}
	for _, c := range b.contexts {
		maps.DeleteFunc(c, func(p schedulers.Process, _ bool) bool { return gone(p) })
	}
	b.looks.forget(gone)
	b.leave()
}

// leave enters that jobs have left devices.
func (b *books) leave() {
	for _, e := range b.entries {
		if e.device >= 0 && !b.jobsOn(e.device)[e.task.Job] { // the job has left the device, so that its tasks no longer isolate it
			e.device, e.others = -1, nil
		}
	}
}

// jobsOn returns the jobs with a context on the device.
func (b *books) jobsOn(device int) map[schedulers.JobID]bool {
	jobs := map[schedulers.JobID]bool{}
	for p := range b.contexts[device] {
		jobs[p.Job] = true
	}
	return jobs
}

// enter enters a decision. It returns an error that says why the decision is wrong.
func (b *books) enter(d schedulers.Decision, now time.Duration) error {
	config := b.config
	e, known := b.entries[d.Task.ID]
	if !known || d.Task != e.task {
		return errors.New("it is about no task that was submitted")
	}
	if d.Kind == schedulers.Restart {
		return b.restart(e, d)
	}
	want := map[schedulers.DecisionKind]state{schedulers.Granted: waiting, schedulers.Refused: waiting,
		schedulers.Grown: growing, schedulers.GrowRefused: growing}[d.Kind]
	if asked := e.state == asking && want == waiting; e.state != want && !asked {
		return fmt.Errorf("the task is in state %d, want %d", e.state, want)
	}
	if rejects := d.Kind == schedulers.Refused || d.Kind == schedulers.GrowRefused; rejects != (d.Reason != nil) {
		return fmt.Errorf("reason %v", d.Reason)
	} else if rejects && (d.Reason.Why == "" || d.Reason.CapacityBytes <= 0 || d.Reason.NeedBytes < e.needs()) {
		return fmt.Errorf("reason %+v does not state need and capacity", *d.Reason)
	} else if rejects && d.Reason.Cause == schedulers.TimedOut && now < e.expires {
		return fmt.Errorf("its wait is over at %v, and it is %v", e.expires, now)
	}
	if e.state == growing && d.Device != e.device {
		return fmt.Errorf("the task is on device %d", e.device)
	}
	if err := b.refusedInDeadlock(e, d.Reason); err != nil {
		return err
	}
	switch d.Kind {
	case schedulers.Granted:
		if d.Device < 0 || d.Device >= len(b.nodes) {
			return errors.New("no such device")
		}
		if pin := e.task.OnDevice; pin != nil && *pin != d.Device {
			return fmt.Errorf("the task needs device %d", *pin)
		}
		if config.AgeLimit > 0 && d.Passed > config.AgeLimit || d.Passed > e.passed || d.Passed < e.passed && !b.rules.hidesTurns() {
			return fmt.Errorf("passed %d times by its own account and %d times by ours, limit %d", d.Passed, e.passed, config.AgeLimit)
		}
		if !b.deadlock() {
			stalled := map[schedulers.TaskID]bool{}
			if !b.rules.hidesTurns() && len(b.in(waiting, asking)) > 1 { // otherwise the books cannot tell, or no other task waits
				stalled = b.stalled()
			}
			for _, other := range b.entries {
				if other.state == waiting && !stalled[other.task.ID] && !b.rules.hidesTurns() && b.goesBefore(other, e) {
					return fmt.Errorf("task %d waits, and it is its turn", other.task.ID)
				}
			}
			for _, other := range b.entries {
				if other.state == waiting && other.task.ID < e.task.ID && !stalled[other.task.ID] {
					other.passed++
				}
			}
		}
		devices, err := grantedTo(d)
		if err != nil {
			return err
		}
		for _, device := range devices {
			if err := b.place(e, device); err != nil {
				return err
			}
		}
		e.device, e.others = devices[0], devices[1:]
	case schedulers.Refused:
		e.state = refused
	case schedulers.Grown:
		e.state = held
		if !e.whole {
			e.bytes += e.request
		}
	case schedulers.GrowRefused:
		if room := b.nodes[d.Device]; d.Reason.Cause == schedulers.DeviceFull && e.request <= room.CapacityBytes-room.ContextBytes-e.bytes {
			if job, ok := b.idle(d.Device); ok {
				return fmt.Errorf("job %d has a context there, waits for nothing, and may exit", job)
			}
		}
		e.state = held
	}
	return nil
}

// grantedTo returns the devices of a grant: as many as the task asks for, each once.
func grantedTo(d schedulers.Decision) ([]int, error) {
	if !d.Task.Several() {
		if d.Devices != nil {
			return nil, fmt.Errorf("it asks for one device, and has %v", d.Devices)
		}
		return []int{d.Device}, nil
	}
	if each := slices.Compact(slices.Sorted(slices.Values(d.Devices))); len(each) != d.Task.Terms.Devices || len(d.Devices) != len(each) || d.Devices[0] != d.Device {
		return nil, fmt.Errorf("it asks for %d devices, and has %v", d.Task.Terms.Devices, d.Devices)
	}
	return d.Devices, nil
}

// has reports whether the device is the task's, or one of them.
func (e *entry) has(device int) bool { return e.device == device || slices.Contains(e.others, device) }

// isAlone reports whether the task, on the device, is larger than it.
func (b *books) isAlone(e *entry, device int) bool {
	if e.task.Several() {
		return b.rules.tracksSMs && larger(e.task, b.nodes[device])
	}
	return e.alone
}

// needs returns the memory of the task with its request, without its context.
func (e *entry) needs() int64 {
	if e.state != growing {
		return e.task.Bytes
	}
	if e.request > math.MaxInt64-e.bytes {
		return math.MaxInt64
	}
	return e.bytes + e.request
}

// place puts a granted task on its device.
func (b *books) place(e *entry, device int) error {
	d, contexts := b.nodes[device], b.contexts[device]
	contexts[e.task.Process()] = true
	b.looks.granted(device, e.task.Process())
	e.bytes = e.task.Bytes
	e.whole = b.rules.MemoryHard && e.task.Bytes > d.CapacityBytes-d.ContextBytes
	if e.whole {
		e.bytes = d.CapacityBytes - int64(len(contexts))*d.ContextBytes - b.looks.charged(device, anyJob)
	}
	e.alone = e.whole || b.rules.tracksSMs && larger(e.task, d)
	for _, other := range b.on(device) {
		if b.isAlone(e, device) || b.isAlone(other, device) {
			return fmt.Errorf("tasks %d and %d share device %d, and one of them is larger than it", other.task.ID, e.task.ID, device)
		}
	}
	if share, left := e.task.Terms.OrNone().Share, schedulers.WholeDevice-b.shares(device, anyJob, e.task.Job); share > left {
		return fmt.Errorf("a share of %d on device %d, where %d are left", share, device, left)
	}
	e.state = held
	return nil
}

// shares is what jobs with a task on the device ask of its time. If job is among them, it has its share already, and nothing counts.
func (b *books) shares(device int, beside func(schedulers.JobID) bool, job schedulers.JobID) int {
	sum, of := 0, map[schedulers.JobID]bool{}
	for _, e := range b.on(device) {
		if e.task.Job == job {
			return 0
		}
		if beside(e.task.Job) && !of[e.task.Job] {
			of[e.task.Job] = true
			sum += e.task.Terms.OrNone().Share
		}
	}
	return sum
}

// larger reports whether an empty d cannot hold t's grid at once.
func larger(t schedulers.Task, d schedulers.Device) bool {
	perSM := uint64(d.BlocksPerSM)
	if warps := t.WarpsPerBlock(); warps > 0 {
		perSM = min(perSM, uint64(d.WarpsPerSM)/warps)
	}
	if t.BlocksPerSM > 0 {
		perSM = min(perSM, uint64(t.BlocksPerSM))
	}
	return t.GridUnknown || t.Blocks > perSM*uint64(d.SMs)
}

// on returns the tasks that have the device, by arrival.
func (b *books) on(device int) []*entry {
	var out []*entry
	for _, id := range b.in(held, growing) {
		if e := b.entries[id]; e.has(device) {
			out = append(out, e)
		}
	}
	return out
}

// waits returns the jobs with a task in any of the states.
func (b *books) waits(states ...state) map[schedulers.JobID]bool {
	jobs := map[schedulers.JobID]bool{}
	for _, id := range b.in(states...) {
		jobs[b.entries[id].task.Job] = true
	}
	return jobs
}

// idle returns a job with a context on the device that does not wait.
func (b *books) idle(device int) (schedulers.JobID, bool) {
	waits := b.waits(waiting, growing)
	for job := range b.jobsOn(device) {
		if !waits[job] {
			return job, true
		}
	}
	return 0, false
}

// deadlock reports whether every task that is held waits to grow, and every job with
// a context waits too.
func (b *books) deadlock() bool {
	if len(b.in(held)) > 0 {
		return false
	}
	some := false
	for i, contexts := range b.contexts {
		some = some || len(contexts) > 0
		if _, ok := b.idle(i); ok {
			return false
		}
	}
	return some
}

// in returns the tasks in any of the states, by arrival.
func (b *books) in(states ...state) []schedulers.TaskID {
	var ids []schedulers.TaskID
	for id, e := range b.entries {
		if slices.Contains(states, e.state) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (b *books) jobs() []schedulers.JobID { return slices.Sorted(maps.Keys(b.living)) }

// severalTasks returns the living jobs that may have another task: those without one for several devices.
func (b *books) severalTasks() []schedulers.JobID {
	return slices.DeleteFunc(b.jobs(), func(j schedulers.JobID) bool {
		for _, e := range b.entries {
			if e.task.Job == j && e.task.Several() {
				return true
			}
		}
		return false
	})
}

// holders returns the living jobs that have a context or do not wait, and can therefore exit
// by themselves.
func (b *books) holders() []schedulers.JobID {
	blocked := map[schedulers.JobID]bool{}
	for _, id := range b.in(waiting) {
		blocked[b.entries[id].task.Job] = true
	}
	for _, c := range b.contexts {
		for p := range c {
			delete(blocked, p.Job)
		}
	}
	return slices.DeleteFunc(b.jobs(), func(j schedulers.JobID) bool { return blocked[j] })
}
