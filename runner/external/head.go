package external

import (
	"errors"
	"fmt"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// Head is a program that decides which nodes of a cluster a job gets.
type Head struct{ *Policy }

var _ cluster.Assigner = Head{}

// StartHead is Start of a program that decides for the head of a cluster.
func StartHead(program policies.Program) (Head, error) {
	p, err := startWith(program, greeting.checkHead)
	return Head{p}, err
}

// Answers says how often the program was asked and let a job wait.
func (h Head) Answers() string { return h.tally("which nodes a job gets", "no shares") }

func (g greeting) checkHead() error {
	switch {
	case g.Protocol != first:
		return fmt.Errorf("it speaks protocol %d, and a program that decides for a cluster speaks protocol %d: let it answer with that one", g.Protocol, first)
	case g.Promises != nil || g.Asks != nil || g.SMs || g.TakesBack || g.Looks != nil || g.Bursts:
		return errors.New("only id and protocol are of a program that decides for a cluster: leave the other fields out")
	}
	return nil
}

type (
	assignQuestion struct {
		ID     uint64          `json:"id"`
		Kind   string          `json:"kind"` // assign
		Job    job             `json:"job"`
		Latest *int            `json:"latest"` // null before the first job
		Nodes  []nodeOfCluster `json:"nodes"`
	}
	assignAnswer struct {
		ID     *uint64  `json:"id"`
		Shares *[]share `json:"shares"` // none: the job waits
	}
)

// job is a cluster.Job.
type job struct {
	ID        schedulers.JobID `json:"id"`
	Name      string           `json:"name"`
	Ranks     int              `json:"ranks"`
	OneNode   bool             `json:"one_node"`
	Sensitive string           `json:"sensitive"`
	Long      bool             `json:"long"`
}

// nodeOfCluster is a cluster.NodeView.
type nodeOfCluster struct {
	Node     int  `json:"node"`
	Devices  int  `json:"devices"`
	Weight   int  `json:"weight"`
	Cores    int  `json:"cores"`
	Assigned int  `json:"assigned"`
	Waiting  int  `json:"waiting"`
	Open     bool `json:"open"`
}

// share is a cluster.Share.
type share struct {
	Node  *int `json:"node"`
	Ranks int  `json:"ranks"`
}

func (a assignAnswer) id() *uint64 { return a.ID }

func (h Head) Assign(j cluster.Job, nodes []cluster.NodeView, latest int) (shares []cluster.Share) {
	q := assignQuestion{Kind: "assign", Job: job{j.ID, j.Name, j.Ranks, j.Whole, "communication", j.Class == cluster.Long}, Nodes: make([]nodeOfCluster, len(nodes))}
	if j.Kind == cluster.Computation {
		q.Job.Sensitive = "computation"
	}
	if latest >= 0 {
		q.Latest = &latest
	}
	for i, n := range nodes {
		q.Nodes[i] = nodeOfCluster{i, n.Devices, n.Weight, n.Cores, n.Assigned, n.Waiting, n.Open}
	}
	a := ask(h.Policy, h.program.Timeout, fmt.Sprintf("assign job %d (%s)", j.ID, j.Name), func(id uint64) any {
		q.ID = id
		return q
	}, func(a assignAnswer) error { return a.check(j, nodes) })
	if h.err != nil {
		return nil
	}
	if h.places++; len(*a.Shares) == 0 {
		h.waits++
	}
	for _, s := range *a.Shares {
		shares = append(shares, cluster.Share{Node: *s.Node, Ranks: s.Ranks})
	}
	return shares
}

// check refuses shares that are not those of the job.
func (a assignAnswer) check(j cluster.Job, nodes []cluster.NodeView) error {
	switch {
	case a.Shares == nil:
		return errors.New("it has no shares: want a list, which is empty if the job must wait")
	case len(*a.Shares) == 0:
		return nil
	}
	given, had := 0, map[int]bool{}
	for i, s := range *a.Shares {
		switch {
		case s.Node == nil:
			return fmt.Errorf("share %d has no node: want its number", i)
		case *s.Node < 0 || *s.Node >= len(nodes):
			return fmt.Errorf("node %d: the cluster has nodes 0 to %d", *s.Node, len(nodes)-1)
		case had[*s.Node]:
			return fmt.Errorf("node %d has two shares: give it one with all its ranks", *s.Node)
		case !nodes[*s.Node].Open:
			return fmt.Errorf("node %d, which is not open to the job", *s.Node)
		case s.Ranks < 1 || s.Ranks > j.Ranks:
			return fmt.Errorf("%d ranks for node %d: want 1 to %d", s.Ranks, *s.Node, j.Ranks)
		}
		had[*s.Node] = true
		given += s.Ranks
	}
	switch {
	case given != j.Ranks:
		return fmt.Errorf("it gives nodes %d ranks, and the job has %d: each rank goes to one node, once", given, j.Ranks)
	case j.Whole && len(had) > 1:
		return fmt.Errorf("it gives the job %s, and all its ranks must be on one", size.Count(len(had), "node"))
	}
	return nil
}
