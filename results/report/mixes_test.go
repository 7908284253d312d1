package report

import (
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
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
