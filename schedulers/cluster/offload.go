package cluster

import (
	"fmt"

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
	return h.decide()
}

// Tick looks again at all nodes, because others may have emptied since they were reported.
func (h *Head) Tick() []Decision {
	if h.crowded > 0 {
		for _, n := range h.nodes {
			h.relieve(n)
		}
	}
	return h.decide()
}

// relieve moves jobs away from a node while too many ranks wait there, the latest first.
func (h *Head) relieve(n *node) {
	for h.policy.offloads && n.waiting > h.policy.threshold {
		to := h.nodes[h.ease.first()]
		i := len(n.shares) - 1
		for i >= 0 && !h.improves(n.shares[i], to) {
			i--
		}
		if i < 0 {
			return
		}
		h.move(n.shares[i], to)
	}
}

// improves reports whether the share may move, and fewer ranks wait on the other node, for its weight.
func (h *Head) improves(s *share, to *node) bool {
	return !s.job.started && !s.moved && !s.limited && s.job.on(to) == nil && to.pressure() < s.node.pressure() &&
		(!h.policy.exclusive || to.free >= s.ranks) && (!s.job.Whole || to.Devices >= s.ranks)
}

func (h *Head) move(s *share, to *node) {
	j, from, ranks := s.job, s.node, s.ranks
	reason := fmt.Sprintf("node %s has %s waiting, more than %d", from.Name, size.Count(from.waiting, "rank"), h.policy.threshold)
	h.decided = append(h.decided, Withdraw{Job: j.ID, Shares: []Share{{from.given, ranks}}, Reason: reason},
		Assign{j.ID, []Share{{to.given, ranks}}})
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
