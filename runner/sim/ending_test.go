package sim

import (
	"fmt"
	"math"
	"slices"
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
