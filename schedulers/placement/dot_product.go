package placement

// Tetris takes the largest product. Weng et al. take the smallest, which packs; so does this.
var dotProduct = Policy{
	Name:   "dot-product",
	Brief:  "the node with the least product of what it has left and what the task asks for",
	Source: "Grandl et al., Multi-Resource Packing for Cluster Schedulers (Tetris), SIGCOMM 2014, as Weng et al., USENIX ATC 2023, compare it",
	score: func(c *Cluster, on *candidate) float64 {
		return part(float64(on.CPU), c.cpu)*part(float64(on.class.CPU), c.cpu) +
			part(float64(on.Room()), c.gpus)*part(float64(on.class.Demand()), c.gpus)
	},
}
