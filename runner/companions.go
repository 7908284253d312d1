package runner

// countOther counts the jobs that companions wait for.
func (b *Batch) countOther(i, by int) {
	if !b.spec(i).UntilOthersEnd {
		b.others += by
	}
}

// endCompanions stops the companions that run, if no other job of their group is left. One that starts later is stopped then.
func (b *Batch) endCompanions() {
	if b.others > 0 || b.arrived < b.grouped || b.open && !b.alone || b.cancelled {
		return
	}
	for i := range b.records {
		if j := b.jobs[i]; j.isCompanion() {
			j.over = true
			b.stopJob(i)
		}
	}
}

// isCompanion reports whether the job is a companion that runs, and has not been told to end.
func (j *job) isCompanion() bool {
	return j != nil && j.spec.UntilOthersEnd && j.record.StartS != nil && j.exited == nil && !j.over && !j.timedOut
}
