package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// A summary names the first jobs that did not end ok, and counts the others.
func TestSummaryOfManyFailures(t *testing.T) {
	cancelled := results.Cancelled
	jobs := make([]results.Job, 3*mostFailures)
	for i := range jobs {
		jobs[i] = results.Job{Index: i, Name: "x", Outcome: &cancelled}
	}
	summary := func(jobs []results.Job) (named int, last string) {
		notes := RunSummary(results.Run{ID: 7}, jobs, nil, "s.db").Notes
		for _, n := range notes {
			if strings.HasPrefix(n.Text, "job ") {
				named++
			}
		}
		return named, notes[len(notes)-1].Text
	}
	want := fmt.Sprintf("%d more jobs did not end ok: caserun report 7 -v has them.", 2*mostFailures)
	if named, last := summary(jobs); named != mostFailures || last != want {
		t.Errorf("%d jobs are named, and last comes %q", named, last)
	}
	if named, last := summary(jobs[:mostFailures]); named != mostFailures || !strings.HasPrefix(last, "job ") {
		t.Errorf("%d jobs are named, and last comes %q", named, last)
	}
}
