package slurmsweep

import (
	"context"
	"maps"
	"slices"

	"github.com/caserun/caserun/runner/slurm"
)

// moves says which tasks have left their nodes, and what has become of these nodes.
type moves struct {
	known map[string]slurm.Task // by job, as they were last
	left  map[string]string     // nodes that tasks have left, and as what each was said to be gone; empty: as nothing
	say   func(format string, args ...any)
}

// follow gets the tasks each time. A controller that was killed may have a task leave a node that is well, and
// may not count that as a restart. It may also have forgotten a task on a node that is lost, and find later that the
// node is down. So nodes are asked about until a task runs on them again.
func (m moves) follow(ctx context.Context, tasks []slurm.Task) {
	var moved []slurm.Task // as they were
	for _, t := range tasks {
		was := m.known[t.Job]
		if !t.Ended() && was.Nodes != "" && (t.Nodes != was.Nodes || t.Restarts > was.Restarts) {
			moved = append(moved, was)
			if _, ok := m.left[was.Nodes]; !ok {
				m.left[was.Nodes] = ""
			}
		}
		m.known[t.Job] = t
	}
	if len(m.left) == 0 {
		return
	}
	// Where the states cannot be had, that tasks have moved is said all the same.
	states, _ := slurm.NodeStates(ctx, slices.Sorted(maps.Keys(m.left))...)
	for _, t := range moved {
		if state := states[t.Nodes]; slurm.Gone(state) {
			m.say("task %d is started again: %s, where it ran, is %s", t.Number, t.Nodes, state)
			m.left[t.Nodes] = state
		} else {
			m.say("task %d is started again: it ran on %s", t.Number, t.Nodes)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(m.left)) {
		if state := states[node]; slurm.Gone(state) && state != m.left[node] {
			m.say("%s, which tasks have left, is %s", node, state)
			m.left[node] = state
		}
	}
	for _, t := range tasks {
		if t.State == "RUNNING" && !slurm.Gone(states[t.Nodes]) {
			delete(m.left, t.Nodes)
		}
	}
}
