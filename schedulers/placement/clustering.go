package placement

import "math/bits"

// Nodes with tasks of the same kind alone come first, then nodes with such tasks and others, idle nodes, and nodes with other
// tasks. Within each the fullest node is first. Tasks without a GPU go to the first node with room.
var clustering = Policy{
	Name:   "clustering",
	Brief:  "nodes that have tasks with the same number of GPUs, or with shares as this one",
	Source: "Gandiva (OSDI 2018), as Weng et al., USENIX ATC 2023, compare it as GPU clustering",
	score: func(c *Cluster, on *candidate) float64 {
		if on.class.GPUs == 0 {
			return 0
		}
		rank := 3
		switch same := on.Kinds>>on.class.kind()&1 != 0; {
		case same && bits.OnesCount32(on.Kinds) == 1:
			rank = 0
		case same:
			rank = 1
		case on.Kinds == 0:
			rank = 2
		}
		return float64(rank)*MaxGPUs*Whole*2 + float64(on.Room())
	},
}
