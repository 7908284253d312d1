package runner

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// backlog has the jobs that have arrived and were not admitted, under a queue order that also says which job is admitted
// next. A job is passed by jobs that came at a later time, at most as often as the age limit says. Then it goes first.
type backlog struct {
	before   func(t, u *schedulers.Terms) int // engine.Engine.Before
	ageLimit int                              // 0: a job is passed any number of times
	came     []arrival                        // by arrival
	first    int                              // of came: no job before it waits
	passed   int                              // how often it was passed
	admitted []int                            // how many jobs of each wave were
	lines    []*line                          // one, or under credits one for each user
	of       map[string]*line                 // by user
}

// arrival is a job that has arrived. The jobs of a wave came at the same time.
type arrival struct {
	job   int
	wave  int
	at    time.Duration
	line  *line
	waits bool
}

// newBacklog returns nil if jobs are admitted in the order of their arrival.
func newBacklog(c engine.Config, before func(t, u *schedulers.Terms) int) *backlog {
	if !c.Queue.Admits() {
		return nil
	}
	return &backlog{before: before, ageLimit: c.AgeLimit, of: map[string]*line{}}
}

// add takes in a job that arrives now, which is not before the others. whose says its user and that user's
// credits. Of a user's jobs that wait the job with the least key is admitted next, and of equal ones the first to come.
func (l *backlog) add(job int, whose *schedulers.Terms, key, now time.Duration) {
	if n := len(l.came); n == 0 || l.came[n-1].at != now {
		l.admitted = append(l.admitted, 0)
	}
	of := l.of[whose.User]
	if of == nil {
		of = &line{}
		l.of[whose.User], l.lines = of, append(l.lines, of)
	}
	of.whose = whose
	heap.Push(&of.queued, queued{key, len(l.came)})
	l.came = append(l.came, arrival{job, len(l.admitted) - 1, now, of, true})
}

// next returns the job that is admitted next; false if no job waits.
func (l *backlog) next() (job int, ok bool) {
	if l.first == len(l.came) {
		return 0, false
	}
	return l.came[l.head()].job, true
}

// head is the place in came of the next job. A job waits.
func (l *backlog) head() int {
	if l.ageLimit > 0 && l.passed >= l.ageLimit {
		return l.first
	}
	var best *line
	for _, of := range l.lines {
		for len(of.queued) > 0 && !l.came[of.queued[0].at].waits {
			heap.Pop(&of.queued)
		}
		if len(of.queued) > 0 && (best == nil || l.goesBefore(of, best)) {
			best = of
		}
	}
	return best.queued[0].at
}

// goesBefore reports whether the user of a goes before that of b: by what they spent, then by the jobs that run, for
// each credit, then by the arrival of the job that is next.
func (l *backlog) goesBefore(a, b *line) bool {
	return cmp.Or(l.before(a.whose, b.whose), a.run*max(1, b.whose.Credits)-b.run*max(1, a.whose.Credits), a.queued[0].at-b.queued[0].at) < 0
}

// admit takes out the next job.
func (l *backlog) admit() {
	next := &l.came[l.head()]
	next.waits = false
	next.line.run++
	l.admitted[next.wave]++
	before := l.came[l.first].wave
	if next.wave > before {
		l.passed++
	}
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

// end notes that a job of the user's, which was admitted, has ended.
func (l *backlog) end(user string) { l.of[user].run-- }

// line is the jobs of a user.
type line struct {
	whose  *schedulers.Terms
	run    int       // that were admitted and have not ended
	queued queueHeap // those that wait, and some that do not
}

// queued is a job in a line.
type queued struct {
	key time.Duration
	at  int // in came
}

type queueHeap []queued

func (q queueHeap) Len() int { return len(q) }
func (q queueHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].key, q[j].key), q[i].at-q[j].at) < 0
}
func (q queueHeap) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queueHeap) Push(x any)   { *q = append(*q, x.(queued)) }

func (q *queueHeap) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
