package placement

// Tasks without a GPU go to the first node with room.
var packing = Policy{
	Name:   "packing",
	Brief:  "GPUs in use first, then idle GPUs of nodes in use, then idle nodes",
	Source: "MLaaS in the Wild (NSDI 2022), as Weng et al., USENIX ATC 2023, compare it as GPU packing",
	score: func(_ *Cluster, on *candidate) float64 {
		if on.class.GPUs == 0 {
			return 0
		}
		if on.Free[0] == Whole { // the node is idle: small ones first
			return 2*MaxGPUs*Whole + float64(on.GPUs)
		}
		idle, left := 0, 0
		for _, free := range on.Free[on.at:][:on.class.GPUs] {
			left += int(free)
			if free == Whole {
				idle++
			}
		}
		if idle > 0 { // as few as can be
			return MaxGPUs*Whole + float64(idle)
		}
		return float64(left) // the fullest
	},
}
