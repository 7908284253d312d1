package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
)

// moving is how long moves of so many GiB take on the small node. `copied` GiB of them are copied.
func moving(gibs, copied float64) float64 { return copied*63/55 + 32*gibs*75e-6 }

// asked is when a policy that looks every 5 ms asks whoever is idle for a request that comes at a time.
func asked(at float64) float64 { return (math.Floor(at/0.005+1e-9) + 1) * 0.005 }

// burst is a job that works on an object of 6 GiB, on the host, and on the object again. Two of them do
// not fit the device.
func burst() string {
	return allocate("x", "6GiB") + kernel(1, 1, "") + host(5) + kernel(1, 1, "") + free("x")
}

func wantBursts(t *testing.T, scheduler string, want ...float64) {
	t.Helper()
	jobs, rec := stepping(t, small(t, 1), scheduler, burst(), burst()).must(t)
	for i, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("%s: job %d: %s (%s)", scheduler, i, *j.Outcome, j.Detail)
		}
	}
	var got []float64
	for _, k := range rec.Kernels {
		got = append(got, k.EndS)
	}
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
		t.Errorf("%s: kernels end at %v s, want %v", scheduler, got, want)
	}
}

// A process in a host phase gives way. Its memory comes back before its next kernel.
func TestMemoryOfAnIdleProcessMoves(t *testing.T) {
	all, some := moving(6, 6), moving(2, 2)
	first := 1 + all + 1 // job 1's first kernel is over; job 0 has been idle since 1 s
	second := asked(first) + 2*all + 1
	wantBursts(t, "vgpu:n=2", 1, first, second, second+all+1)
	// Only the 2 GiB that are missing move.
	third := asked(6) + 2*some + 1
	wantBursts(t, "demand", 1, 1+some+1, third, third+some+1)
}

// With one slot on each device nothing moves: the processes follow each other.
func TestOneSlotIsOneProcessAtATime(t *testing.T) { wantBursts(t, "vgpu:n=1", 1, 7, 8, 14) }

// Memory whose contents the host has already goes out without a copy.
func TestUnchangedMemoryIsNotCopied(t *testing.T) {
	reads := kernel(1, 1, `, "reads": ["x"]`)
	jobs, rec := stepping(t, small(t, 1), "vgpu:n=2",
		allocate("x", "6GiB")+kernel(1, 1, "")+host(9)+reads+host(9)+reads+free("x"),
		host(2)+allocate("y", "6GiB")+kernel(1, 1, "")+free("y")+host(12)+allocate("z", "6GiB")+kernel(1, 1, "")).must(t)
	y := asked(2) + moving(6, 6) + 1
	z := asked(y+12) + moving(6, 0) + 1
	again := 10 + moving(6, 6) + 1
	wantOutcome(t, jobs[0], results.OK, again+9+moving(6, 6)+1)
	wantOutcome(t, jobs[1], results.OK, z)
	if k := rec.Kernels[1]; math.Abs(k.EndS-y) > 1e-6 {
		t.Errorf("the kernel on y ends at %g s, want %g", k.EndS, y)
	}
}

// A kernel that uses more than the device has is refused, and objects that do not fit together are not.
func TestAJobLargerThanItsDevice(t *testing.T) {
	three := allocate("a", "4GiB") + allocate("b", "4GiB") + allocate("c", "4GiB")
	on := func(objects string) string { return kernel(1, 1, `, "writes": [`+objects+`]`) }
	r := stepping(t, small(t, 1), "vgpu", three+on(`"a", "b"`)+on(`"b", "c"`)+on(`"a", "c"`))
	jobs, _ := r.must(t)
	// One process alone has 10.5625 GiB, so 1.4375 GiB do not fit. They are a's at the second kernel, for
	// which c comes without contents, and b's at the third, for which those of a come back.
	part := moving(1.4375, 1.4375)
	wantOutcome(t, jobs[0], results.OK, 1+part+moving(4, 0)+1+part+part+1)
	for scheduler, steps := range map[string]string{"vgpu": three + on(`"a", "b", "c"`), "demand": three + on(`"a"`) + on(`"a", "b", "c"`)} {
		jobs, _ := stepping(t, small(t, 1), scheduler, steps).must(t)
		if *jobs[0].Outcome == results.OK {
			t.Errorf("%s: a kernel on 12 GiB ran on a device of 10", scheduler)
		}
	}
}

// Jobs that are stopped in the middle of a move leave nothing.
func TestAMoveIsStopped(t *testing.T) {
	for ms := range 40 {
		r := stepping(t, small(t, 1), "vgpu:n=2", burst(), burst())
		r.timeout = time.Duration(ms*500+1) * time.Millisecond
		if _, _, err := r.clean(t.Context()); err != nil {
			t.Errorf("stopped after %v: %v", r.timeout, err)
		}
	}
}
