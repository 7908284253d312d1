package report

import (
	"fmt"
	"reflect"
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

// Jobs that were cancelled for one reason have one note.
func TestCancelledJobsHaveOneNote(t *testing.T) {
	job := func(i int, o results.Outcome, detail string) results.Job {
		return results.Job{Index: i, Name: "a", Outcome: &o, Detail: detail}
	}
	notes, more := failures([]results.Job{job(0, results.Cancelled, "SIGINT"), job(1, results.OOM, "8 GiB"), job(2, results.Cancelled, "SIGINT"), job(3, results.OOM, "8 GiB")}, false, 2)
	if want := []Note{{Text: "2 jobs, the first of them job 0 (a): cancelled: SIGINT"}, {Text: "job 1 (a): oom: 8 GiB"}}; !reflect.DeepEqual(notes, want) || more != 1 {
		t.Errorf("%q and %d more, want %q and 1", notes, more, want)
	}
}
