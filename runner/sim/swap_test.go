package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// moving is how long moves of so many GiB take on the small node. `copied` GiB of them are copied.
func moving(gibs, copied float64) float64 { return copied*63/55 + 32*gibs*15e-6 }

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

// Where permits end with bursts, nobody has to look who is idle, and one slot is for one burst at a time.
func TestPermitsEndWithBursts(t *testing.T) {
	all := moving(6, 6)
	first := 1 + all + 1
	second := first + 2*all + 1
	for _, scheduler := range []string{"vgpu:n=2,bursts=on", "vgpu:n=1,bursts=on"} {
		wantBursts(t, scheduler, 1, first, second, second+all+1)
	}
	some := moving(2, 2)
	third := 6 + 2*some + 1
	wantBursts(t, "demand:bursts=on", 1, 1+some+1, third, third+some+1)
	fits := allocate("x", "2GiB") + kernel(1, 1, "") + host(5) + kernel(1, 1, "") + free("x")
	for scheduler, want := range map[string]float64{"vgpu:n=1": 14, "vgpu:n=1,bursts=on": 8} {
		jobs, rec := stepping(t, small(t, 1), scheduler, fits, fits).must(t)
		if end := max(*jobs[0].EndS, *jobs[1].EndS); end != want || len(rec.Swaps) > 0 {
			t.Errorf("%s: the jobs end after %v s, with swaps %+v; want %v s and none", scheduler, end, rec.Swaps, want)
		}
	}
}

// A job that is bound as a whole by what it declares keeps its memory, and asks for nothing.
func TestMemoryOfADeclaredJobStays(t *testing.T) {
	for _, scheduler := range []string{"vgpu:n=2", "demand"} {
		later := allocate("x", "1GiB") + kernel(1, 1, "") + allocate("y", "5GiB") + kernel(1, 1, "") + host(5)
		r := stepping(t, small(t, 1), scheduler, later, burst())
		r.jobs[0].Binding, r.jobs[0].Footprint.Bytes = mixes.BindDeclared, 6*gib
		jobs, rec := r.must(t)
		if len(rec.Swaps) > 0 || *jobs[0].EndS != 7 || *jobs[1].EndS != 14 {
			t.Errorf("%s: the jobs end at %v and %v s, with swaps %+v; want 7 and 14 s, and none", scheduler, *jobs[0].EndS, *jobs[1].EndS, rec.Swaps)
		}
	}
}

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

// wantSwaps compares what was recorded. Of times it wants those of the small node to the microsecond.
func wantSwaps(t *testing.T, scheduler string, steps []string, want ...results.Swap) {
	t.Helper()
	_, rec := stepping(t, small(t, 1), scheduler, steps...).must(t)
	if diff := cmp.Diff(want, rec.Swaps, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("%s: swaps (-want +got):\n%s", scheduler, diff)
	}
}

// out and in are swaps of so many GiB of which `copied` GiB are copied.
func out(job int, action string, gibs, copied, start, resident float64, forJob int) results.Swap {
	s := in(job, gibs, copied, start)
	s.Direction, s.Action = schedulers.Out, action
	s.ResidentBytes, s.FixedBytes, s.LostS, s.ForJob, s.ForTask = new(int64(resident*gib)), new(int64(0)), new(0.0), &forJob, new(0)
	return s
}

func in(job int, gibs, copied, start float64) results.Swap {
	return results.Swap{Job: job, Direction: schedulers.In, Outcome: schedulers.Done, StartS: start, EndS: start + moving(gibs, copied),
		Bytes: int64(gibs * gib), CopyS: moving(0, copied), BookkeepingS: moving(gibs, 0)}
}

func TestSwapsAreRecorded(t *testing.T) {
	all, some := moving(6, 6), moving(2, 2)
	second := asked(1 + all + 1)
	third := asked(6)
	wantSwaps(t, "vgpu:n=2", []string{burst(), burst()}, out(0, "yield", 6, 6, 1, 0, 1), out(1, "yield", 6, 6, second, 0, 0),
		in(0, 6, 6, second+all), in(1, 6, 6, second+2*all+1))
	wantSwaps(t, "demand", []string{burst(), burst()}, out(0, "yield", 2, 2, 1, 4, 1), out(1, "yield", 2, 2, third, 4, 0),
		in(0, 2, 2, third+some), in(1, 2, 2, third+2*some+1))
	// A process makes room for itself. What c brings to the device was never on the host.
	part := moving(1.4375, 1.4375)
	c := 1 + part + moving(4, 0) + 1
	wantSwaps(t, "vgpu", []string{allocate("a", "4GiB") + allocate("b", "4GiB") + allocate("c", "4GiB") + kernel(1, 1, `, "writes": ["a", "b"]`) +
		kernel(1, 1, `, "writes": ["b", "c"]`) + kernel(1, 1, `, "writes": ["a", "c"]`)},
		out(0, "evict", 1.4375, 1.4375, 1, 6.5625, 0), out(0, "evict", 1.4375, 1.4375, c, 9.125, 0), in(0, 1.4375, 1.4375, c+part))
}

// The next kernel may use less than the latest did. So before a growth is refused, what the latest used makes room.
func TestGrowthGetsThePlaceOfWhatTheLatestKernelUsed(t *testing.T) {
	for _, scheduler := range []string{"vgpu", "demand"} {
		wantSwaps(t, scheduler, []string{allocate("a", "4GiB") + kernel(1, 1, "") + allocate("b", "8GiB") + kernel(1, 1, `, "reads": ["b"]`)},
			out(0, "evict", 1.4375, 1.4375, 1, 2.5625, 0))
	}
}

// The scheduler does not know that a is free, so it asks the process to make room for c. The process keeps b, which
// its kernel needs, and says that it has enough room.
func TestAProcessKeepsWhatItWaitsFor(t *testing.T) {
	for _, scheduler := range []string{"vgpu", "demand"} {
		wantSwaps(t, scheduler, []string{allocate("a", "5GiB") + allocate("b", "3GiB") + kernel(1, 1, "") + free("a") + kernel(1, 1, "") + allocate("c", "4GiB") +
			kernel(1, 1, "")}, out(0, "evict", 0, 0, 2, 3, 0))
	}
}

// A process that begins a kernel in the instant in which it is asked gives way when the kernel ends. If
// that is after the deadline, it is busy, and is asked again later.
func TestTheDrainIsRecorded(t *testing.T) {
	steps := func(kernelS float64) []string {
		return []string{allocate("x", "6GiB") + kernel(1, 1.0025, "") + host(0.0025) + kernel(1, kernelS, "") + host(20), host(0.5) + allocate("y", "6GiB") + kernel(1, 1, "")}
	}
	drained := out(0, "yield", 6, 6, 1.005, 0, 1)
	drained.DrainS, drained.EndS = 0.0625, drained.EndS+0.0625
	wantSwaps(t, "vgpu:n=2", steps(0.0625), drained)
	busy := out(0, "yield", 0, 0, 1.005, 6, 1)
	busy.Outcome, busy.DrainS, busy.EndS = schedulers.Busy, 0.1, 1.105
	wantSwaps(t, "vgpu:n=2", steps(0.125), busy, out(0, "yield", 6, 6, 1.205, 0, 1)) // it rests for the deadline
}

// checkSwaps looks for a swap that did not take what it says it took, and for memory that came back
// without having been out.
func checkSwaps(swaps []results.Swap) error {
	host := map[[2]int]int64{} // of each task
	for _, s := range swaps {
		of := [2]int{s.Job, s.Task}
		if took := s.DrainS + s.CopyS + s.BookkeepingS; math.Abs(s.EndS-s.StartS-took) > 1e-6 || s.Outcome == schedulers.Busy && s.Bytes > 0 {
			return fmt.Errorf("swap %+v lasted %g s, and took %g s", s, s.EndS-s.StartS, took)
		}
		switch {
		case s.Action == schedulers.Move.String():
		case s.Direction == schedulers.Out:
			host[of] += s.Bytes
		default:
			host[of] -= s.Bytes
		}
		if host[of] < 0 {
			return fmt.Errorf("swap %+v brings back %d bytes more than were out", s, -host[of])
		}
	}
	return nil
}

// Whatever jobs do on a device that is too small for them, each swap took what it says, and nothing came
// back that was not out.
func TestAnySwapsAddUp(t *testing.T) {
	moved := map[string]int{}
	chance.Check(t, func(rt *rapid.T) {
		var steps []string
		for range rapid.IntRange(2, 4).Draw(rt, "jobs") {
			text, _ := anySteps(rt)
			steps = append(steps, text+allocate("last", "1GiB")+kernel(1, 1, "")+host(1)+kernel(1, 1, ""))
		}
		node := rapid.SampledFrom([]Node{small(t, 1), small(t, 2), lopsided(t)}).Draw(rt, "node")
		node.Groups[0].MemoryBytes -= 6 * gib
		r := stepping(t, node, rapid.SampledFrom([]string{"vgpu:n=2", "vgpu:victims=0", "demand", "vgpu:n=2,bursts=on", "demand:bursts=on"}).Draw(rt, "policy"), steps...)
		if every := time.Duration(rapid.IntRange(0, 3).Draw(rt, "moves, s")) * time.Second; every > 0 {
			r.moves = func(now time.Duration) time.Duration {
				if next := (now + every - 1).Truncate(every); next < time.Minute {
					return next
				}
				return schedulers.Never
			}
		}
		_, rec, err := r.clean(t.Context())
		if err == nil {
			err = checkSwaps(rec.Swaps)
		}
		if err != nil {
			rt.Fatalf("%s: %v: %q", r.scheduler, err, steps)
		}
		for _, s := range rec.Swaps {
			moved[s.Action]++
		}
	})
	if moved["yield"] == 0 || moved["move"] == 0 || moved[""] == 0 {
		t.Errorf("swaps %v, so that nothing was checked", moved)
	}
}

// Who shares the link slows copies and bookkeeping alike.
func TestAMoveThatIsSlowedDown(t *testing.T) {
	m := small(t, 1).Groups[0].move(6*gib, 3*gib)
	solo := time.Duration(m.soloS * float64(time.Second))
	alone, shared := m.took(6*gib, solo), m.took(6*gib, 2*solo)
	if alone.Copy+alone.Bookkeeping != solo || math.Abs(alone.Copy.Seconds()-moving(0, 3)) > 1e-6 || alone.Bytes != 6*gib {
		t.Errorf("alone %+v, want copies of %g s", alone, moving(0, 3))
	}
	if shared.Copy+shared.Bookkeeping != 2*solo || math.Abs(shared.Copy.Seconds()-2*moving(0, 3)) > 1e-6 {
		t.Errorf("shared %+v, want twice as long as %+v", shared, alone)
	}
	if m := small(t, 1).Groups[0].move(gib, 0); m.took(gib, time.Second).Copy != 0 {
		t.Error("what is not copied takes time to copy")
	}
}

// stops asks the process of a task to stop at a time, or to yield if it cannot.
type stops struct {
	schedulers.Policy
	task schedulers.TaskID
	at   time.Duration
}

func (s stops) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	out := s.Policy.(schedulers.Preempter).Revoke(waiting, v, now)
	for t := range v.Device(0).TaskViews() {
		if now == s.at && t.Task.ID == s.task {
			out = append(out, schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Stop, Deadline: 10 * time.Second, For: schedulers.Nobody})
		}
	}
	return out
}

func (stops) NextLook([]schedulers.Request, time.Duration) time.Duration { return schedulers.Never }

func (s stops) NextTick(_ []schedulers.Request, _ schedulers.View, now time.Duration) time.Duration {
	if now < s.at {
		return s.at
	}
	return schedulers.Never
}

// A kernel that can be stopped ends 1.5 ms later and starts again from its beginning, and one that ends before is done. What
// cannot be stopped goes on to its end.
func TestAKernelThatIsStoppedStartsAgain(t *testing.T) {
	const stoppable = `, "stoppable": true`
	for _, c := range []struct {
		at    float64
		steps string
		ends  []float64 // of the records of its kernels
		lost  float64
	}{
		{0.4, kernel(1, 1, stoppable), []float64{0.4015, 1.4015}, 0.4015},
		{0.999, kernel(1, 1, stoppable), []float64{1}, 0},
		{0.4, kernel(1, 1, stoppable) + kernel(1, 2, stoppable), []float64{0.4015, 3.4015}, 0.4015},
		{1.4, kernel(1, 1, "") + kernel(1, 2, stoppable), []float64{1.4015, 3.4015}, 0.4015},
		{0.4, kernel(1, 1, "") + kernel(1, 2, stoppable), []float64{1, 3}, 0},
		{1.75, managed("m", "1GiB") + kernel(1, 1, stoppable+`, "access": {"m": "cyclic 2"}`), []float64{1.7515, 2.7515}, 1.7515}, // what has come stays
	} {
		text := c.steps
		if !strings.Contains(text, "managed") {
			text = allocate("x", "6GiB") + text
		}
		r := stepping(t, faulting(t), "demand", text)
		s, err := policies.Parse(r.scheduler, 1)
		if err != nil {
			t.Fatal(err)
		}
		s.Policy = stops{s.Policy, 1, time.Duration(c.at * 1e9)}
		jobs, rec, _, err := r.under(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var ends []float64
		for _, k := range rec.Kernels {
			ends = append(ends, k.EndS)
		}
		if !slices.EqualFunc(ends, c.ends, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) || len(rec.Swaps) != 1 ||
			rec.Swaps[0].Action != "stop" || rec.Swaps[0].Outcome != schedulers.Done || math.Abs(rec.Swaps[0].EndS-c.ends[0]) > 1e-6 {
			t.Errorf("stopped at %g s, kernels end at %v s, want %v, with %+v", c.at, ends, c.ends, rec.Swaps)
			continue
		}
		if lost := *rec.Swaps[0].LostS; math.Abs(lost-c.lost) > 1e-6 || (jobs[0].LostS == nil) != (lost == 0) || lost > 0 && *jobs[0].LostS != lost {
			t.Errorf("stopped at %g s: %g s lost, want %g, and of the job %v", c.at, lost, c.lost, jobs[0].LostS)
		}
	}
}

// Under demand the bursts of jobs with managed memory start at once, and thrash where they do not fit together. Their other memory moves.
func TestBurstsWithManagedMemoryStartAtOnce(t *testing.T) {
	for _, scheduler := range []string{"demand", "demand:bursts=on"} {
		burst := host(1) + kernel(8, 1, `, "access": {"m": "cyclic 2"}`)
		steps := managed("m", "8GiB") + burst + burst
		_, rec := stepping(t, faulting(t), scheduler, steps, steps).must(t)
		if len(rec.Kernels) != 4 || rec.Kernels[1].StartS != 1 {
			t.Fatalf("%s: kernels %+v, want two of each job, the first at 1 s", scheduler, rec.Kernels)
		}
		for _, k := range rec.Kernels { // alone the first takes 9 s, and the second 1 s
			if took := k.EndS - k.StartS; took < 2*9 {
				t.Errorf("%s: a kernel of job %d took %g s, want twice 9 at least", scheduler, k.Job, took)
			}
		}
		if len(rec.Swaps) > 0 {
			t.Errorf("%s: %+v, want nothing moved by the scheduler", scheduler, rec.Swaps)
		}
	}
	both := managed("m", "1GiB") + allocate("x", "6GiB") + kernel(8, 1, "") + host(20)
	_, rec := stepping(t, faulting(t), "demand", both, host(2)+allocate("y", "6GiB")+kernel(8, 1, "")).must(t)
	if len(rec.Swaps) != 1 || rec.Swaps[0].Bytes != 2*gib || rec.Swaps[0].Job != 0 {
		t.Errorf("%+v, want 2 GiB of job 0's memory that is not managed to go out", rec.Swaps)
	}
}

// A process that asks for its next kernel has done the one before, whatever was last seen of it. So it does not run, gives way to
// one that waits, and the two do not wait for each other.
func TestWhoAsksAgainDoesNotRun(t *testing.T) {
	const stoppable = `, "stoppable": true`
	node := small(t, 1)
	node.Groups[0].LinkBytesPerS *= 64
	long := allocate("x", "8GiB") + kernel(1, 9, stoppable)
	short := allocate("a", "3GiB") + allocate("b", "3GiB") + allocate("c", "1MiB") + kernel(1, 0.001, `, "writes": ["a", "b"]`+stoppable) +
		kernel(1, 0.2, `, "reads": ["a"], "writes": ["c"]`+stoppable) + kernel(1, 0.3, `, "writes": ["a", "b"]`+stoppable)
	for _, scheduler := range []string{"mfit:wait=1s,estimate=allocated", "mfit:wait=1s", "amfit:wait=1s"} {
		jobs, rec := stepping(t, node, scheduler, long, short).must(t)
		if *jobs[0].Outcome != results.OK || *jobs[1].Outcome != results.OK || *jobs[1].EndS > 5 {
			t.Errorf("%s: %s after %g s (%s) and %s after %g s (%s), with %+v", scheduler, *jobs[0].Outcome, *jobs[0].EndS, jobs[0].Detail,
				*jobs[1].Outcome, *jobs[1].EndS, jobs[1].Detail, rec.Swaps)
		}
	}
}
