package cluster

// Assigner is a program of the user's that decides which nodes a job gets (runner/external).
type Assigner interface {
	// Assign returns how many ranks of a job each node gets; nil: the job waits. latest is the last node that the latest job got; -1: there
	// was none. A node occurs once, is open, and gets a rank at least. The ranks are all that the job has.
	Assign(j Job, nodes []NodeView, latest int) []Share
	// Err is why the program can decide no more; nil: it can. It then assigns nothing.
	Err() error
}

// NodeView is a node as a program sees it.
type NodeView struct {
	Devices, Weight, Cores int  // as in Node
	Assigned, Waiting      int  // ranks
	Open                   bool // the job may go there
}

// placeByProgram asks the program, if a node is open to the job.
func placeByProgram(h *Head, j *job) []Share {
	views, open := make([]NodeView, len(h.nodes)), false
	for _, n := range h.nodes {
		views[n.given] = NodeView{Devices: n.Devices, Weight: n.weight, Cores: n.Cores, Assigned: n.assigned, Waiting: min(n.waiting, n.assigned),
			Open: n.up && (!j.Whole || n.Devices >= j.Ranks)}
		open = open || views[n.given].Open
	}
	if !open {
		return nil
	}
	shares := h.policy.by.Assign(j.Job, views, h.latest)
	if len(shares) > 0 {
		h.latest = shares[len(shares)-1].Node
	}
	for i, s := range shares {
		shares[i].Node = h.places[s.Node]
	}
	return shares
}

// Err is why the policy's program can decide no more. The head then decides nothing.
func (h *Head) Err() error {
	if h.policy.by == nil {
		return nil
	}
	return h.policy.by.Err()
}

// isNever reports whether a job that the program gives no nodes now would wait for ever, because nothing else will change.
func (h *Head) isNever() bool {
	if h.policy.program == nil || h.Err() != nil || h.up < len(h.nodes) {
		return false
	}
	for _, n := range h.nodes {
		if n.assigned > 0 {
			return false
		}
	}
	return true
}
