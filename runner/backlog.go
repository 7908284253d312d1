package runner

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/caserun/caserun/schedulers/engine"
)

// backlog has the jobs that have arrived and were not admitted, under a queue order that also says which job is admitted
// next. A job is passed by jobs that came at a later time, at most as often as the age limit says. Then it goes first.
type backlog struct {
	ageLimit int       // 0: it is passed any number of times
	came     []arrival // by arrival
	first    int       // of came: no job before it waits
	passed   int       // how often it was passed
	admitted []int     // how many jobs of each wave were
	line     line      // all that wait, and some that do not
}

// arrival is a job that has arrived. The jobs of a wave came at the same time.
type arrival struct {
	job   int
	wave  int
	at    time.Duration
	waits bool
}

// newBacklog returns nil if jobs are admitted in the order of their arrival.
func newBacklog(c engine.Config) *backlog {
	if !c.Queue.Admits() {
		return nil
	}
	return &backlog{ageLimit: c.AgeLimit}
}

// add takes in a job that arrives now, which is not before the others. Of those that wait the job with the least key is admitted
// next, and of equal ones the first to come.
func (l *backlog) add(job int, key, now time.Duration) {
	if n := len(l.came); n == 0 || l.came[n-1].at != now {
		l.admitted = append(l.admitted, 0)
	}
	heap.Push(&l.line, queued{key, len(l.came)})
	l.came = append(l.came, arrival{job, len(l.admitted) - 1, now, true})
}

// next returns the job that is admitted next; false if no job waits.
func (l *backlog) next() (job int, ok bool) {
	if l.first == len(l.came) {
		return 0, false
	}
	return l.came[l.head()].job, true
}

// head is the place in came of the next job.
func (l *backlog) head() int {
	if l.ageLimit > 0 && l.passed >= l.ageLimit {
		return l.first
	}
	for !l.came[l.line[0].at].waits {
		heap.Pop(&l.line)
	}
	return l.line[0].at
}

// admit takes out the next job.
func (l *backlog) admit() {
	next := &l.came[l.head()]
	next.waits = false
	wave := next.wave
	l.admitted[wave]++
	if wave > l.came[l.first].wave {
		l.passed++
	}
	before := l.came[l.first].wave
	for l.first < len(l.came) && !l.came[l.first].waits {
		l.first++
	}
	if l.first == len(l.came) {
		l.passed = 0
		return
	}
	for w := before + 1; w <= l.came[l.first].wave; w++ { // they came with it or before it
		l.passed -= l.admitted[w]
	}
}

// line is a heap of jobs.
type line []queued

// queued is a job in a line.
type queued struct {
	key time.Duration
	at  int // in came
}

func (l line) Len() int { return len(l) }
func (l line) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].key, l[j].key), l[i].at-l[j].at) < 0
}
func (l line) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *line) Push(x any)   { *l = append(*l, x.(queued)) }

func (l *line) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}
