package engine

import (
	"cmp"
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// Restart: a request that waits in a deadlock is refused, unless a job in the deadlock may be started again
// (schedulers.Terms.Restarts).
//
//   - Of these jobs the victim is the one that has used least device time: its oldest task was granted last. Of jobs without a
//     task it is the one that asked last.
//   - Its requests are not answered. What it has comes back when it exits.
//   - It needs what it had on the device and what it asked for there. A restart that does not help is not made: no
//     device is large enough for that, or no other job is in the deadlock.

// claim is a request that waits in a deadlock.
type claim struct {
	task    schedulers.Task
	device  int // where its job has what it needs
	arrival uint64
}

// restart chooses a victim among the jobs of the claims, which are in a deadlock with others of so many jobs in all.
func (e *Engine) restart(claims []claim, jobs int) (schedulers.Decision, bool) {
	if jobs < 2 {
		return schedulers.Decision{}, false
	}
	may := slices.DeleteFunc(claims, func(c claim) bool {
		return c.task.Terms.OrNone().Restarts == 0 || !e.fitsAlone(c.task, e.footprint(c))
	})
	if len(may) == 0 {
		return schedulers.Decision{}, false
	}
	victim := slices.MaxFunc(may, func(c, d claim) int {
		return cmp.Or(cmp.Compare(e.since(c.task.Job), e.since(d.task.Job)), cmp.Compare(c.arrival, d.arrival))
	})
	d := schedulers.Decision{Kind: schedulers.Restart, Task: victim.task, Device: victim.device, Bytes: e.footprint(victim)}
	e.withdraw(victim.task.Job)
	return d, true
}

// since is the number of the first of the grants to which the job owes the tasks that it has; without tasks it is after all others.
func (e *Engine) since(job schedulers.JobID) uint64 {
	first := e.grants + 1
	for _, id := range e.state.tasksOf(job) {
		first = min(first, e.held[id].grant)
	}
	return first
}

// footprint is what the claim's job has and asks for on the claim's device.
func (e *Engine) footprint(c claim) int64 {
	sum := int64(0)
	for _, id := range e.state.tasksOf(c.task.Job) {
		h := e.held[id]
		if h.at.Device != c.device {
			continue
		}
		sum = sumBytes(sum, h.allocated)
		if h.growth != nil {
			sum = sumBytes(sum, h.growth.bytes)
		}
	}
	if h := e.held[c.task.ID]; h == nil { // it asks for a device
		sum = sumBytes(sum, c.task.Bytes)
	}
	return sum
}

// fitsAlone reports whether a task like t that needs so much has a device on the empty node.
func (e *Engine) fitsAlone(t schedulers.Task, need int64) bool {
	t.Bytes, t.Need = need, nil
	_, ok := e.policy.Place(t, e.empty)
	return ok
}

// withdraw takes back what the job asks for. It is about to exit.
func (e *Engine) withdraw(job schedulers.JobID) {
	for _, id := range e.state.tasksOf(job) {
		h := e.held[id]
		if h.growth != nil {
			e.endGrowth(h.growth)
		}
		if h.revocable != nil {
			h.resume = nil
		}
	}
	for _, w := range slices.Clone(e.queue.ofJob(job)) {
		e.queue.take(w)
	}
	e.stale = true
}

// growthClaims are those of tasks that wait to grow, on one device or, with everywhere, on any.
func (e *Engine) growthClaims(device int) []claim {
	var out []claim
	for _, g := range e.growing {
		if at := g.holding.at.Device; !g.holding.isLate() && (device == everywhere || at == device) {
			out = append(out, claim{g.holding.task, at, g.arrival})
		}
	}
	return out
}

const everywhere = -1

// queueClaims are those of the requests in the queue whose job has a context.
func (e *Engine) queueClaims() []claim {
	var out []claim
	for w := range e.queue.all() {
		contexts := e.state.contextsOf(w.task.Job)
		if len(contexts) == 0 || w.resumes != nil && w.resumes.isLate() {
			continue
		}
		c := claim{w.task, contexts[0].device, w.arrival}
		if w.resumes != nil {
			c = claim{w.resumes.task, w.resumes.at.Device, w.arrival}
		}
		out = append(out, c)
	}
	return out
}

// jobsWithContext is how many jobs have a context anywhere.
func (e *Engine) jobsWithContext() (n int) {
	for _, p := range e.state.jobs {
		if len(p.contexts) > 0 {
			n++
		}
	}
	return n
}
