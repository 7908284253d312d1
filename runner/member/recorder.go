package member

import (
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/remote"
)

// recorder says what the batch records, with the numbers of jobs for the head.
type recorder struct{ n *node }

func (r recorder) say(said remote.FromNode) { r.n.to.Say(said) }

func (r recorder) Job(j results.Job) {
	j.Index = r.n.forHead(j.Index)
	j.Suspects = slices.Clone(j.Suspects)
	for i, s := range j.Suspects {
		j.Suspects[i] = r.n.forHead(s)
	}
	r.say(remote.FromNode{Job: &j})
}

func (r recorder) Rank(k results.Rank) {
	k.Job = r.n.forHead(k.Job)
	r.say(remote.FromNode{Rank: &k})
}

func (r recorder) Task(t results.Task) {
	t.Job = r.n.forHead(t.Job)
	r.say(remote.FromNode{Task: &t})
}

func (r recorder) Swap(s results.Swap) {
	s.Job = r.n.forHead(s.Job)
	if s.ForJob != nil {
		s.ForJob = new(r.n.forHead(*s.ForJob))
	}
	r.say(remote.FromNode{Swap: &s})
}

func (r recorder) Kernel(k results.Kernel) {
	k.Job = r.n.forHead(k.Job)
	r.say(remote.FromNode{Kernel: &k})
}

func (r recorder) Copy(c results.Copy) {
	c.Job = r.n.forHead(c.Job)
	r.say(remote.FromNode{Copy: &c})
}

func (r recorder) Segment(s results.Segment) { r.say(remote.FromNode{Segment: &s}) }

func (r recorder) Event(e results.Event) {
	if e.Job != nil {
		e.Job = new(r.n.forHead(*e.Job))
	}
	r.say(remote.FromNode{Event: &e})
}
