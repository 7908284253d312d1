package sim

import (
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// jobOf needs the device of node small alone, for so many seconds.
func jobOf(seconds float64) string { return allocate("a", "6GiB") + kernel(8, seconds, "") + free("a") }

// Under the order by deadline each job of group 0 meets its deadline where fifo has two misses. The deadline of a job of a
// later group counts from its arrival.
func TestDeadlinesAreMet(t *testing.T) {
	for _, c := range []struct {
		queue string
		ends  []float64
		met   float64
	}{
		{"fifo", []float64{4, 7, 9, 10, 13}, 0.5},
		{"deadline", []float64{4, 10, 7, 5, 13}, 1},
	} {
		r := stepping(t, small(t, 1), "case-alg3:queue="+c.queue, jobOf(4), jobOf(3), jobOf(2), jobOf(1), jobOf(3))
		r.jobs[0].Deadline, r.jobs[2].Deadline, r.jobs[3].Deadline = 4*time.Second, 7*time.Second, 5*time.Second
		r.jobs[4].Deadline, r.jobs[4].Group = 3*time.Second, 1
		jobs, _ := r.must(t)
		for i, end := range c.ends {
			wantOutcome(t, jobs[i], results.OK, end)
		}
		if met := results.Compute(results.Run{}, nil, jobs, nil, results.Residence{}).DeadlinesMet; met == nil || *met != c.met {
			t.Errorf("queue=%s: deadlines met: %v, want %g", c.queue, met, c.met)
		}
	}
}

// The shortest first makes the mean turnaround 6.5 s where fifo has 7.5 s. Nothing is known of the last job.
func TestTheShortestFirstLowersTheMeanTurnaround(t *testing.T) {
	for _, scheduler := range []string{"case-alg3", "sa", "vgpu:n=1"} {
		for _, workers := range []int{0, 1, 2} {
			for queue, c := range map[string]struct {
				ends []float64
				mean float64
			}{
				"fifo": {[]float64{4, 7, 9, 10}, 7.5},
				"sjf":  {[]float64{9, 5, 2, 10}, 6.5},
			} {
				r := stepping(t, small(t, 1), policies.With(scheduler, "queue="+queue), jobOf(4), jobOf(3), jobOf(2), jobOf(1))
				r.workers = workers
				for _, seconds := range []int{4, 3, 2} {
					r.expected = append(r.expected, &schedulers.Prediction{Held: time.Duration(seconds) * time.Second})
				}
				r.expected = append(r.expected, nil)
				jobs, _ := r.must(t)
				for i, end := range c.ends {
					wantOutcome(t, jobs[i], results.OK, end)
				}
				if mean := results.Compute(results.Run{}, nil, jobs, nil, results.Residence{}).TurnaroundMeanS; mean == nil || *mean != c.mean {
					t.Errorf("%s: mean turnaround %v s, want %g", r.scheduler, mean, c.mean)
				}
			}
		}
	}
}
