package harness

import (
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/policies"
)

// The user is told if the queue's order knows nothing of jobs.
func TestTheUserIsToldOfWhatAnOrderDoesNotKnow(t *testing.T) {
	plain, known := []mixes.Job{{}, {}}, &results.Known{}
	for _, c := range []struct {
		queue string
		jobs  []mixes.Job
		known []*results.Known
		want  string
	}{
		{"fifo", plain, nil, ""},
		{"sjf", plain, []*results.Known{known, known}, ""},
		{"sjf", plain, []*results.Known{known, nil}, "nothing is known of 1 of 2 jobs, so queue=sjf serves them last, by arrival: caserun history shows what is known"},
		{"deadline", []mixes.Job{{}, {Deadline: time.Second}}, nil, ""},
		{"deadline", plain, nil, "no job of m has a deadline, so queue=deadline serves them by arrival: write deadline: for jobs in the mix"},
		{"credits", []mixes.Job{{User: "ann"}, {}}, nil, ""},
		{"credits", plain, nil, "no job of m has a user, so queue=credits serves them by arrival: write user: for jobs in the mix"},
		{"credits", nil, nil, ""},
	} {
		s, err := policies.Parse("case-alg3:queue="+c.queue, 1)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		b := Batch{Request: Request{Mix: mixes.Mix{Name: "m", Jobs: c.jobs}, Say: func(format string, args ...any) { said += fmt.Sprintf(format, args...) }}, Scheduler: s}
		if b.sayOrder(c.known); said != c.want {
			t.Errorf("queue=%s: said %q, want %q", c.queue, said, c.want)
		}
	}
}
