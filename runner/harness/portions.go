package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// To a batch and its node a portion of a job is a job like others. To everybody else the portions are one job with a row for each of
// them: between the two, a joiner records them so.

// apart is a mix whose portions are the jobs of a batch.
type apart struct {
	whole mixes.Mix
	of    []int // the batch's jobs as jobs of whole
	first []int // of each job of whole, the first of the batch's
}

// setApart makes jobs of the portions of the mix's jobs.
func (b *Batch) setApart() error {
	whole := b.Mix
	m, of := whole.Apart()
	if of == nil {
		return nil
	}
	a := &apart{whole: whole, of: of}
	for i, job := range of {
		if i == 0 || of[i-1] != job {
			a.first = append(a.first, i)
		}
	}
	b.Mix, b.apart, b.JobNumber = m, a, a.number
	var why string
	switch {
	case b.Scheduler.Head != nil:
		why = "the nodes of a cluster do not take portions: use one node, or ranks"
	case b.Given != nil:
		why = "a run that is given jobs while it runs takes no portions"
	default:
		return nil
	}
	i := slices.IndexFunc(whole.Jobs, func(j mixes.Job) bool { return j.Portions > 0 })
	where := whole.Where(i)
	if where != "" {
		where += ": "
	}
	return Refuse(fmt.Errorf("%sjob %s has portions: %d, and %s", where, whole.Jobs[i].Name, whole.Jobs[i].Portions, why))
}

// number is a job of the batch as one of the mix.
func (a *apart) number(i int) int { return a.of[i] }

// portions are the batch's jobs that are portions of a job of the mix, from the first on; 0: it is no portion.
func (a *apart) portions(i int) (first, count int) {
	job := a.of[i]
	return a.first[job], a.whole.Jobs[job].Portions
}

// requested is the mix as the user knows it.
func (b Batch) requested() mixes.Mix {
	if b.apart == nil {
		return b.Mix
	}
	return b.apart.whole
}

// joiner records the portions of a job as one job.
type joiner struct {
	*tracker
	*apart
	before []results.Job // the jobs of the mix before anything happened to them

	mu    sync.Mutex
	parts []results.Job   // the batch's jobs
	tasks map[taskKey]int // numbers of portions' tasks within their job
	count map[int]int     // tasks of the jobs that have portions
}

func newJoiner(t *tracker, a *apart) *joiner {
	return &joiner{tracker: t, apart: a, before: runner.Records(a.whole.Jobs), parts: make([]results.Job, len(a.of)), tasks: map[taskKey]int{}, count: map[int]int{}}
}

// mapped is a job's record with the numbers of the mix.
func (r *joiner) mapped(j results.Job) results.Job {
	j.Index = r.number(j.Index)
	var suspects []int
	for _, s := range j.Suspects {
		suspects = append(suspects, r.number(s))
	}
	j.Suspects = slices.Compact(suspects)
	return j
}

// joined is the record of the job to which a job of the batch belongs, by the records of all of these.
func (r *joiner) joined(i int, records []results.Job) results.Job {
	first, count := r.portions(i)
	if count == 0 {
		return r.mapped(records[i])
	}
	j := results.OfPortions(r.before[r.number(i)], records[first:first+count])
	j.Index = i
	return r.mapped(j)
}

func (r *joiner) Job(j results.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, count := r.portions(j.Index)
	if count > 0 {
		r.parts[j.Index] = j
	}
	if count > 0 && (j.StartS != nil || j.Outcome != nil) {
		defer r.tracker.Rank(results.PortionOf(r.number(j.Index), j.Index-first, j)) // behind its job's row
	}
	if count == 0 {
		r.tracker.Job(r.mapped(j))
		return
	}
	r.tracker.Job(r.joined(j.Index, r.parts))
}

func (r *joiner) Rank(k results.Rank) {
	k.Job = r.number(k.Job)
	r.tracker.Rank(k)
}

// task is the number of a job's task in the job of the mix. Those of portions are numbered in the order in which they become known.
func (r *joiner) task(job, seq int) int {
	if _, count := r.portions(job); count == 0 {
		return seq
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := taskKey{job, seq}
	n, known := r.tasks[key]
	if !known {
		n = r.count[r.number(job)]
		r.tasks[key] = n
		r.count[r.number(job)]++
	}
	return n
}

func (r *joiner) Task(t results.Task) {
	t.Seq, t.Job = r.task(t.Job, t.Seq), r.number(t.Job)
	r.tracker.Task(t)
}

func (r *joiner) Swap(s results.Swap) {
	s.Task, s.Job = r.task(s.Job, s.Task), r.number(s.Job)
	if s.ForJob != nil {
		if s.ForTask != nil {
			s.ForTask = new(r.task(*s.ForJob, *s.ForTask))
		}
		s.ForJob = new(r.number(*s.ForJob))
	}
	r.tracker.Swap(s)
}

func (r *joiner) Kernel(k results.Kernel) {
	if k.Task != nil {
		k.Task = new(r.task(k.Job, *k.Task))
	}
	k.Job = r.number(k.Job)
	r.tracker.Kernel(k)
}

func (r *joiner) Copy(c results.Copy) {
	c.Job = r.number(c.Job)
	r.tracker.Copy(c)
}

func (r *joiner) Event(e results.Event) {
	if e.Job != nil {
		e.Job = new(r.number(*e.Job))
	}
	r.tracker.Event(e)
}

// joinedNode is a node whose jobs are returned as those of the mix.
type joinedNode struct {
	Node
	by *joiner
}

func (n joinedNode) Execute(ctx context.Context, run int64, arrival time.Time) ([]results.Job, error) {
	parts, err := n.Node.Execute(ctx, run, arrival)
	if parts == nil {
		return nil, err
	}
	var jobs []results.Job
	for _, first := range n.by.first {
		jobs = append(jobs, n.by.joined(first, parts))
	}
	return jobs, err
}
