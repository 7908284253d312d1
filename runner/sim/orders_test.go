package sim

import (
	"math"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
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

// Two users with credits 2:1, who always have jobs that wait, get device time 2:1 within one job's length on each
// device, however long their jobs are, and in whatever order they come.
func TestUsersGetDeviceTimeByTheirCredits(t *testing.T) {
	const anns, bobs = 3.0, 1.0 // seconds of each job
	for _, c := range []struct {
		scheduler        string
		devices, workers int
		bobFirst         bool
	}{
		{"case-alg3", 1, 0, false}, {"case-alg3", 1, 2, false}, {"case-alg3", 1, 2, true}, {"case-alg3", 2, 0, true}, {"case-alg3", 2, 3, false}, {"case-alg3", 4, 16, true},
		{"sa", 1, 0, true}, {"sa", 2, 0, false}, {"vgpu:n=1", 1, 4, false},
	} {
		var steps []string
		var jobs []mixes.Job
		add := func(user string, credits, count int, seconds float64) {
			for range count {
				steps = append(steps, jobOf(seconds))
				jobs = append(jobs, mixes.Job{User: user, Credits: credits})
			}
		}
		if c.bobFirst {
			add("bob", 0, 24, bobs)
		}
		add("ann", 2, 16, anns)
		if !c.bobFirst {
			add("bob", 0, 24, bobs)
		}
		r := stepping(t, small(t, c.devices), policies.With(c.scheduler, "queue=credits,age-limit=0"), steps...)
		r.workers = c.workers
		for i, j := range jobs {
			r.jobs[i].User, r.jobs[i].Credits = j.User, j.Credits
		}
		ended, _ := r.must(t)
		spent := func(user string, until float64) (seconds float64) {
			for i, j := range ended {
				if length := map[string]float64{"ann": anns, "bob": bobs}; jobs[i].User == user {
					seconds += max(0, min(until, *j.EndS)-(*j.EndS-length[user]))
				}
			}
			return seconds
		}
		total := 24 * bobs * 3 / float64(c.devices)
		for at := 0.5; at < total-anns; at += 0.5 {
			if ann, bob := spent("ann", at), spent("bob", at); math.Abs(ann/2-bob) > (anns/2+bobs/2)*float64(c.devices) {
				t.Errorf("%+v: at %g s ann had a device for %g s, and bob for %g s", c, at, ann, bob)
				break
			}
		}
	}
}
