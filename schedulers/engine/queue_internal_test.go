package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// The queue finds tasks by id, by job, by the end of their wait, and the tasks that have aged.
func TestQueueFindsTasks(t *testing.T) {
	q := newQueue(Config{Queue: LargestFirst, AgeLimit: 2})
	push := func(id schedulers.TaskID, job schedulers.JobID, bytes int64, expires time.Duration) *waiting {
		return q.push(schedulers.Task{ID: id, Job: job, Bytes: bytes}, limit{longest: expires, expires: expires})
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
