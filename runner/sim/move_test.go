package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// mover is a Preempter that at certain times moves each task, beside what it asks for by its rules: all go to the next device.
type mover struct {
	schedulers.Policy
	at    func(now time.Duration) (next time.Duration) // the first such time that is not before now
	moved time.Duration
}

func (m *mover) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	out := m.Policy.(schedulers.Preempter).Revoke(waiting, v, now)
	moves := m.at(now) == now && m.moved < now // once
	for i := 0; i < v.Len() && moves; i++ {
		m.moved = now
		for t := range v.Device(i).TaskViews() {
			out = append(out, schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Move, Deadline: time.Second, For: schedulers.Nobody, Device: (i + 1) % v.Len()})
		}
	}
	return out
}

func (m *mover) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	return min(m.at(now+1), m.Policy.(schedulers.Preempter).NextTick(waiting, v, now))
}

func (m *mover) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	return m.Policy.(schedulers.Preempter).NextLook(waiting, now)
}

// movingAt is a trial whose tasks are moved at these times.
func movingAt(r trial, times ...float64) trial {
	r.moves = func(now time.Duration) time.Duration {
		for _, s := range times {
			if at := time.Duration(s * float64(time.Second)); at >= now {
				return at
			}
		}
		return schedulers.Never
	}
	return r
}

// way is a move of 6 GiB from device 0.
func way(start, drain, copying, bookkeeping float64) results.Swap {
	return results.Swap{Direction: schedulers.Out, Action: "move", Outcome: schedulers.Done, StartS: start, EndS: start + drain + copying + bookkeeping, Bytes: 6 * gib,
		DrainS: drain, CopyS: copying, BookkeepingS: bookkeeping, ResidentBytes: new(int64(6 * gib)), FixedBytes: new(int64(0)), LostS: new(0.0)}
}

func TestAProcessMovesToAnotherDevice(t *testing.T) {
	const chunks, anew = 6 * 32 * 15e-6, switchSeconds + contextSeconds
	direct, through, back := 6*gib/389e9, 6*63/55.+2*6*63/55., 2*6*63/55.+6*63/55.
	on := func(s results.Swap, device int) results.Swap { s.Device = device; return s }
	written := `, "writes": ["x"]`
	for name, c := range map[string]struct {
		node  Node
		steps string
		at    []float64
		end   float64
		moves []results.Swap
	}{
		"while it is on the host": {small(t, 2), kernel(1, 1, written) + host(5) + kernel(1, 1, written), []float64{2}, 7,
			[]results.Swap{way(2, 0, direct, anew+chunks)}},
		"after its kernel, and the next waits": {small(t, 2), kernel(1, 1, written) + kernel(1, 1, written), []float64{0.5}, 2 + anew + direct + chunks,
			[]results.Swap{way(0.5, 0.5, direct, anew+chunks)}},
		"and back, where it has a context": {small(t, 2), kernel(1, 1, written) + host(5) + kernel(1, 1, written), []float64{2, 3}, 7,
			[]results.Swap{way(2, 0, direct, anew+chunks), on(way(3, 0, direct, switchSeconds+chunks), 1)}},
		"through the host": {lopsided(t).Capped(40 * gib), kernel(1, 1, written) + host(90) + kernel(1, 1, written), []float64{2, 40}, 92,
			[]results.Swap{way(2, 0, through, anew+2*chunks), on(way(40, 0, back, switchSeconds+2*chunks), 1)}},
		"without contents": {lopsided(t).Capped(40 * gib), kernel(1, 1, `, "reads": ["x"]`) + host(9) + kernel(1, 1, `, "reads": ["x"]`), []float64{2}, 1 + 9 + 3,
			[]results.Swap{way(2, 0, 0, anew+2*chunks)}},
	} {
		if name == "through the host" || name == "without contents" {
			c.node.Groups[1].MemoryBytes += 6 * gib
		}
		jobs, rec := movingAt(stepping(t, c.node, "demand", allocate("x", "6GiB")+c.steps), c.at...).must(t)
		wantOutcome(t, jobs[0], results.OK, c.end)
		if diff := cmp.Diff(c.moves, rec.Swaps, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("%s: moves (-want +got):\n%s", name, diff)
		}
		if k := rec.Kernels[len(rec.Kernels)-1]; k.Device != len(c.moves)%2 {
			t.Errorf("%s: the last kernel is on device %d", name, k.Device)
		}
	}
}

// What is on the host stays there, and comes to the new device.
func TestWhatIsOnTheHostDoesNotMove(t *testing.T) {
	all := moving(6, 6)
	jobs, rec := movingAt(stepping(t, small(t, 2), "vgpu:n=2", allocate("x", "6GiB")+kernel(1, 1, "")+host(30)+kernel(1, 1, "")+free("x"),
		allocate("y", "6GiB")+kernel(1, 1, "")+host(25), host(2)+allocate("z", "6GiB")+kernel(1, 1, "")+host(50)), 20).must(t)
	wantOutcome(t, jobs[0], results.OK, 31+all+1)
	switched, back := way(20, 0, 0, switchSeconds+contextSeconds), in(0, 6, 6, 31)
	switched.Bytes, switched.ResidentBytes, back.Device = 0, new(int64(0)), 1
	if diff := cmp.Diff([]results.Swap{out(0, "yield", 6, 6, 2.005, 0, 2), switched, back}, rec.Swaps, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
}

// A process with managed memory cannot move.
func TestManagedMemoryDoesNotMove(t *testing.T) {
	_, rec := movingAt(stepping(t, small(t, 2), "demand", managed("x", "1GiB")+kernel(1, 1, "")+host(5)), 2).must(t)
	for _, s := range rec.Swaps {
		t.Errorf("a swap %+v", s)
	}
}

// Jobs that are stopped in the middle of a move leave nothing.
func TestAMoveToAnotherDeviceIsStopped(t *testing.T) {
	for ms := range 40 {
		r := movingAt(stepping(t, lopsided(t), "demand", allocate("x", "3GiB")+kernel(1, 1, "")+host(5)+kernel(1, 1, ""), host(20)), 2)
		r.timeout = time.Duration(ms*500+1) * time.Millisecond
		if _, _, err := r.clean(t.Context()); err != nil {
			t.Errorf("stopped after %v: %v", r.timeout, err)
		}
	}
}

// A process that waits for a slot goes where one is free first (vgpu-preempt), with what it has on its device.
func TestAProcessThatWaitsForASlotMoves(t *testing.T) {
	first := allocate("x", "3GiB") + kernel(1, 1, `, "writes": ["x"]`) + host(4) + kernel(1, 1, "") + free("x")
	jobs, rec := stepping(t, small(t, 2), "vgpu-preempt:n=1", first, allocate("y", "1GiB")+kernel(1, 6, ""), allocate("z", "1GiB")+kernel(1, 9, "")).must(t)
	copying, chunks := 3*gib/389e9, 96*15e-6
	wantOutcome(t, jobs[0], results.OK, 6+copying+chunks+contextSeconds+switchSeconds+1)
	wantOutcome(t, jobs[2], results.OK, 1.01+9)
	if s := rec.Swaps[len(rec.Swaps)-1]; s.Action != "move" || s.StartS != 6 || s.Bytes != 3*gib || s.Device != 0 {
		t.Errorf("the last swap is %+v", s)
	}
	if d := *rec.of(0)[0].Device; d != 1 {
		t.Errorf("the task is on device %d", d)
	}
}

// Figures 3-14b and 3-16 to 3-20 in small: jobs of three ranks that meet, on four devices. With preemption no device waits for a rank.
func TestPreemptionOfJobsThatDoNotFitTheDevicesOneByOne(t *testing.T) {
	for scheduler, want := range map[string]float64{"vgpu:n=1": 20.04, "vgpu-preempt:n=1": 15.814, "vgpu-preempt:n=2": 16.168} {
		r := ranked(t, small(t, 4), scheduler, 3, strings.Repeat(kernel(32*132, 0.5, "")+barrier+host(0.001), 10))
		r.jobs = slices.Repeat(r.jobs, 4)
		jobs, _ := r.must(t)
		if got := makespanOf(t, jobs); math.Abs(got-want) > 1e-3 {
			t.Errorf("%s: %.3f s, want %g", scheduler, got, want)
		}
	}
}

// Figure 3-11 in small: two fast devices and a slow one. What is on the slow one when a fast one is idle goes there, with its memory.
func TestBalancingOfUnequalDevices(t *testing.T) {
	var steps []string
	for range 6 {
		steps = append(steps, allocate("x", "64MiB")+strings.Repeat(kernel(99999, 0.002, `, "writes": ["x"]`)+host(0.2), 20)+free("x"))
	}
	for scheduler, moves := range map[string]bool{"vgpu": false, "vgpu:balance=on": true, "vgpu-preempt:n=4,balance=on": true, "vgpu:balance=on,weights=1:1:1": false} {
		jobs, rec := stepping(t, mustNode(t, unequal), scheduler, steps...).must(t)
		want, swaps := 15.15136, 0
		if moves {
			want, swaps = 12.157462, 2
		}
		if got := makespanOf(t, jobs); math.Abs(got-want) > 1e-4 || len(rec.Swaps) != swaps {
			t.Errorf("%s: %g s, want %g, and %d swaps, want %d", scheduler, got, want, len(rec.Swaps), swaps)
		}
	}
}
