package runner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

func held(seconds int) *schedulers.Prediction {
	return &schedulers.Prediction{Held: time.Duration(seconds) * time.Second, After: time.Second}
}

// Under the order by length the shortest job is admitted next, one of which nothing is known last. Jobs that are given take
// their place among the others.
func TestTheShortestJobIsAdmittedNext(t *testing.T) {
	jobs, _ := setup{scheduler: "case-alg3:queue=sjf", jobs: probed(4), workers: 1, open: true,
		expected: []*schedulers.Prediction{nil, held(9), held(3), held(3)}}.run(t, func(f *fake) {
		f.want("start 2")
		f.started(2)
		for _, p := range []*schedulers.Prediction{held(4), nil} {
			if err := f.given(runner.Given{Job: probed(1)[0], Expected: p}); err != nil {
				t.Fatal(err)
			}
		}
		f.noMore()
		last := 2
		for _, next := range []int{3, 4, 1, 0, 5} {
			f.ended(last)
			f.want(fmt.Sprint("start ", next))
			f.started(next)
			last = next
		}
		f.ended(last)
	})
	wantOutcomes(t, jobs, results.OK, results.OK, results.OK, results.OK, results.OK, results.OK)
}

// What a job is expected to take is its time with a device; of a job that is bound before its start, all of its time.
func TestAWholeJobIsExpectedToTakeAllItsTime(t *testing.T) {
	expected := []*schedulers.Prediction{held(1), {Before: 9 * time.Second, Held: 2 * time.Second}, {Held: 3 * time.Second}}
	for scheduler, order := range map[string][]string{"case-alg3:queue=sjf": {"start 0", "start 1", "start 2"}, "sa:queue=sjf": {"start 0@0", "start 2@0", "start 1@0"}} {
		setup{scheduler: scheduler, jobs: probed(3), workers: 1, expected: expected}.run(t, func(f *fake) {
			for _, want := range order {
				f.want(want)
				job := int(want[len("start ")] - '0')
				f.started(job)
				f.ended(job)
			}
		})
	}
}

// The earliest deadline is admitted next.
func TestTheEarliestDeadlineIsAdmittedNext(t *testing.T) {
	jobs := probed(4)
	jobs[1].Deadline, jobs[2].Deadline, jobs[3].Deadline = 9*time.Second, 5*time.Second, 9*time.Second
	setup{scheduler: "case-alg3:queue=deadline", jobs: jobs, workers: 1}.run(t, func(f *fake) {
		for _, job := range []int{2, 1, 3, 0} {
			f.want(fmt.Sprint("start ", job))
			f.started(job)
			f.ended(job)
		}
	})
}
