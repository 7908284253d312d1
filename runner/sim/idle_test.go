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

// idlePreempting takes the permit of a context that has been idle for a while, and else does as vgpu. Its memory goes once
// somebody needs the room.
type idlePreempting struct {
	schedulers.Policy
	idle, look time.Duration
	asked      *int // how often
}

// idleAt is when the task has been idle long enough; Never if it has no permit, or works.
func (p idlePreempting) idleAt(t schedulers.TaskView) time.Duration {
	if !t.Permit || t.Running || t.Busy || !t.CanAsk(schedulers.Yield) {
		return schedulers.Never
	}
	return max(t.Last, t.PermitSince) + p.idle
}

func each(v schedulers.View, visit func(schedulers.TaskView)) {
	for i := range v.Len() {
		for t := range v.Device(i).TaskViews() {
			visit(t)
		}
	}
}

func (p idlePreempting) Revoke(waiting []schedulers.Request, v schedulers.View, now time.Duration) []schedulers.Revocation {
	*p.asked++
	out := p.Policy.(schedulers.Preempter).Revoke(waiting, v, now)
	if len(waiting) > 0 {
		each(v, func(t schedulers.TaskView) {
			if p.idleAt(t) <= now {
				out = append(out, schedulers.Revocation{Task: t.Task.ID, Action: schedulers.Yield, Deadline: 100 * time.Millisecond, For: waiting[0].Task.ID})
			}
		})
	}
	return out
}

func (p idlePreempting) NextTick(waiting []schedulers.Request, v schedulers.View, now time.Duration) time.Duration {
	next := schedulers.Never
	if len(waiting) > 0 {
		each(v, func(t schedulers.TaskView) {
			if at := p.idleAt(t); at > now {
				next = min(next, at)
			}
		})
	}
	return next
}

func (p idlePreempting) NextLook(waiting []schedulers.Request, now time.Duration) time.Duration {
	if len(waiting) == 0 {
		return schedulers.Never
	}
	return now.Truncate(p.look) + p.look
}

// preemptIdle runs four jobs whose kernels last 5 s, before and behind 20 s on the host, under n=1.
func preemptIdle(t *testing.T, gibs int, idle, look time.Duration) (makespan float64, asked int) {
	t.Helper()
	steps := allocate("x", fmt.Sprintf("%dGiB", gibs)) + kernel(1, 5, "") + host(20) + kernel(1, 5, "") + free("x")
	r := stepping(t, uncrowded(t, "sim:1xH200"), "vgpu:n=1", steps, steps, steps, steps)
	s, err := policies.Parse(r.scheduler, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.Policy = idlePreempting{s.Policy, idle, look, &asked}
	jobs, _, _, err := r.under(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s (%s)", j.Index, *j.Outcome, j.Detail)
		}
		makespan = max(makespan, *j.EndS)
	}
	return makespan, asked
}

// A policy acts when it says, although nothing happens then. Looks at pages that cannot have changed are left out: here
// there would be 20,000 in a second.
func TestPreemptionOfIdleContexts(t *testing.T) {
	for _, c := range []struct {
		gibs int
		idle time.Duration
		want float64
	}{
		{20, 10 * time.Millisecond, 45.0}, // 4 × 5 s, 3 × 10 ms, and 5 s behind the last's 20 s on the host
		{20, 10 * time.Second, 80},
		{20, time.Hour, 120},            // one after the other
		{50, 10 * time.Millisecond, 49}, // two fit, and 50 GiB go out or come back four times
	} {
		got, asked := preemptIdle(t, c.gibs, c.idle, 50*time.Microsecond)
		if math.Abs(got-c.want) > 0.1 || asked > 1000 {
			t.Errorf("%d GiB, idle for %v: %.3f s, want %g; asked %d times", c.gibs, c.idle, got, c.want, asked)
		}
	}
}
