package report

import (
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// The table has a column for a key that a job has.
func TestMixJobsHasColumnsOfKeys(t *testing.T) {
	m := mixes.Mix{Name: "m", Jobs: []mixes.Job{{Name: "plain"}, {Name: "own", Share: 0.3, Deadline: time.Minute, User: "ann", Credits: 2}}}
	out := render(t, MixJobs(m), CSV, Options{})
	for _, want := range []string{"group,faults,share,deadline_s,user,credits\n", ",,,,\n", ",0.3,60,ann,2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %q", out, want)
		}
	}
}

// A list of runs names the parameters that tell schedulers of one name apart.
func TestRunListTellsSchedulersApart(t *testing.T) {
	run := func(id int64, parameters string) results.Run {
		return results.Run{ID: id, Mix: "m", Scheduler: "case-alg3", Parameters: parameters, Node: "sim:1xV100", Mode: results.Simulated}
	}
	runs := []results.Run{run(1, "age-limit=64,queue=fifo"), run(2, "age-limit=64,queue=deadline"), run(3, "age-limit=64,queue=fifo")}
	if text := render(t, RunList(runs), Text, Options{}); strings.Count(text, " case-alg3:queue=fifo ") != 2 || strings.Count(text, " case-alg3:queue=deadline ") != 1 {
		t.Errorf("%s", text)
	}
	if text := render(t, RunList(runs[:1]), Text, Options{}); strings.Contains(text, "queue") {
		t.Errorf("%s", text)
	}
}
