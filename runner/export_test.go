package runner

import "github.com/caserun/caserun/schedulers"

// View is the accounting of the batch's devices, for tests.
func (l *Loop) View() schedulers.View { return l.batch.engine.View() }
