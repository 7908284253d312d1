package placement

// Both resources count half, each as a part of the largest node's, as in the paper that compares them (section 6.1).
var bestFit = Policy{
	Name:   "best-fit",
	Brief:  "the node with the least CPU and GPU left",
	Source: "Protean (OSDI 2020), as Weng et al., USENIX ATC 2023, compare it",
	score: func(c *Cluster, on *candidate) float64 {
		return part(float64(on.CPU-on.class.CPU), c.cpu) + part(float64(on.Room()-on.class.Demand()), c.gpus)
	},
}
