package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
)

// Head is the state of a cluster under a policy. Each call answers with what is decided, in this order. The same calls
// give the same answers. Of jobs and shares that it does not know, or no longer, it is silent, because messages cross.
type Head struct {
	policy  Policy
	nodes   []*node // by weight, the heaviest first, if the policy has weights; then as given
	places  []int   // of the nodes as given, in nodes
	jobs    map[schedulers.JobID]*job
	queues  [2][]*job // of a policy that prefers short jobs by class; else all in the first. Jobs that ended may be in them
	devices int       // of all nodes
	largest int       // how many devices a node has at most
	up      int       // nodes
	free    int       // the sum of weight - assigned over nodes that are up
	cursor  int       // the node whose turn it is
	latest  int       // the last node, as given, that the latest job got from a program; -1: none
	// avail is weight - assigned of the nodes that are up. For a short job, what limits took does not count as assigned.
	avail   [2]maxima
	yield   maxima // minus the number of limits that give a short job room on a node, if limits can
	crowded int    // nodes on which more ranks wait than the threshold
	ease    maxima // minus waiting / weight
	// resumable are nodes whose last short job is gone, so that limits can go. A node may occur twice.
	resumable []*node
	relieved  int // nodes that Tick has relieved; all of them: it is over
	decided   []Decision
}

type node struct {
	Node
	given, place int // its number as given, and in Head.nodes
	weight       int
	up           bool
	assigned     int // ranks
	short        int // of assigned
	taken        int // of assigned: those that limits keep off devices
	waiting      int // ranks, as last reported, and moved since
	free         int // its part of Head.free
	shares       []*share
	leaving      *share // that was asked to leave; nil: none is
}

type job struct {
	Job
	started bool
	shares  []*share
}

type share struct {
	job     *job
	node    *node
	ranks   int
	limited bool
	moved   bool
}

// New returns the head of a cluster whose nodes are all up.
func New(policy Policy, nodes []Node) (*Head, error) {
	weights, err := policy.weigh(nodes)
	if err != nil {
		return nil, fmt.Errorf("scheduler %s: %w", policy.Name, err)
	}
	h := &Head{policy: policy, places: make([]int, len(nodes)), jobs: map[schedulers.JobID]*job{}, latest: -1}
	for _, m := range []*maxima{&h.avail[Short], &h.avail[Long], &h.yield, &h.ease} {
		*m = newMaxima(len(nodes))
	}
	for i, n := range nodes {
		h.nodes = append(h.nodes, &node{Node: n, given: i, weight: weights[i]})
		h.devices += n.Devices
		h.largest = max(h.largest, n.Devices)
	}
	if policy.weights != "" {
		slices.SortStableFunc(h.nodes, func(a, b *node) int { return cmp.Compare(b.weight, a.weight) })
	}
	for i, n := range h.nodes {
		n.place, h.places[n.given] = i, i
		h.rise(n)
	}
	h.relieved = len(h.nodes)
	return h, nil
}

// Submit gives the head a job.
func (h *Head) Submit(j Job) []Decision {
	reason := ""
	switch {
	case h.jobs[j.ID] != nil:
		reason = fmt.Sprintf("job %d (%s) is in the cluster already: give each job its own number", j.ID, h.jobs[j.ID].Name)
	case j.Ranks < 1:
		reason = fmt.Sprintf("job %s has %d ranks: give it at least 1", j.Name, j.Ranks)
	case j.Whole && j.Ranks > h.largest:
		reason = fmt.Sprintf("job %s needs %s of one node, and no node has more than %d", j.Name, size.Count(j.Ranks, "device"), h.largest)
	case h.policy.exclusive && j.Ranks > h.devices:
		reason = fmt.Sprintf("job %s has %s, and each needs a device of its own, but the cluster has %s: give it fewer ranks, or choose a policy that shares devices",
			j.Name, size.Count(j.Ranks, "rank"), size.Count(h.devices, "device"))
	}
	if reason != "" {
		return []Decision{Refuse{j.ID, reason}}
	}
	known := &job{Job: j}
	h.jobs[j.ID] = known
	queue := &h.queues[h.queueOf(known)]
	*queue = append(*queue, known)
	return h.decide()
}

// RankEnded says that a rank of the job ended on the node. The last one ends the job.
func (h *Head) RankEnded(id schedulers.JobID, node int) []Decision {
	j := h.jobs[id]
	if j == nil {
		return nil
	}
	s := j.on(h.nodes[h.places[node]])
	if s == nil {
		return nil
	}
	if h.change(s, -1); len(j.shares) == 0 {
		delete(h.jobs, id)
	}
	return h.decide()
}

// JobEnded says that the job ended, or was taken out of the queue.
func (h *Head) JobEnded(id schedulers.JobID) []Decision {
	if j := h.jobs[id]; j != nil {
		h.end(j)
	}
	return h.decide()
}

// NodeUp says that a node which was down can run jobs. It has none.
func (h *Head) NodeUp(node int) []Decision {
	if n := h.nodes[h.places[node]]; !n.up {
		h.rise(n)
	}
	return h.decide()
}

// NodeDown says that a node is lost, and so are all jobs that have ranks there.
func (h *Head) NodeDown(node int) []Decision {
	n := h.nodes[h.places[node]]
	if !n.up {
		return nil
	}
	n.up = false
	h.up--
	h.wait(n, 0)
	for len(n.shares) > 0 {
		j := n.shares[0].job
		reason := fmt.Sprintf("job %s is lost: node %s is down", j.Name, n.Name)
		h.decided = append(h.decided, Withdraw{Job: j.ID, Shares: sharesOf(j), Reason: reason})
		h.end(j)
	}
	return h.decide()
}

// decide serves the queues after something happened, and returns all that was decided. Short jobs come first, then those
// that were limited for them, then long ones.
func (h *Head) decide() []Decision {
	h.serve(Short)
	if h.first(Short) == nil {
		h.resume()
		h.serve(Long)
	}
	decided := h.decided
	h.decided = nil
	return decided
}

// serve assigns jobs of a queue, from its first one until one finds no room. Nobody passes that job, except under a literal
// listing.
func (h *Head) serve(queue Class) {
	var back []*job
	for j := h.first(queue); j != nil; j = h.first(queue) {
		shares := h.place(j)
		if shares == nil && h.makeRoom(j) {
			shares = h.place(j)
		}
		never := shares == nil && h.isNever()
		if shares == nil && !never && !h.policy.literal {
			break
		}
		h.queues[queue] = h.queues[queue][1:]
		if never {
			h.end(j)
			h.decided = append(h.decided, Refuse{j.ID, fmt.Sprintf("the policy gives job %s no nodes, although nothing runs on the cluster", j.Name)})
			continue
		}
		if shares == nil {
			back = append(back, j)
			continue
		}
		h.assign(j, shares)
	}
	h.queues[queue] = append(h.queues[queue], back...)
}

// first is the first job of a queue that still waits. It takes those that ended out of the queue.
func (h *Head) first(queue Class) *job {
	for q := &h.queues[queue]; len(*q) > 0; *q = (*q)[1:] {
		if j := (*q)[0]; h.jobs[j.ID] == j {
			return j
		}
	}
	return nil
}

func (h *Head) queueOf(j *job) Class {
	if h.policy.latency {
		return j.Class
	}
	return Short
}

// assign gives a job the shares, which have places for nodes. A place may occur twice.
func (h *Head) assign(j *job, shares []Share) {
	slices.SortStableFunc(shares, func(a, b Share) int { return cmp.Compare(a.Node, b.Node) })
	for _, given := range shares {
		h.give(j, h.nodes[given.Node], given.Ranks)
	}
	h.decided = append(h.decided, Assign{j.ID, sharesOf(j)})
}

// give adds ranks to the job's share of the node.
func (h *Head) give(j *job, n *node, ranks int) {
	if last := len(j.shares) - 1; last >= 0 && j.shares[last].node == n {
		h.change(j.shares[last], ranks)
		return
	}
	s := &share{job: j, node: n}
	j.shares, n.shares = append(j.shares, s), append(n.shares, s)
	h.change(s, ranks)
}

// change adds ranks to a share, and drops the share if it has none left.
func (h *Head) change(s *share, ranks int) {
	n := s.node
	h.setLimit(s, s.limited, ranks)
	n.assigned += ranks
	if s.job.Class == Short {
		n.short += ranks
		if n.short == 0 && h.policy.latency {
			h.resumable = append(h.resumable, n)
		}
	}
	if s.ranks == 0 {
		if n.leaving == s {
			n.leaving = nil
		}
		same := func(other *share) bool { return other == s }
		s.job.shares, n.shares = slices.DeleteFunc(s.job.shares, same), slices.DeleteFunc(n.shares, same)
	}
	h.refresh(n)
}

// end takes a job out.
func (h *Head) end(j *job) {
	shares := j.shares
	j.shares = nil
	for _, s := range shares {
		h.change(s, -s.ranks)
	}
	delete(h.jobs, j.ID)
}

func (h *Head) rise(n *node) {
	n.up = true
	h.up++
	h.refresh(n)
}

// refresh files a node anew.
func (h *Head) refresh(n *node) {
	h.free -= n.free
	n.free = 0
	if !n.up {
		for _, m := range []maxima{h.avail[Short], h.avail[Long], h.yield, h.ease} {
			m.set(n.place, lowest)
		}
		return
	}
	n.free = n.weight - n.assigned
	h.free += n.free
	h.avail[Long].set(n.place, float64(n.free))
	h.avail[Short].set(n.place, float64(n.free+n.taken))
	if h.policy.latency {
		h.yield.set(n.place, h.yieldOf(n))
	}
	if h.policy.offloads {
		h.ease.set(n.place, -n.pressure())
	}
}

// on is the job's share of a node; nil: it has none.
func (j *job) on(n *node) *share {
	if i := slices.IndexFunc(j.shares, func(s *share) bool { return s.node == n }); i >= 0 {
		return j.shares[i]
	}
	return nil
}

// sharesOf are the job's shares, as the caller numbers nodes.
func sharesOf(j *job) (shares []Share) {
	for _, s := range j.shares {
		shares = append(shares, Share{s.node.given, s.ranks})
	}
	return shares
}
