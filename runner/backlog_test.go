package runner

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// The backlog is what a list that is searched at each admission says.
func TestBacklogIsAList(t *testing.T) {
	type waiting struct {
		arrival
		user   string
		key    time.Duration
		passed int
	}
	chance.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(0, 4).Draw(rt, "age limit")
		spent, run := map[string]int{}, map[string]int{}
		l := newBacklog(engine.Config{Queue: engine.ShortestFirst, AgeLimit: limit}, func(t, u *schedulers.Terms) int { return spent[t.User] - spent[u.User] })
		var list []waiting
		users := map[string]int{"": 0, "ann": 1, "bob": 2} // with their credits
		user := rapid.SampledFrom([]string{"", "ann", "bob"})
		before := func(a, b waiting) int { // in order of arrival
			if a.user == b.user {
				return int(a.key - b.key)
			}
			return cmp.Or(spent[a.user]-spent[b.user], run[a.user]*max(1, users[b.user])-run[b.user]*max(1, users[a.user]))
		}
		now, jobs := time.Duration(0), 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "arrives") {
				now += time.Duration(rapid.IntRange(0, 1).Draw(rt, "later"))
				key := time.Duration(rapid.IntRange(0, 3).Draw(rt, "key"))
				of := user.Draw(rt, "user")
				l.add(jobs, &schedulers.Terms{User: of, Credits: users[of]}, key, now)
				list = append(list, waiting{arrival{job: jobs, at: now}, of, key, 0})
				jobs++
				continue
			}
			if of := user.Draw(rt, "spends or ends"); run[of] > 0 {
				run[of]--
				l.end(of)
			} else {
				spent[of] = rapid.IntRange(0, 2).Draw(rt, "spent")
			}
			got, ok := l.next()
			if ok != (len(list) > 0) {
				rt.Fatalf("a job waits: %v, of %d", ok, len(list))
			}
			if !ok {
				continue
			}
			next := map[string]int{} // of each user
			for i, w := range list {
				if first, has := next[w.user]; !has || before(w, list[first]) < 0 {
					next[w.user] = i
				}
			}
			best := -1
			for _, i := range slices.Sorted(maps.Values(next)) {
				if best < 0 || before(list[i], list[best]) < 0 {
					best = i
				}
			}
			if limit > 0 && list[0].passed >= limit {
				best = 0
			}
			if got != list[best].job {
				rt.Fatalf("job %d is next, want %d of %+v", got, list[best].job, list)
			}
			l.admit()
			run[list[best].user]++
			for i := range list {
				if list[i].at < list[best].at {
					list[i].passed++
				}
			}
			list = slices.Delete(list, best, best+1)
		}
	})
}

// A long job starts although shorter ones come all the time. Jobs that came together do not make each other age.
func TestTheBacklogStarvesNobody(t *testing.T) {
	l := newBacklog(engine.Config{Queue: engine.ShortestFirst, AgeLimit: 2}, equal)
	for job, key := range []time.Duration{9, 8, 1, 1, 1} {
		l.add(job, &schedulers.Terms{}, key, 0)
	}
	var got []int
	for now := range time.Duration(8) {
		job, _ := l.next()
		got = append(got, job)
		l.admit()
		l.add(5+int(now), &schedulers.Terms{}, 2, 1+now)
	}
	if want := []int{2, 3, 4, 5, 6, 0, 1, 7}; !slices.Equal(got, want) {
		t.Errorf("admitted %v, want %v", got, want)
	}
}

func equal(_, _ *schedulers.Terms) int { return 0 }
