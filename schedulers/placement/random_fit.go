package placement

var randomFit = Policy{
	Name:   "random-fit",
	Brief:  "any node and any of its GPUs with room",
	Source: "the baseline of Weng et al., USENIX ATC 2023",
	draws:  true,
	score:  func(*Cluster, *candidate) float64 { return 0 },
}
