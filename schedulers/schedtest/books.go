package schedtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
)

type state int

const (
	waiting state = iota
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
	grown   int64
	request int64 // bytes that it waits to grow by
	passed  int
}

// books are kept from the decisions alone, apart from the engine's accounting.
type books struct {
	entries  map[schedulers.TaskID]*entry
	living   map[schedulers.JobID]bool
	contexts []map[schedulers.JobID]bool // by device
	nodes    []schedulers.Device
}

func newBooks(devices []schedulers.Device) books {
	b := books{entries: map[schedulers.TaskID]*entry{}, living: map[schedulers.JobID]bool{}, nodes: devices}
	for range devices {
		b.contexts = append(b.contexts, map[schedulers.JobID]bool{})
	}
	return b
}

func (b *books) wait(t schedulers.Task) {
	b.entries[t.ID] = &entry{task: t, state: waiting, device: -1}
	b.living[t.Job] = true
}

func (b *books) grow(id schedulers.TaskID, bytes int64) {
	e := b.entries[id]
	e.state, e.request = growing, bytes
}

func (b *books) end(id schedulers.TaskID) { b.entries[id].state = ended }

func (b *books) exit(job schedulers.JobID) {
	for _, e := range b.entries {
		if e.task.Job == job && e.state != refused {
			e.state = ended
		}
	}
	delete(b.living, job)
	for _, c := range b.contexts {
		delete(c, job)
	}
}

// enter takes up a decision, or says why it cannot be one.
func (b *books) enter(d schedulers.Decision, config schedulers.Config) error {
	e, known := b.entries[d.Task.ID]
	if !known || d.Task != e.task {
		return errors.New("it is about no task that was submitted")
	}
	want := map[schedulers.DecisionKind]state{schedulers.Granted: waiting, schedulers.Refused: waiting,
		schedulers.Grown: growing, schedulers.GrowRefused: growing}[d.Kind]
	if e.state != want {
		return fmt.Errorf("the task is in state %d, want %d", e.state, want)
	}
	if rejects := d.Kind == schedulers.Refused || d.Kind == schedulers.GrowRefused; rejects != (d.Reason != nil) {
		return fmt.Errorf("reason %v", d.Reason)
	} else if rejects && (d.Reason.Why == "" || d.Reason.CapacityBytes <= 0 || d.Reason.NeedBytes < e.task.Bytes) {
		return fmt.Errorf("reason %+v does not state need and capacity", *d.Reason)
	}
	if e.state == growing && d.Device != e.device {
		return fmt.Errorf("the task is on device %d", e.device)
	}
	switch d.Kind {
	case schedulers.Granted:
		if d.Device < 0 || d.Device >= len(b.nodes) {
			return errors.New("no such device")
		}
		if d.Passed != e.passed || e.passed > config.AgeLimit {
			return fmt.Errorf("passed %d times by its own account and %d times by ours, limit %d", d.Passed, e.passed, config.AgeLimit)
		}
		e.state, e.device = held, d.Device
		b.contexts[d.Device][e.task.Job] = true
		for _, other := range b.entries {
			if other.state == waiting && other.task.ID < e.task.ID {
				other.passed++
			}
		}
	case schedulers.Refused:
		e.state = refused
	case schedulers.Grown:
		e.state, e.grown = held, e.grown+e.request
	case schedulers.GrowRefused:
		e.state = held
	}
	return nil
}

// in is the tasks in any of the states, by arrival.
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

// holders is the living jobs with something on a device, or with nothing left
// to do: those that can exit without anybody's help.
func (b *books) holders() []schedulers.JobID {
	blocked := map[schedulers.JobID]bool{}
	for _, id := range b.in(waiting) {
		blocked[b.entries[id].task.Job] = true
	}
	for _, c := range b.contexts {
		for job := range c {
			delete(blocked, job)
		}
	}
	return slices.DeleteFunc(b.jobs(), func(j schedulers.JobID) bool { return blocked[j] })
}

// check compares the engine's accounting with the books.
func (m *machine) check(rt *rapid.T) {
	if got, want := m.engine.Waiting(), len(m.books.in(waiting)); got != want {
		rt.Fatalf("%d tasks wait, want %d", got, want)
	}
	for i := range m.devices {
		m.checkDevice(rt, i)
	}
}

func (m *machine) checkDevice(rt *rapid.T, i int) {
	d := m.engine.State().Device(i)
	type account struct {
		bytes       int64
		warps       uint64
		tasks, jobs int
	}
	jobs := m.books.contexts[i]
	want := account{bytes: int64(len(jobs)) * d.ContextBytes, jobs: len(jobs)}
	isolated, blocks := false, uint64(0)
	for _, id := range m.books.in(held, growing) {
		e := m.books.entries[id]
		if e.device != i {
			continue
		}
		want.bytes += e.task.Bytes + e.grown
		want.warps += e.task.Warps()
		want.tasks++
		isolated = isolated || e.task.Isolate
		blocks += e.task.Blocks
	}
	if got := (account{d.UsedBytes, d.UsedWarps, d.Tasks, d.Jobs()}); got != want {
		rt.Fatalf("device %d: accounts %+v, want %+v", i, got, want)
	}
	if m.rules.MemoryHard && d.UsedBytes > d.CapacityBytes {
		rt.Fatalf("device %d: %d bytes in use of %d", i, d.UsedBytes, d.CapacityBytes)
	}
	if m.rules.OneJobPerDevice && len(jobs) > 1 {
		rt.Fatalf("device %d: jobs %v at once", i, slices.Sorted(maps.Keys(jobs)))
	}
	if isolated && len(jobs) > 1 {
		rt.Fatalf("device %d: an isolated task beside jobs %v", i, slices.Sorted(maps.Keys(jobs)))
	}
	if m.rules.TracksSMs {
		m.checkSMs(rt, i, blocks)
	}
}

// checkSMs wants every placed block on exactly one SM, or the device to
// belong to one task that is larger than it.
func (m *machine) checkSMs(rt *rapid.T, i int, blocks uint64) {
	d := m.engine.State().Device(i)
	used := uint64(0)
	for j, sm := range d.SMs {
		if sm.FreeBlocks < 0 || sm.FreeWarps < 0 || sm.FreeBlocks > d.BlocksPerSM || sm.FreeWarps > d.WarpsPerSM {
			rt.Fatalf("device %d: SM %d has %+v free of %d blocks and %d warps", i, j, sm, d.BlocksPerSM, d.WarpsPerSM)
		}
		used += uint64(d.BlocksPerSM - sm.FreeBlocks)
	}
	switch {
	case d.Saturated && (d.Tasks != 1 || used != 0):
		rt.Fatalf("device %d is saturated by %d tasks with %d blocks placed, want one task alone", i, d.Tasks, used)
	case !d.Saturated && used != blocks:
		rt.Fatalf("device %d: %d blocks placed, its tasks have %d", i, used, blocks)
	}
}
