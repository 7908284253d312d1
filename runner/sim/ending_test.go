package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// waits is a policy that notes how long requests wait at most.
type waits struct {
	schedulers.Policy
	longest *time.Duration
}

func (w waits) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	return w.Policy.(schedulers.Preempter).Revoke(waiting, v, now)
}

func (w waits) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	for _, r := range waiting {
		*w.longest = max(*w.longest, now-r.Since)
	}
	return w.Policy.(schedulers.Preempter).NextTick(waiting, v, now)
}

func (w waits) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	return w.Policy.(schedulers.Preempter).NextLook(waiting, now)
}

// A burst waits no longer than it may, until each of the others has come to the end of a kernel and all memory has moved.
// All jobs end, and their swaps add up.
func TestBurstsWaitNoLongerThanTheyMay(t *testing.T) {
	const longest = 3.0 // of a kernel, in seconds
	ended := 0
	chance.CheckTimes(t, 60, 2000, func(rt *rapid.T) {
		jobs := rapid.IntRange(2, 3).Draw(rt, "jobs")
		most, steps := 0, make([]string, jobs)
		for i := range steps {
			gibs := rapid.IntRange(1, 9).Draw(rt, "GiB")
			most = max(most, gibs)
			steps[i] = allocate("x", fmt.Sprintf("%dGiB", gibs))
			for range rapid.IntRange(1, 4).Draw(rt, "bursts") {
				for range rapid.IntRange(1, 3).Draw(rt, "kernels") {
					steps[i] += kernel(1, longest*rapid.Float64Range(0.1, 1).Draw(rt, "length"), fmt.Sprintf(`, "stoppable": %t`, rapid.Bool().Draw(rt, "stoppable")))
				}
				steps[i] += host(rapid.Float64Range(0.1, 5).Draw(rt, "host"))
			}
		}
		c := rapid.SampledFrom([]struct {
			scheduler string
			wait      float64
		}{{"mfit:wait=60s", 60}, {"mfit:wait=60s,estimate=allocated", 60}, {"amfit:wait=60s", math.Inf(1)}, {"quantum:tq=4s", 4}}).Draw(rt, "scheduler")
		r := stepping(t, small(t, 1), c.scheduler, steps...)
		s, err := policies.Parse(r.scheduler, 1)
		if err != nil {
			rt.Fatal(err)
		}
		var waited time.Duration
		s.Policy = waits{s.Policy, &waited}
		done, rec, _, err := r.under(t.Context(), s)
		if err == nil {
			err = checkSwaps(rec.Swaps)
		}
		if err != nil {
			rt.Fatalf("%s: %v: %q", c.scheduler, err, steps)
		}
		if slices.ContainsFunc(done, func(j results.Job) bool { return *j.Outcome != results.OK }) {
			rt.Fatalf("%s: %+v: %q", c.scheduler, done, steps)
		}
		if bound := c.wait + float64(jobs-1)*(longest+2*moving(float64(most), float64(most))); waited.Seconds() > bound {
			rt.Fatalf("%s: a burst waits for %v, want %g s at most: %q", c.scheduler, waited, bound, steps)
		}
		for _, swap := range rec.Swaps {
			if swap.Action == "stop" {
				ended++
			}
		}
	})
	if ended == 0 {
		t.Error("no kernel was stopped, so that little was checked")
	}
}

// beside runs steps under a scheduler beside a job that goes on until they end, and returns the longest wait of a burst, and what moved.
func beside(t *testing.T, rt *rapid.T, scheduler, other, steps string) (time.Duration, []results.Swap) {
	node := small(t, 1)
	node.Groups[0].LinkBytesPerS *= 64
	r := stepping(t, node, scheduler, other, steps)
	r.jobs[0].UntilOthersEnd = true
	s, err := policies.Parse(r.scheduler, 1)
	if err != nil {
		rt.Fatal(err)
	}
	var waited time.Duration
	s.Policy = waits{s.Policy, &waited}
	done, rec, _, err := r.under(t.Context(), s)
	if err != nil || *done[0].Outcome != results.OK || *done[1].Outcome != results.OK {
		rt.Fatalf("%s: %v, %+v: %q", scheduler, err, done, steps)
	}
	return waited, rec.Swaps
}

// Beside a kernel that never ends a burst waits for as long as it may, and until memory has moved, however the memory of both lies.
func TestBurstsBesideAKernelThatNeverEnds(t *testing.T) {
	stopped := 0
	chance.CheckTimes(t, 40, 2000, func(rt *rapid.T) {
		some := func(name string, least, most int) string {
			return allocate(name, fmt.Sprintf("%dMiB", 512*rapid.IntRange(least, most).Draw(rt, name)))
		}
		const kernels, longest = 3, 0.3 // seconds: a burst takes less than a neighbour may wait
		var steps string
		for i := range rapid.IntRange(1, 4).Draw(rt, "bursts") {
			if i < 2 {
				steps += some(fmt.Sprint("y", i), 1, 9)
			}
			for range rapid.IntRange(1, kernels).Draw(rt, "kernels") {
				steps += kernel(1, longest*rapid.Float64Range(0.1, 1).Draw(rt, "length"), fmt.Sprintf(`, "stoppable": %t`, rapid.Bool().Draw(rt, "stoppable")))
			}
			steps += host(rapid.Float64Range(0.1, 2).Draw(rt, "host"))
		}
		c := rapid.SampledFrom([]string{"mfit:wait=1s", "mfit:wait=1s,estimate=allocated", "amfit:wait=1s"}).Draw(rt, "scheduler")
		waited, swaps := beside(t, rt, c, some("x", 9, 18)+kernel(1, 1, `, "endless": true, "stoppable": true`), steps)
		if bound := 1 + 2*moving(10, 10)/64; waited.Seconds() > bound {
			rt.Fatalf("%s: a burst waits for %v, want %g s at most: %q", c, waited, bound, steps)
		}
		for _, swap := range swaps {
			if swap.Action == "stop" {
				stopped++
			}
		}
	})
	if stopped == 0 {
		t.Error("no kernel was stopped, so that little was checked")
	}
}

// Beside bursts that follow each other after gaps, a burst waits no longer than it may, until a kernel has ended and memory has moved, however long
// processes keep their memory in gaps. Where they keep it longer than gaps last, it moves once for each burst that waits.
func TestBurstsBesideGaps(t *testing.T) {
	chance.CheckTimes(t, 20, 1000, func(rt *rapid.T) {
		const gap, short, longest = 0.02, 0.01, 0.3
		linger := rapid.SampledFrom([]string{"auto", "0s", "10ms", "100ms", "1h"}).Draw(rt, "linger")
		c := rapid.SampledFrom([]string{"mfit:wait=1s,linger=", "amfit:wait=1s,linger="}).Draw(rt, "scheduler") + linger
		steps, bursts := allocate("y", "6GiB"), rapid.IntRange(1, 4).Draw(rt, "bursts")
		other := allocate("x", "6GiB") + strings.Repeat(kernel(1, rapid.Float64Range(0.001, short).Draw(rt, "kernel"), "")+host(rapid.Float64Range(0.001, gap).Draw(rt, "gap")), 400)
		for range bursts {
			steps += host(rapid.Float64Range(0.1, 2).Draw(rt, "host")) + kernel(1, longest*rapid.Float64Range(0.1, 1).Draw(rt, "length"), "")
		}
		waited, swaps := beside(t, rt, c, other, steps)
		if bound := 1 + longest + 2*moving(6, 6)/64; waited.Seconds() > bound {
			rt.Fatalf("%s: a burst waits for %v, want %g s at most: %q", c, waited, bound, steps)
		}
		moved := 0
		for _, swap := range swaps {
			if swap.Job == 0 && swap.Direction == schedulers.Out {
				moved++
			}
		}
		if moved > bursts && (linger == "100ms" || linger == "1h") {
			rt.Fatalf("%s: memory moved out %d times for %d bursts: %q", c, moved, bursts, steps)
		}
	})
}

// A kernel that never ends goes on until it is stopped for others, or its job ends with them. If nothing else can happen any more,
// the run ends: at once, or where the kernel goes on to push blocks out or is asked again and again, after a while.
func TestKernelsThatNeverEnd(t *testing.T) {
	const all = `, "endless": true, "stoppable": true`
	const sweeps = all + `, "access": {"x": "cyclic 3"}`
	short := host(0.5) + allocate("y", "6GiB") + kernel(1, 2, "")
	for _, c := range []struct {
		scheduler, endless string
		atMost             float64 // seconds until the jobs end; 0: the run is stuck
		stuck              time.Duration
	}{
		{"mfit:wait=1s", allocate("x", "6GiB") + kernel(1, 1, all), 6, 0},
		{"amfit:wait=1s", allocate("x", "6GiB") + kernel(1, 1, all), 6, 0},
		{"sa", allocate("x", "6GiB") + kernel(1, 1, all), 0, 0},
		{"demand", allocate("x", "6GiB") + kernel(1, 1, all), 0, 0},
		{"demand", allocate("x", "3GiB") + kernel(1, 1, all), 6, 0},
		{"demand", managed("x", "6GiB") + kernel(1, 1, sweeps), 15, 0},
		{"quantum:tq=1m", allocate("x", "6GiB") + kernel(1, 1, all), 0, longStanding},
		{"vgpu:n=1", managed("x", "12GiB") + kernel(1, 3600, sweeps), 0, longStanding},
	} {
		r := stepping(t, small(t, 1), c.scheduler, c.endless, short)
		r.jobs[0].UntilOthersEnd = true
		jobs, _ := r.must(t)
		end := time.Duration(*jobs[0].EndS * 1e9)
		if c.atMost > 0 && (*jobs[0].Outcome != results.OK || *jobs[1].Outcome != results.OK || end.Seconds() > c.atMost) ||
			c.atMost == 0 && (*jobs[0].Outcome != results.Timeout || !strings.Contains(jobs[0].Detail, "never end: job 0 (own)") || end < c.stuck) {
			t.Errorf("%s: %s (%s), and %s (%s) after %v", c.scheduler, *jobs[0].Outcome, jobs[0].Detail, *jobs[1].Outcome, jobs[1].Detail, end)
		}
	}
}
