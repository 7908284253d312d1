package runner

import (
	"container/heap"
	"slices"
	"time"
)

// deadline is when a job has run as long as it may.
type deadline struct {
	at  time.Duration
	job int
}

// deadlines has the deadlines that have not passed, the next one first. It keeps those of jobs that
// ended in time.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at < d[j].at }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }

func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func (d *deadlines) add(at time.Duration, job int) { heap.Push(d, deadline{at, job}) }

// due takes out the deadlines that have passed, and returns their jobs in the order of the mix.
func (d *deadlines) due(now time.Duration) []int {
	var jobs []int
	for len(*d) > 0 && (*d)[0].at <= now {
		jobs = append(jobs, heap.Pop(d).(deadline).job)
	}
	slices.Sort(jobs)
	return jobs
}
