package mixes

// Apart returns the mix with each portion of a job as a job of its own, in the place of the whole job, and says of which job of m each
// of its jobs is. Without portions it returns m and nil.
func (m Mix) Apart() (Mix, []int) {
	apart, of, portions := m, []int(nil), false
	for i := range m.Jobs {
		portions = portions || m.Jobs[i].Portions > 0
	}
	if !portions {
		return m, nil
	}
	apart.Jobs, apart.Lines = nil, nil
	for i, j := range m.Jobs {
		for portion := range max(j.Portions, 1) {
			if j.Portions > 0 {
				j.Portion = portion + 1
			}
			apart.Jobs, of = append(apart.Jobs, j), append(of, i)
			if i < len(m.Lines) {
				apart.Lines = append(apart.Lines, m.Lines[i])
			}
		}
	}
	return apart, of
}

// Whole returns the job of which j is a portion, or else j.
func (j Job) Whole() Job {
	j.Portion = 0
	return j
}

// Startable is how many jobs and portions the mix has, each of which may run at once with the others.
func (m Mix) Startable() (n int) {
	for i := range m.Jobs {
		n += max(m.Jobs[i].Portions, 1)
	}
	return n
}
