package placement

var fgd = Policy{
	Name:   "fgd",
	Brief:  "where fragmentation grows least: the GPU that the expected tasks can still use least",
	Source: "Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent, USENIX ATC 2023, algorithm 1",
	score: func(c *Cluster, on *candidate) float64 {
		after := on.after()
		return float64(c.fragmentation(&after) - on.fragmentation)
	},
}
