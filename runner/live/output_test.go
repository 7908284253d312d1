package live

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// A job that writes without end is stopped and says so, on whichever of both it writes; its neighbour is not.
func TestOutputWithoutEnd(t *testing.T) {
	r := newRig(t, "zero").sh("yes").sh("yes >&2").sh("echo a few bytes")
	r.most = 1 << 20
	jobs, tape := r.mustRun()
	for _, j := range jobs[:2] {
		if *j.Outcome != results.Crash || !strings.HasPrefix(j.Detail, "it wrote ") || !strings.HasSuffix(j.Detail, " bytes to standard output and standard error, and --output-limit is 1MiB: it was stopped") {
			t.Errorf("job %d is %s: %s", j.Index, *j.Outcome, j.Detail)
		}
	}
	if *jobs[2].Outcome != results.OK {
		t.Errorf("the neighbour is %s: %s", *jobs[2].Outcome, jobs[2].Detail)
	}
	stopped := 0
	for _, e := range tape.events {
		if e.Kind == results.EventOutput {
			stopped++
		}
	}
	if stopped != 2 {
		t.Errorf("%d events of 2", stopped)
	}
}
