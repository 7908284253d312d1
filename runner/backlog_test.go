package runner

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers/engine"
)

// The backlog is what a list that is searched at each admission says.
func TestBacklogIsAList(t *testing.T) {
	type waiting struct {
		arrival
		key    time.Duration
		passed int
	}
	chance.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(0, 4).Draw(rt, "age limit")
		l := newBacklog(engine.Config{Queue: engine.ShortestFirst, AgeLimit: limit})
		var list []waiting
		now, jobs := time.Duration(0), 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "arrives") {
				now += time.Duration(rapid.IntRange(0, 1).Draw(rt, "later"))
				key := time.Duration(rapid.IntRange(0, 3).Draw(rt, "key"))
				l.add(jobs, key, now)
				list = append(list, waiting{arrival{job: jobs, at: now}, key, 0})
				jobs++
				continue
			}
			got, ok := l.next()
			if ok != (len(list) > 0) {
				rt.Fatalf("a job waits: %v, of %d", ok, len(list))
			}
			if !ok {
				continue
			}
			best := 0
			for i, w := range list {
				if w.key < list[best].key {
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
	l := newBacklog(engine.Config{Queue: engine.ShortestFirst, AgeLimit: 2})
	for job, key := range []time.Duration{9, 8, 1, 1, 1} {
		l.add(job, key, 0)
	}
	var got []int
	for now := range time.Duration(8) {
		job, _ := l.next()
		got = append(got, job)
		l.admit()
		l.add(5+int(now), 2, 1+now)
	}
	if want := []int{2, 3, 4, 5, 6, 0, 1, 7}; !slices.Equal(got, want) {
		t.Errorf("admitted %v, want %v", got, want)
	}
}
