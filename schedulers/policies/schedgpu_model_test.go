package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// The four notification policies of schedGPU (TPDS 2018, section 5), written down a second time
// from the paper's text. A client asks, waits at most for its own time, is given memory, gives
// it back, and may ask again; it has one request at a time, and no context.

// paperQueue is the paper's one GPU and the clients that wait for its memory.
type paperQueue struct {
	policy   int
	free     int64
	capacity int64
	waiting  []paperClient // C1, C2, ... by arrival
}

type paperClient struct {
	id       schedulers.TaskID
	bytes    int64
	priority int
	until    time.Duration // the end of its maximum wait
}

// preallocate is a client's request. Who asks goes behind those that wait already.
func (q *paperQueue) preallocate(c paperClient, blocking bool) (said []string) {
	if c.bytes > q.capacity {
		return []string{fmt.Sprintf("!%d", c.id)}
	}
	q.waiting = append(q.waiting, c)
	said = q.serve()
	if n := len(q.waiting); !blocking && n > 0 && q.waiting[n-1].id == c.id {
		q.waiting = q.waiting[:n-1]
		said = append(said, fmt.Sprintf("!%d", c.id))
	}
	return said
}

// postFree is also the end of a client that has memory.
func (q *paperQueue) postFree(bytes int64) []string {
	q.free += bytes
	return q.serve()
}

// leave is the end of a client that waits.
func (q *paperQueue) leave(id schedulers.TaskID) []string {
	q.waiting = slices.DeleteFunc(q.waiting, func(c paperClient) bool { return c.id == id })
	return q.serve()
}

// pass is the time at which some have waited as long as they may.
func (q *paperQueue) pass(now time.Duration) (said []string) {
	q.waiting = slices.DeleteFunc(q.waiting, func(c paperClient) bool {
		if c.until <= now {
			said = append(said, fmt.Sprintf("!%d", c.id))
		}
		return c.until <= now
	})
	return append(said, q.serve()...)
}

func (q *paperQueue) nextEnd() time.Duration {
	next := schedulers.Never
	for _, c := range q.waiting {
		next = min(next, c.until)
	}
	return next
}

func (q *paperQueue) serve() []string {
	return [...]func() []string{1: q.fifo, 2: q.mmu, 3: q.priorityFIFO, 4: q.priorityMMU}[q.policy]()
}

// give serves the client at position i.
func (q *paperQueue) give(i int) string {
	c := q.waiting[i]
	q.free -= c.bytes
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return fmt.Sprintf("%d@0", c.id)
}

// fifo: "C1 waits until there is sufficient free memory. If memory is available, then it is
// preallocated to C1, and if there is more free memory then the next client is served."
func (q *paperQueue) fifo() (said []string) {
	for len(q.waiting) > 0 && q.waiting[0].bytes <= q.free {
		said = append(said, q.give(0))
	}
	return said
}

// mmu: "the request of the first client in the queue that can be pre-allocated memory is
// furnished. If no clients can be serviced, then the clients continue to wait".
func (q *paperQueue) mmu() (said []string) {
	for {
		first := slices.IndexFunc(q.waiting, func(c paperClient) bool { return c.bytes <= q.free })
		if first < 0 {
			return said
		}
		said = append(said, q.give(first))
	}
}

func (q *paperQueue) highest() int {
	return slices.MaxFunc(q.waiting, func(a, b paperClient) int { return a.priority - b.priority }).priority
}

// priorityFIFO: "The first client with the highest priority will be served, but if there is
// insufficient memory to serve this request or there is more memory available after serving a
// request, then a following client with the same priority is served." Each is looked at once,
// in order. Where all of them are served, the next priority is the highest.
func (q *paperQueue) priorityFIFO() (said []string) {
	for len(q.waiting) > 0 {
		highest, left := q.highest(), 0
		for i := 0; i < len(q.waiting); {
			switch c := q.waiting[i]; {
			case c.priority != highest:
				i++
			case c.bytes <= q.free:
				said = append(said, q.give(i)) // the next one is at i now
			default:
				left++
				i++
			}
		}
		if left > 0 {
			return said
		}
	}
	return said
}

// priorityMMU: "the request of the first client with the highest priority in the queue that can
// be pre-allocated memory is furnished. If no clients in the queue with the highest priority can
// be attended to, then clients continue waiting".
func (q *paperQueue) priorityMMU() (said []string) {
	for len(q.waiting) > 0 {
		highest := q.highest()
		first := slices.IndexFunc(q.waiting, func(c paperClient) bool { return c.priority == highest && c.bytes <= q.free })
		if first < 0 {
			return said
		}
		said = append(said, q.give(first))
	}
	return said
}

// action is one of a random workload. It acts on the state that the ones before have led to,
// which draw chooses from.
type action struct {
	what     int // 0 to 3: ask; 4, 5: give back or leave; 6: let time pass
	bytes    int64
	priority int
	wait     *time.Duration
	draw     int
	exits    bool
	later    time.Duration
}

const paperCapacity = 20

func drawActions(rng *rand.Rand) []action {
	actions := make([]action, 10+rng.IntN(60))
	for i := range actions {
		a := action{what: rng.IntN(7), bytes: rng.Int64N(paperCapacity + 2), priority: rng.IntN(3), draw: rng.IntN(1 << 20),
			exits: rng.IntN(2) == 0, later: time.Duration(rng.IntN(8)) * time.Second}
		if rng.IntN(2) == 0 {
			a.bytes /= 4
		}
		switch rng.IntN(4) {
		case 0:
			a.wait = new(time.Duration(0))
		case 1, 2:
			a.wait = new(time.Duration(1+rng.IntN(20)) * time.Second)
		}
		actions[i] = a
	}
	return actions
}

// replay leads the engine and the model through the workload of a seed, and returns what both
// decided, one line for each call.
func replay(t *testing.T, policy int, seed uint64) (decided []string) {
	t.Helper()
	model := &paperQueue{policy: policy, free: paperCapacity, capacity: paperCapacity}
	scheduler := [...]string{1: "schedgpu:queue=fifo", 2: "schedgpu:queue=mmu", 3: "schedgpu:queue=priority-fifo", 4: "schedgpu:queue=priority-mmu"}[policy]
	where := fmt.Sprintf("%s, seed %d", scheduler, seed)
	device := schedulers.Device{Name: "paper", CapacityBytes: paperCapacity, SMs: 1, WarpsPerSM: 1, BlocksPerSM: 1}
	n := enginetest.NewNode(t, scheduler, device)
	now, last := time.Duration(0), schedulers.TaskID(0)
	asked, holds, waits := map[schedulers.TaskID]schedulers.Task{}, []schedulers.TaskID{}, []schedulers.TaskID{}
	took := func(ds []schedulers.Decision, err error, want func() []string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			waits = slices.DeleteFunc(waits, func(id schedulers.TaskID) bool { return id == d.Task.ID })
			if d.Kind == schedulers.Granted {
				holds = append(holds, d.Task.ID)
			}
		}
		got := schedtest.Text(ds)
		if want := strings.Join(want(), " "); got != want {
			t.Fatalf("%s at %v: decided %q, the paper %q", where, now, got, want)
		}
		decided = append(decided, got)
	}
	for _, a := range drawActions(rand.New(rand.NewPCG(seed, 5))) {
		switch a.what {
		default:
			last++
			task := schedulers.Task{ID: last, Job: schedulers.JobID(last), Bytes: a.bytes, Priority: a.priority, Wait: a.wait}
			asked[last], waits = task, append(waits, last)
			ds, err := n.Engine.Submit(task, now)
			took(ds, err, func() []string {
				c := paperClient{id: last, bytes: a.bytes, priority: a.priority, until: schedulers.Never}
				if a.wait != nil {
					c.until = now + *a.wait
				}
				return model.preallocate(c, a.wait == nil || *a.wait > 0)
			})
			if a.wait != nil && *a.wait == 0 && slices.Contains(waits, last) {
				t.Fatalf("%s: request %d does not wait and has no answer", where, last)
			}
		case 4, 5:
			all := append(slices.Clone(holds), waits...)
			if len(all) == 0 {
				continue
			}
			id := all[a.draw%len(all)]
			waited := slices.Contains(waits, id)
			holds = slices.DeleteFunc(holds, func(o schedulers.TaskID) bool { return o == id })
			waits = slices.DeleteFunc(waits, func(o schedulers.TaskID) bool { return o == id })
			var ds []schedulers.Decision
			var err error
			if a.exits {
				ds = n.Engine.JobExit(asked[id].Job)
			} else {
				ds, err = n.Engine.Release(id)
			}
			took(ds, err, func() []string {
				if waited {
					return model.leave(id)
				}
				return model.postFree(asked[id].Bytes)
			})
		case 6:
			end := now + a.later
			for {
				next := n.Engine.NextExpiry()
				if next != model.nextEnd() {
					t.Fatalf("%s: the next wait to end is at %v, the paper's at %v", where, next, model.nextEnd())
				}
				if next > end {
					break
				}
				now = next
				took(n.Engine.Expire(now), nil, func() []string { return model.pass(now) })
				for _, id := range waits {
					if w := asked[id].Wait; w != nil && n.Engine.NextExpiry() <= now {
						t.Fatalf("%s: request %d waits beyond its maximum of %v", where, id, *w)
					}
				}
			}
			now = end
		}
	}
	for _, id := range append(holds, waits...) {
		n.Engine.JobExit(asked[id].Job)
	}
	if d := n.Device(0); d.UsedBytes() != 0 || d.Tasks() != 0 || n.Engine.Waiting() != 0 {
		t.Fatalf("%s: %d bytes of %d tasks are in use and %d wait at the end", where, d.UsedBytes(), d.Tasks(), n.Engine.Waiting())
	}
	return decided
}

// By the letter policies 3 and 4 grant the same: each goes through the clients of the highest
// priority in order and serves those that fit. The others differ.
func TestSchedGPUPoliciesAreThePapers(t *testing.T) {
	differ := map[[2]int]bool{}
	for seed := range chance.Seeds(t, 2000, 20_000) {
		var decided [5][]string
		for policy := 1; policy <= 4; policy++ {
			decided[policy] = replay(t, policy, seed)
			for other := 1; other < policy; other++ {
				pair := [2]int{other, policy}
				differ[pair] = differ[pair] || !slices.Equal(decided[other], decided[policy])
			}
		}
	}
	for pair, differs := range differ {
		if want := pair != [2]int{3, 4}; differs != want {
			t.Errorf("policies %v decide differently in some workload: %v, want %v", pair, differs, want)
		}
	}
}
