package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// A job has its level by its length until its first grant, and the first level from then on. A job that
// has its device before it starts is never nice.
func TestHostPriorities(t *testing.T) {
	s := setup{scheduler: "case-alg3:nice=on", jobs: append(probed(2), declared(2)), cores: 2,
		expected: []*schedulers.Prediction{{Before: 9 * time.Second}, {Before: time.Second}, nil}}
	s.run(t, func(f *fake) {
		f.want("start 0", "nice 0 10", "start 1", "nice 1 1", "start 2@0")
		f.started(0, 1, 2)
		first := f.begin(0, 10)
		f.want("answer 1@0", "nice 0 0")
		f.batch.TaskFree(first, f.now)
		f.begin(0, 10)
		f.want("answer 2@0")
		f.begin(1, 10)
		f.want()
		f.ended(0)
		f.want("answer 3@0", "nice 1 0")
		f.ended(1, 2)
		f.want()
	})
}

// No priorities are given where they are not wanted, where each job has a core, and where nobody has the
// right to give them, which the run says.
func TestNoHostPriorities(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*setup)
		says   int
	}{
		{"not wanted", func(s *setup) { s.scheduler = "case-alg3" }, 0},
		{"an ablation", func(s *setup) { s.scheduler = "plan:nice=off" }, 0},
		{"a core for each job", func(s *setup) { s.cores = 3 }, 0},
		{"a core for each worker", func(s *setup) { s.workers = 2 }, 0},
		{"an unknown number of cores", func(s *setup) { s.cores = 0 }, 0},
		{"no right", func(s *setup) { s.unable = errors.New("this user may not") }, 1},
	} {
		s := setup{scheduler: "case-alg3:nice=on", jobs: probed(3), cores: 2, expected: make([]*schedulers.Prediction, 3)}
		c.change(&s)
		_, rec := s.run(t, func(f *fake) {
			for j := range s.jobs {
				f.started(j)
				f.ended(j)
			}
			if i := slices.IndexFunc(f.calls, func(call string) bool { return strings.HasPrefix(call, "nice") }); i >= 0 {
				t.Errorf("%s: %q", c.name, f.calls[i])
			}
		})
		says := 0
		for _, e := range rec.events {
			if e.Kind == results.EventNiceLeft && strings.Contains(e.Detail, "this user may not") {
				says++
			}
		}
		if says != c.says {
			t.Errorf("%s: %d events say that priorities are left alone, want %d", c.name, says, c.says)
		}
	}
}

// An arm of plan that knows nothing of the jobs does not know their lengths either.
func TestHostPrioritiesWithoutLearning(t *testing.T) {
	s := setup{scheduler: "plan:learn=off", jobs: []mixes.Job{probed(1)[0], probed(1)[0]}, cores: 1,
		expected: []*schedulers.Prediction{{Before: 9 * time.Second}, {Before: time.Second}}}
	s.run(t, func(f *fake) {
		f.want("start 0", "nice 0 10", "start 1", "nice 1 10")
		f.started(0, 1)
		f.ended(0, 1)
	})
}

var _ runner.Prioritizer = (*fake)(nil)
