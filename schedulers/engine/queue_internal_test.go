package engine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
)

// The queue finds tasks by id, by job, by the end of their wait, and the tasks that have aged.
func TestQueueFindsTasks(t *testing.T) {
	q := newQueue(Config{Queue: LargestFirst, AgeLimit: 2})
	push := func(id schedulers.TaskID, job schedulers.JobID, bytes int64, expires time.Duration) *waiting {
		return q.push(schedulers.Task{ID: id, Job: job, Bytes: bytes}, limit{longest: expires, expires: expires}, 0)
	}
	want := func(what string, got []*waiting, ids ...schedulers.TaskID) {
		t.Helper()
		var have []schedulers.TaskID
		for _, w := range got {
			have = append(have, w.task.ID)
		}
		if !slices.Equal(have, ids) {
			t.Errorf("%s: tasks %v, want %v", what, have, ids)
		}
	}
	first, small := push(1, 7, 5, 9*time.Second), push(2, 8, 1, 3*time.Second)
	push(3, 7, 9, schedulers.Never)
	late, later := push(4, 7, 20, time.Second), push(5, 8, 2, 2*time.Second)
	want("all", slices.Collect(q.all()), 4, 3, 1, 5, 2)
	want("of job 7", q.ofJob(7), 1, 3, 4)
	want("of job 9", q.ofJob(9))
	if q.get(2) != small || q.get(6) != nil || q.len() != 5 || q.nextExpiry() != time.Second || q.head() != late {
		t.Errorf("task 2: %+v, task 6: %+v, %d tasks, expiry %v, head %+v", q.get(2), q.get(6), q.len(), q.nextExpiry(), q.head())
	}
	q.grant(late)  // passes 1, 2, 3
	q.grant(later) // passes them again
	want("aged", slices.Collect(q.aged()), 1, 2, 3)
	push(6, 9, 30, schedulers.Never)
	want("all with aged tasks", slices.Collect(q.all()), 1, 2, 3, 6)
	q.stall(first, true)
	if q.head() != small || !q.stops(q.head(), q.get(6)) || q.stops(q.head(), first) {
		t.Errorf("head %+v", q.head())
	}
	if q.take(small); small.passed != 2 || q.get(2) != nil || q.nextExpiry() != 9*time.Second {
		t.Errorf("task 2 was passed %d times; expiry %v", small.passed, q.nextExpiry())
	}
	want("expired", q.expire(10*time.Second), 1)
	want("left", slices.Collect(q.all()), 3, 6)
	want("left of job 8", q.ofJob(8))
}

// The queue holds its tasks in the order in which a list sorted anew at each step has them.
func TestQueueAgainstAList(t *testing.T) {
	orders := Orders()
	for seed := range chance.Seeds(t, 100, 10_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := Config{Queue: orders[r.IntN(len(orders))], AgeLimit: r.IntN(4)}
		q := newQueue(c)
		var list []*waiting // by arrival
		passed := map[*waiting]int{}
		spent, holds := map[string]time.Duration{}, map[string]int{}
		user := func() (string, int) {
			credits := 1 + r.IntN(3)
			return strings.Repeat("u", credits), credits
		}
		aged := func(w *waiting) bool { return c.AgeLimit > 0 && passed[w] >= c.AgeLimit }
		sorted := func() []*waiting {
			out := slices.Clone(list)
			slices.SortStableFunc(out, func(a, b *waiting) int {
				switch {
				case aged(a) || aged(b):
					return cmp.Compare(count(aged(b)), count(aged(a)))
				case c.Queue == LargestFirst:
					return cmp.Compare(b.task.Bytes, a.task.Bytes)
				case c.Queue == ShortestFirst:
					return cmp.Compare(*a.task.Terms.Expected, *b.task.Terms.Expected)
				case c.Queue == EarliestDeadline:
					return cmp.Compare(a.task.Terms.Due, b.task.Terms.Due)
				case c.Queue == Credits:
					return cmp.Or(cmp.Compare(spent[a.task.Terms.User]*time.Duration(b.task.Terms.Credits), spent[b.task.Terms.User]*time.Duration(a.task.Terms.Credits)),
						cmp.Compare(holds[a.task.Terms.User]*b.task.Terms.Credits, holds[b.task.Terms.User]*a.task.Terms.Credits))
				case c.Queue == PriorityFIFO || c.Queue == PriorityFirstFit:
					return cmp.Compare(b.task.Priority, a.task.Priority)
				}
				return 0
			})
			return out
		}
		for id := range schedulers.TaskID(200) {
			switch n := r.IntN(10); {
			case n < 5 || len(list) == 0:
				wait := time.Duration(1 + r.IntN(500))
				task := schedulers.Task{ID: id, Job: schedulers.JobID(r.IntN(6)), Bytes: r.Int64N(20), Priority: r.IntN(3),
					Terms: &schedulers.Terms{Expected: new(time.Duration(r.IntN(4))), Due: time.Duration(1 + r.IntN(4))}}
				task.Terms.User, task.Terms.Credits = user()
				list = append(list, q.push(task, limit{wait, wait}, 0))
			case n == 5:
				w := list[r.IntN(len(list))]
				q.stall(w, !w.stalled)
			case n == 6:
				now := time.Duration(r.IntN(100))
				got := q.expire(now)
				list = slices.DeleteFunc(list, func(w *waiting) bool {
					over := w.limit.expires <= now
					if over && (len(got) == 0 || got[0] != w) {
						t.Fatalf("seed %d: task %d has not expired at its turn", seed, w.task.ID)
					} else if over {
						got = got[1:]
					}
					return over
				})
				if len(got) > 0 {
					t.Fatalf("seed %d: task %d expires too early", seed, got[0].task.ID)
				}
			case n == 7:
				i := r.IntN(len(list))
				if w := q.take(list[i]); w.passed != passed[w] {
					t.Fatalf("seed %d: task %d was passed %d times, want %d", seed, w.task.ID, w.passed, passed[w])
				}
				list = slices.Delete(list, i, i+1)
			default:
				i := r.IntN(len(list))
				if w := q.grant(list[i]); w.passed != passed[w] {
					t.Fatalf("seed %d: task %d was passed %d times, want %d", seed, w.task.ID, w.passed, passed[w])
				}
				list = slices.Delete(list, i, i+1)
				for _, w := range list[:i] {
					if !w.stalled {
						passed[w]++
					}
				}
			}
			if l := q.ledger; l != nil && r.IntN(3) == 0 { // time passes, and a user has more or fewer tasks on devices
				passes := time.Duration(r.IntN(5))
				l.now += passes
				for u, n := range holds {
					spent[u] += passes * time.Duration(n)
				}
				name, credits := user()
				a := l.of(&schedulers.Terms{User: name, Credits: credits})
				l.settle(a)
				holds[name] = r.IntN(4)
				a.holds = uint64(holds[name])
			}
			want := sorted()
			if got := slices.Collect(q.all()); !slices.Equal(got, want) || q.len() != len(want) {
				t.Fatalf("seed %d (%+v): the queue has %d tasks, or in another order than the list of %d", seed, c, len(got), len(want))
			}
			unaged := slices.IndexFunc(want, func(w *waiting) bool { return !aged(w) })
			if unaged < 0 {
				unaged = len(want)
			}
			if got := slices.Collect(q.aged()); !slices.Equal(got, want[:unaged]) {
				t.Fatalf("seed %d: %d tasks have aged, want %d", seed, len(got), unaged)
			}
			var head *waiting
			if i := slices.IndexFunc(want, func(w *waiting) bool { return !w.stalled }); i >= 0 {
				head = want[i]
			}
			expiry, stalled := schedulers.Never, 0
			for i, w := range want {
				expiry = min(expiry, w.limit.expires)
				stalled += count(w.stalled)
				stops := head != nil && slices.Index(want, head) < i && (aged(head) || c.Queue == FIFO ||
					(c.Queue == PriorityFIFO || c.Queue == PriorityFirstFit) && w.task.Priority < head.task.Priority)
				if q.stops(head, w) != stops || q.get(w.task.ID) != w || i > 0 && q.candidate(want[i-1]) != w {
					t.Fatalf("seed %d: task %d is held back: %v, want %v; or it is not found", seed, w.task.ID, !stops, stops)
				}
			}
			if q.head() != head || q.nextExpiry() != expiry || q.stalled != stalled {
				t.Fatalf("seed %d: expiry %v, want %v; %d stalled, want %d; or another head", seed, q.nextExpiry(), expiry, q.stalled, stalled)
			}
			for job := range schedulers.JobID(6) {
				of := slices.DeleteFunc(slices.Clone(list), func(w *waiting) bool { return w.task.Job != job })
				if !slices.Equal(q.ofJob(job), of) {
					t.Fatalf("seed %d: job %d has %d tasks in the queue, want %d", seed, job, len(q.ofJob(job)), len(of))
				}
			}
		}
		if len(list) == 0 && (len(q.byID) > 0 || len(q.byJob) > 0) {
			t.Fatalf("seed %d: something is left in an empty queue", seed)
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
