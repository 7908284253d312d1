package placement

import (
	"fmt"
	"slices"
)

// Policy chooses among the places with room for a task.
type Policy struct {
	Name, Brief, Source string
	draws               bool // one of equal nodes; else the first is taken
	// score is what a place costs: the least is taken, and of equal GPUs the one with least free. It depends on the candidate alone.
	score func(*Cluster, *candidate) float64
}

// candidate is a place for a task: GPUs of a node from at on, in the order of State.Free.
type candidate struct {
	class *class
	*known
	*State
	at int
}

// after is the state of the node with the task on it.
func (c *candidate) after() State { return c.class.take(*c.State, c.at) }

// part is a quotient, 0 of nothing.
func part(of, all float64) float64 {
	if all == 0 {
		return 0
	}
	return of / all
}

// Policies are all policies, in the order in which they are shown.
func Policies() []Policy {
	return []Policy{fgd, bestFit, dotProduct, packing, clustering, randomFit}
}

// Names are the policies' names.
func Names() (names []string) {
	for _, p := range Policies() {
		names = append(names, p.Name)
	}
	return names
}

// Named finds a policy.
func Named(name string) (Policy, error) {
	all := Policies()
	i := slices.IndexFunc(all, func(p Policy) bool { return p.Name == name })
	if i < 0 {
		return Policy{}, fmt.Errorf("unknown placement policy %q", name)
	}
	return all[i], nil
}
