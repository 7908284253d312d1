package cluster

import (
	"iter"
	"slices"
)

// These are the rules by which a job gets nodes. Each returns shares with places for nodes, or nil: the job waits.

// place has the rule of the policy give a job nodes. A job that is whole gets one that has its devices.
func (h *Head) place(j *job) []Share {
	if !j.Whole || h.policy.program != nil {
		return h.policy.place(h, j)
	}
	i := h.nodeFor(j)
	if i < 0 {
		return nil
	}
	return []Share{{i, j.Ranks}}
}

// nodeFor is the node of a job that is whole; -1: it waits. Under a policy with weights it is the one with most room, and else the next in turn.
func (h *Head) nodeFor(j *job) int {
	avail := h.avail[j.Class]
	if h.policy.weights != "" {
		return h.largestOf(avail, 0, j.Ranks)
	}
	bound := lowest
	if h.policy.exclusive {
		bound = float64(j.Ranks - 1)
	}
	for at, n := h.cursor, 0; n < len(h.nodes); n++ {
		i := h.avail[Long].inTurn(at, bound)
		if i < 0 {
			break
		}
		if h.nodes[i].Devices >= j.Ranks {
			h.cursor = i + 1
			return i
		}
		at = i + 1
	}
	return -1
}

// largestOf returns the node with the largest key, or the first of several. Only nodes with at least so many devices and a key
// above the bound count; -1: there is none.
func (h *Head) largestOf(keys maxima, bound float64, devices int) int {
	best := -1
	if keys.largest() <= bound {
		return best
	}
	if first := keys.first(); h.nodes[first].Devices >= devices {
		return first
	}
	for i := range keys.above(bound) {
		if h.nodes[i].Devices >= devices && (best < 0 || keys.of(i) > keys.of(best)) {
			best = i
		}
	}
	return best
}

// placeBatch gives each rank a device of its own, from the device after the latest one on. It is what TORQUE does
// (section 4.4.5).
func placeBatch(h *Head, j *job) (shares []Share) {
	if h.free < j.Ranks {
		return nil
	}
	for left := j.Ranks; left > 0; {
		i := h.avail[Long].inTurn(h.cursor, 0)
		ranks := min(left, h.nodes[i].free)
		shares = append(shares, Share{i, ranks})
		left -= ranks
		h.cursor = i
		if ranks == h.nodes[i].free {
			h.cursor++
		}
	}
	return shares
}

// placeInTurn is Listing 4-1.
func placeInTurn(h *Head, j *job) []Share {
	if h.policy.literal && h.up > 0 { // each round gives every node a rank
		return deal((j.Ranks+h.up-1)/h.up*h.up, slices.Collect(h.avail[Long].above(lowest)))
	}
	return h.inTurn(j.Ranks)
}

// placeTogether is Listing 4-2.
func placeTogether(h *Head, j *job) []Share {
	avail, most := h.avail[j.Class], h.policy.nodesFor(j.Kind)
	if h.policy.literal && most == unbounded {
		return h.placeLiterally(j)
	}
	if avail.largest() <= 0 {
		return nil
	}
	if most == unbounded {
		shares, left := fill(j.Ranks, avail, avail.above(0))
		return append(shares, h.inTurn(left)...)
	}
	chosen := avail.firsts(min(most, j.Ranks))
	shares, left := fill(j.Ranks, avail, slices.Values(chosen))
	return append(shares, deal(left, chosen)...)
}

// placeLiterally is lines 32 to 48 of Listing 4-2 as printed: a node gets all that it has, and nodes that have less than
// nothing count too.
func (h *Head) placeLiterally(j *job) (shares []Share) {
	if h.free == 0 {
		return nil
	}
	left := j.Ranks
	for i := range h.avail[Long].above(0) {
		shares = append(shares, Share{i, h.nodes[i].free})
		left -= h.nodes[i].free
	}
	return append(shares, h.inTurn(left)...)
}

// fill gives nodes the ranks that they have room for, until all are given.
func fill(ranks int, avail maxima, nodes iter.Seq[int]) (shares []Share, left int) {
	for i := range nodes {
		if ranks == 0 {
			break
		}
		given := min(ranks, int(avail.of(i)))
		shares = append(shares, Share{i, given})
		ranks -= given
	}
	return shares, ranks
}

// inTurn gives ranks to all nodes that are up, from the node after the latest one on, one at a time.
func (h *Head) inTurn(ranks int) []Share {
	var nodes []int
	for at := h.cursor; len(nodes) < min(ranks, h.up); {
		at = h.avail[Long].inTurn(at, lowest) + 1
		nodes = append(nodes, at-1)
	}
	if len(nodes) > 0 {
		h.cursor = nodes[(ranks-1)%len(nodes)] + 1
	}
	return deal(ranks, nodes)
}

// deal gives ranks to nodes in turn, one at a time.
func deal(ranks int, nodes []int) (shares []Share) {
	for at, i := range nodes {
		given := ranks / len(nodes)
		if at < ranks%len(nodes) {
			given++
		}
		if given > 0 {
			shares = append(shares, Share{i, given})
		}
	}
	return shares
}
