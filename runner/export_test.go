package runner

import "github.com/caserun/caserun/schedulers"

// State is the accounting of the batch's devices, for tests.
func (b *Batch) State() *schedulers.State { return b.engine.State() }
