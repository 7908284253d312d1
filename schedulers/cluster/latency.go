package cluster

import (
	"cmp"
	"slices"
)

// Short jobs before long ones (section 4.3.2, Listing 4-3). Where a short job finds no room, long jobs give way: they are
// limited to fewer devices of a node, or to none. They get these back once no short job waits, and none runs on that node.

// makeRoom limits the fewest long jobs of one node that leave room for a short job.
func (h *Head) makeRoom(j *job) bool {
	if !h.policy.latency || j.Class != Short {
		return false
	}
	devices := 0
	if j.Whole {
		devices = j.Ranks
	}
	i := h.largestOf(h.yield, lowest, devices)
	if i < 0 {
		return false
	}
	n := h.nodes[i]
	for _, s := range h.yielding(n) {
		h.setLimit(s, true, 0)
		h.decided = append(h.decided, Limit{s.job.ID, n.given, h.policy.limit})
	}
	h.refresh(n)
	return true
}

// yieldOf is the key of a node in Head.yield.
func (h *Head) yieldOf(n *node) float64 {
	if shares := h.yielding(n); len(shares) > 0 {
		return -float64(len(shares))
	}
	return lowest
}

// yielding are the fewest shares of a full node that leave room for a short job once they are limited; nil: all of them
// do not.
func (h *Head) yielding(n *node) []*share {
	if n.free+n.taken > 0 || h.policy.limit >= n.Devices {
		return nil
	}
	var long []*share
	for _, s := range n.shares {
		if s.job.Class == Long && !s.limited && s != n.leaving {
			long = append(long, s)
		}
	}
	slices.SortStableFunc(long, func(a, b *share) int { return cmp.Compare(b.ranks, a.ranks) })
	room := n.free + n.taken
	for i, s := range long {
		if room += s.ranks - h.policy.limit; room > 0 {
			return long[:i+1]
		}
	}
	return nil
}

// resume lifts limits. No short job waits.
func (h *Head) resume() {
	for _, n := range h.resumable {
		if n.short > 0 {
			continue
		}
		for _, s := range n.shares {
			if s.limited {
				h.setLimit(s, false, 0)
				h.decided = append(h.decided, Limit{s.job.ID, n.given, n.Devices})
			}
		}
		h.refresh(n)
	}
	h.resumable = h.resumable[:0]
}

// setLimit adds ranks to a share, limited or not, and keeps the node's account of what limits take.
func (h *Head) setLimit(s *share, limited bool, ranks int) {
	s.node.taken -= h.takenOf(s)
	s.ranks += ranks
	s.limited = limited
	s.node.taken += h.takenOf(s)
}

// takenOf are the ranks that a limit keeps off devices.
func (h *Head) takenOf(s *share) int {
	if s.limited {
		return max(0, s.ranks-h.policy.limit)
	}
	return 0
}
