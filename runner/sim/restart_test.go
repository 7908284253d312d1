package sim

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// Two jobs that grow from 4 to 8 GiB share 10 GiB. The second starts again, does all of its steps, and asks at once for what it had
// and had asked for.
func TestASimulatedJobStartsAgain(t *testing.T) {
	steps := strings.Join([]string{allocate("a", "4GiB"), kernel(8, 1, ""), allocate("b", "4GiB"), kernel(8, 1, "")}, "\n")
	r := stepping(t, small(t, 1), "case-alg3", steps, steps)
	jobs, _ := r.must(t)
	if *jobs[0].Outcome != results.OK || *jobs[1].Outcome != results.OOM {
		t.Fatalf("%s and %s", *jobs[0].Outcome, *jobs[1].Outcome)
	}
	for i := range r.jobs {
		r.jobs[i].Restartable = new(true)
	}
	jobs, rec := r.must(t)
	first, again := jobs[0], jobs[1]
	if *first.Outcome != results.OK || first.Restarts != nil || *again.Outcome != results.OK || *again.Restarts != 1 || *again.EndS-*first.EndS < 2 {
		t.Errorf("%+v\n%+v", first, again)
	}
	last := rec.Tasks[len(rec.Tasks)-1]
	if last.Job != 1 || last.Seq != 1 || last.Bytes != 8*gib || last.GrownBytes != 0 {
		t.Errorf("the last task is %+v", last)
	}
}
