package live

import (
	"fmt"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/policies"
)

// bind settles how the batch's jobs get their devices, and notes what the run's record must
// say about it.
func (n *node) bind() error {
	if n.Scheduler.Binds == policies.BindsTask {
		jobs, declared, err := BindPrograms(n.Mix.Jobs, n.programs, n.library != "")
		if err != nil {
			return harness.Refuse(harness.ToMeasure(err, ErrUnbindable, n.Options, n.Mix))
		}
		n.Mix.Jobs = jobs
		for _, d := range declared {
			n.notes = append(n.notes, results.Event{Kind: results.EventDeclared, Job: &d.Job, Detail: d.Why})
		}
	}
	for i, j := range n.Mix.Jobs {
		if j.Pin && (n.Scheduler.Binds == policies.BindsJob || j.Binding == mixes.BindDeclared) {
			n.notes = append(n.notes, results.Event{Kind: results.EventPinIgnored, Job: &i,
				Detail: "pin: true has no effect: the whole job is bound, and it sees that device only"})
		}
	}
	n.tell()
	return nil
}

// tell says each note once, with the jobs that it concerns.
func (n *node) tell() {
	const shown = 4
	var order []string
	jobs := map[string][]string{}
	for _, e := range n.notes {
		if _, seen := jobs[e.Detail]; !seen {
			order = append(order, e.Detail)
		}
		jobs[e.Detail] = append(jobs[e.Detail], fmt.Sprintf("%d (%s)", *e.Job, n.Mix.Jobs[*e.Job].Name))
	}
	for _, detail := range order {
		names := jobs[detail]
		more := ""
		if len(names) > shown {
			more = fmt.Sprintf(" and %d more", len(names)-shown)
		}
		n.Say("job %s%s: %s", strings.Join(names[:min(shown, len(names))], ", "), more, detail)
	}
}
