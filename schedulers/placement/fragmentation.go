package placement

// Fragmentation is what a task that is drawn from the target workload M cannot use of the free GPUs, as the mean over its tasks, in
// thousandths of a GPU: F of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
// Descent", USENIX ATC 2023, section 3. The sum over all nodes n is of F_n(M) = Σ p_m F_n(m). F_n(m) is all that is free on n, if
// task m does not fit there or wants no GPU; else it is what is free of GPUs with less than the task's share free. Here a node
// must also have the task's host memory.
func (c *Cluster) Fragmentation() float64 {
	return float64(c.fragmented) / float64(max(c.tasks, 1))
}

// fragmentation is F_n(M) times the number of tasks in M, which is a whole number.
func (c *Cluster) fragmentation(s *State) (sum int64) {
	room := s.Room()
	if room == 0 {
		return 0
	}
	for _, m := range c.target {
		first, fits := m.first(s)
		if !fits || m.GPUs == 0 {
			sum += m.count * room
			continue
		}
		for _, free := range s.Free[:first] {
			sum += m.count * int64(free)
		}
	}
	return sum
}
