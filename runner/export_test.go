package runner

import "github.com/caserun/caserun/schedulers"

// View is the accounting of the batch's devices, for tests.
func (b *Batch) View() schedulers.View { return b.engine.View() }
