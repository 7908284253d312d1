package cluster

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
)

// Jobs leave a node on which many ranks wait, before they start (section 3.5.8). A share moves once, so that nothing
// goes back and forth.

// Load says how many ranks wait for a device of the node, and which jobs have started there since the last such call.
func (h *Head) Load(node, waiting int, started ...schedulers.JobID) []Decision {
	n := h.nodes[h.places[node]]
	for _, id := range started {
		if j := h.jobs[id]; j != nil && j.on(n) != nil {
			j.started = true
		}
	}
	if n.up {
		h.wait(n, waiting)
		h.relieve(n)
	}
	return h.decideAfter(n)
}

// Tick looks again at all nodes, because others may have emptied since they were reported.
func (h *Head) Tick() []Decision {
	if h.crowded > 0 {
		h.relieved = 0
	}
	return h.tick()
}

// tick goes on with the nodes until one waits for an answer.
func (h *Head) tick() []Decision {
	for ; h.relieved < len(h.nodes); h.relieved++ {
		n := h.nodes[h.relieved]
		if h.relieve(n); n.leaving != nil {
			return h.decideAfter(n)
		}
	}
	return h.decide()
}

// decideAfter decides nothing else before a node has answered: room that it leaves may be given.
func (h *Head) decideAfter(n *node) []Decision {
	if n.leaving == nil {
		return h.decide()
	}
	decided := h.decided
	h.decided = nil
	return decided
}

// relieve asks the latest ranks that may move to leave a node on which too many wait.
func (h *Head) relieve(n *node) {
	if !h.policy.offloads || n.leaving != nil || n.waiting <= h.policy.threshold {
		return
	}
	to := h.nodes[h.ease.first()]
	for _, s := range slices.Backward(n.shares) {
		if h.improves(s, to) {
			reason := fmt.Sprintf("node %s has %s waiting, more than %d", n.Name, size.Count(n.waiting, "rank"), h.policy.threshold)
			h.decided = append(h.decided, Leave{s.job.ID, n.given, reason})
			n.leaving = s
			h.refresh(n)
			return
		}
	}
}

// Left says that the ranks of a job have left the node. They are assigned anew.
func (h *Head) Left(id schedulers.JobID, node int) []Decision {
	return h.answered(id, node, func(s *share) {
		to := h.nodes[h.ease.first()]
		if !h.improves(s, to) { // any more
			to = s.node
		}
		h.move(s, to)
	})
}

// Stayed says that the job has started there before its ranks could leave the node, or that they may not.
func (h *Head) Stayed(id schedulers.JobID, node int) []Decision {
	return h.answered(id, node, func(s *share) { s.job.started = true })
}

// answered takes the answer to Leave. One that comes too late changes nothing.
func (h *Head) answered(id schedulers.JobID, node int, take func(*share)) []Decision {
	n := h.nodes[h.places[node]]
	s := n.leaving
	if s == nil || s.job.ID != id {
		return nil
	}
	n.leaving = nil
	take(s)
	h.refresh(n)
	if h.relieve(n); n.leaving != nil {
		return h.decideAfter(n)
	}
	return h.tick()
}

// improves reports whether the share may move, and fewer ranks wait on the other node, for its weight.
func (h *Head) improves(s *share, to *node) bool {
	return !s.job.started && !s.moved && !s.limited && s.job.on(to) == nil && to.pressure() < s.node.pressure() &&
		(!h.policy.exclusive || to.free >= s.ranks) && (!s.job.Whole || to.Devices >= s.ranks)
}

func (h *Head) move(s *share, to *node) {
	j, from, ranks := s.job, s.node, s.ranks
	h.decided = append(h.decided, Assign{j.ID, []Share{{to.given, ranks}}})
	if s.moved = true; to == from {
		return
	}
	h.change(s, -ranks)
	h.give(j, to, ranks)
	j.on(to).moved = true
	h.wait(from, max(0, from.waiting-ranks))
	h.wait(to, to.waiting+ranks)
}

func (h *Head) wait(n *node, ranks int) {
	if n.waiting > h.policy.threshold {
		h.crowded--
	}
	if ranks > h.policy.threshold {
		h.crowded++
	}
	n.waiting = ranks
	h.refresh(n)
}

// pressure is how many ranks wait for each unit of weight.
func (n *node) pressure() float64 { return float64(n.waiting) / float64(n.weight) }
