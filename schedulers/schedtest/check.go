package schedtest

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
)

// check compares the engine's accounting with the books.
func (m *machine) check(rt *rapid.T) {
	if got, want := m.engine.Waiting(), len(m.books.in(waiting)); got != want {
		rt.Fatalf("%d tasks wait, want %d", got, want)
	}
	if m.books.deadlock() {
		rt.Fatalf("those that wait to grow (%v) and in the queue (%v) wait for each other", m.books.in(growing), m.books.in(waiting))
	}
	for i := range m.devices {
		m.checkDevice(rt, i)
	}
	m.checkTurns(rt)
}

func (m *machine) checkDevice(rt *rapid.T, i int) {
	d := m.engine.View().Device(i)
	type account struct {
		bytes       int64
		warps       uint64
		tasks, jobs int
	}
	jobs := m.books.jobsOn(i)
	unaccounted := m.books.looks.charged(i, anyJob)
	want := account{bytes: int64(len(m.books.contexts[i]))*m.devices[i].ContextBytes + unaccounted, jobs: len(jobs)}
	isolated := false
	for _, e := range m.books.on(i) {
		want.bytes += e.bytes
		want.warps += e.task.Warps()
		want.tasks++
		isolated = isolated || e.task.Isolate
	}
	if got := (account{d.UsedBytes(), d.UsedWarps(), d.Tasks(), d.Jobs()}); got != want {
		rt.Fatalf("device %d: accounts %+v, want %+v", i, got, want)
	}
	if m.rules.MemoryHard && d.UsedBytes()-unaccounted-m.books.looks.contexts(i)*m.devices[i].ContextBytes > d.Limits().CapacityBytes {
		rt.Fatalf("device %d: %d bytes in use of %d", i, d.UsedBytes(), d.Limits().CapacityBytes)
	}
	if m.rules.OneJobPerDevice && len(jobs) > 1 {
		rt.Fatalf("device %d: jobs %v at once", i, slices.Sorted(maps.Keys(jobs)))
	}
	if isolated && len(jobs) > 1 {
		rt.Fatalf("device %d: an isolated task beside jobs %v", i, slices.Sorted(maps.Keys(jobs)))
	}
	if m.rules.tracksSMs {
		m.checkSMs(rt, i)
	}
}

// checkSMs checks that every block of every task is on exactly one SM, except blocks of tasks
// that saturate the device.
func (m *machine) checkSMs(rt *rapid.T, i int) {
	d, limits := m.engine.View().Device(i), m.devices[i]
	used, blocks, alone := uint64(0), uint64(0), false
	for j := range limits.SMs {
		sm := d.SM(j)
		if sm.FreeBlocks < 0 || sm.FreeSlots < 0 || sm.FreeBlocks > limits.BlocksPerSM || sm.FreeSlots > limits.WarpsPerSM*schedulers.SlotsPerWarp {
			rt.Fatalf("device %d: SM %d has %+v free of %d blocks and %d warps", i, j, sm, limits.BlocksPerSM, limits.WarpsPerSM)
		}
		used += uint64(limits.BlocksPerSM - sm.FreeBlocks)
	}
	for _, e := range m.books.on(i) {
		blocks += min(e.task.Blocks, 1<<32) // the sum cannot wrap
		alone = alone || m.books.isAlone(e, i) || larger(e.task, limits)
	}
	switch {
	case alone && !d.Saturated():
		rt.Fatalf("device %d has a task larger than it and is not saturated", i)
	case d.Saturated() && (d.Tasks() == 0 || used >= blocks && blocks > 0):
		rt.Fatalf("device %d is saturated by %d tasks with all %d blocks placed", i, d.Tasks(), blocks)
	case !d.Saturated() && used != blocks:
		rt.Fatalf("device %d: %d blocks placed, its tasks have %d", i, used, blocks)
	}
}
