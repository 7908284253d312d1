package runner

import (
	"fmt"

	"github.com/caserun/caserun/results"
)

// outcome says how a job ended. What the probe reported goes before the exit
// status: programs that do not check CUDA calls exit 0 after an error.
func (j *job) outcome(e Exit) (results.Outcome, string) {
	switch {
	case e.NotStarted:
		return results.NotStarted, e.Err.Error()
	case j.stopped:
		return results.Cancelled, "stopped with the run"
	case j.timedOut:
		return results.Timeout, "it ran longer than its limit"
	case e.Err != nil:
		return results.Crash, e.Err.Error()
	case j.oom != "":
		return results.OOM, j.oom
	case len(j.faults) > 0:
		return results.Fault, j.ownFault().detail
	case j.refused != "":
		return results.Refused, j.refused
	case j.protocol != "":
		return results.Crash, j.protocol
	case e.Signal != nil:
		return results.Crash, "ended by " + *e.Signal
	case e.Wrong:
		return results.Wrong, "its output check failed"
	case e.Status != nil && *e.Status != 0:
		return results.Crash, fmt.Sprintf("exit status %d", *e.Status)
	}
	return results.OK, ""
}
