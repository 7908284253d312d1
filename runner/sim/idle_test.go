package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// looking is a policy that looks at the pages at times of its own, and counts how often it is asked.
type looking struct {
	waits
	every time.Duration
	asked *int
}

func (l looking) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	*l.asked++
	return l.waits.Revoke(waiting, v, now)
}

func (l looking) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	if len(waiting) == 0 {
		return schedulers.Never
	}
	return now.Truncate(l.every) + l.every
}

// imbalanced runs four jobs of so many GiB whose kernels fill the device for 5 s, before and after 20 s on the host.
func imbalanced(t *testing.T, scheduler string, gibs int) trial {
	t.Helper()
	steps := allocate("x", fmt.Sprintf("%dGiB", gibs)) + kernel(100_000, 5, "") + host(20) + kernel(100_000, 5, "") + free("x")
	return stepping(t, uncrowded(t, "sim:1xH200"), scheduler, steps, steps, steps, steps)
}

func makespanOf(t *testing.T, jobs []results.Job) (last float64) {
	t.Helper()
	for _, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s (%s)", j.Index, *j.Outcome, j.Detail)
		}
		last = max(last, *j.EndS)
	}
	return last
}

// Without preemption the host phases of one job, or of as many as there are slots, leave the device idle.
func TestPreemptionOfIdleContexts(t *testing.T) {
	for _, c := range []struct {
		scheduler string
		gibs      int
		want      float64
	}{
		{"vgpu:n=1", 20, 120}, // one after the other
		{"vgpu:n=2", 20, 80},
		{"vgpu:n=4", 20, 60},
		{"vgpu-preempt:n=1", 20, 45.03}, // 4 × 5 s, 3 × 10 ms, and 5 s after the last one's 20 s on the host
		{"vgpu-preempt:n=1,copy=always", 20, 47.0053},
		{"vgpu-preempt:n=1,idle=10s", 20, 80},
		{"vgpu-preempt:n=1,idle=10s,copy=always", 20, 83.2004},
		{"vgpu-preempt:n=1,idle=1h", 20, 120},
		{"vgpu-preempt", 20, 50.01},
		{"vgpu-preempt:copy=always", 20, 52.0502},
		{"vgpu-preempt:n=1", 50, 49.0055}, // two fit, so that 50 GiB go out or come back four times
		{"vgpu-preempt:n=1,copy=always", 50, 50.0056},
		{"vgpu-preempt", 50, 52.7095},
		{"vgpu-preempt:copy=always", 50, 55.1181},
	} {
		jobs, _ := imbalanced(t, c.scheduler, c.gibs).must(t)
		if got := makespanOf(t, jobs); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("%s, %d GiB: %.4f s, want %g", c.scheduler, c.gibs, got, c.want)
		}
	}
}

// A policy acts when it says, although nothing happens then. Looks at pages that cannot have changed are left out: here
// there would be 20,000 in a second.
func TestLooksThatShowNothingAreLeftOut(t *testing.T) {
	for idle, want := range map[string]float64{"10ms": 45.03, "10s": 80, "1h": 120} {
		r := imbalanced(t, "vgpu-preempt:n=1,idle="+idle, 20)
		s, err := policies.Parse(r.scheduler, 1)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		s.Policy = looking{waits{s.Policy, new(time.Duration)}, 50 * time.Microsecond, &asked}
		jobs, _, _, err := r.under(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := makespanOf(t, jobs); math.Abs(got-want) > 0.1 || asked > 1000 {
			t.Errorf("idle for %s: %.3f s, want %g; asked %d times", idle, got, want, asked)
		}
	}
}

// Whoever waits for a slot gets it once another has been idle for long enough, or after the next look at the pages if that was
// before it asked. A look is 5 ms after the other.
func TestPreemptionIsPrompt(t *testing.T) {
	for _, idle := range []string{"1ms", "7ms", "10ms", "2s"} {
		for _, kernelS := range []float64{0.5, 1.0023} {
			for _, asks := range []float64{0, 1.5, 2.5021} {
				after, err := time.ParseDuration(idle)
				if err != nil {
					t.Fatal(err)
				}
				_, rec := stepping(t, small(t, 1), "vgpu-preempt:n=1,idle="+idle, allocate("x", "1GiB")+kernel(1, kernelS, "")+host(20),
					host(asks)+allocate("y", "1GiB")+kernel(1, 1, "")).must(t)
				got, due := *rec.of(1)[0].GrantS, max(kernelS+after.Seconds(), asks)
				if got < due-1e-9 || got > due+0.005 {
					t.Errorf("idle=%s, kernel until %g s, request at %g s: granted at %g s, want %g to 5 ms later", idle, kernelS, asks, got, due)
				}
			}
		}
	}
}
