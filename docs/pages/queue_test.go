package pages

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/policies"
)

var queuePage = page{"docs/reference/statistics.md", []table{{"mm1", func() string { return queueTable(queueFull) }}}}

// queueRuns is how often the queue is simulated, with how many jobs each time. Of a higher load more jobs are needed, because
// its backlog changes slowly.
type queueRuns struct {
	loads       []float64
	jobs        func(load float64) int
	repetitions int
	t           float64 // 97.5 % quantile of Student's t with repetitions - 1 degrees of freedom
}

var (
	queueFull = queueRuns{[]float64{0.3, 0.5, 0.7, 0.8, 0.9, 0.95}, func(load float64) int { return max(2000, int(math.Round(100/(1-load)/(1-load)))) }, 20, 2.093}
	queueGate = queueRuns{[]float64{0.5}, func(float64) int { return 400 }, 20, 2.093}
)

// queueRow is a load with what M/M/1 says of the time in the system, and what the repetitions say.
type queueRow struct {
	load                  float64
	jobs                  int
	meanWant, p95Want     float64
	mean, p95             float64
	meanWithin, p95Within float64 // half of the interval
}

func (r queueRow) agrees() bool {
	return math.Abs(r.mean-r.meanWant) <= r.meanWithin && math.Abs(r.p95-r.p95Want) <= r.p95Within
}

// queue simulates jobs of 1 s in the mean that arrive at these loads on one device under sa.
func (q queueRuns) queue() (rows []queueRow) {
	node := must(sim.ParseNode("sim:1xH200"))
	for _, load := range q.loads {
		m := mixes.Mix{Name: "mm1", Arrivals: &mixes.Arrivals{Poisson: fmt.Sprintf("%g/s", load)}}
		served := mixes.Job{Name: "served", Profile: &mixes.Profile{Exponential: true, Phases: []mixes.Phase{{Kernel: time.Second}}}}
		for range q.jobs(load) {
			m.Jobs = append(m.Jobs, served)
		}
		var means, p95s []float64
		for repetition := range q.repetitions {
			seed := uint64(repetition + 1)
			scheduler := must(policies.Parse("sa", 1))
			arriving := must(m.Arriving(seed))
			x := must(sim.NewExecutor(sim.Config{Node: node, Jobs: arriving.Jobs, Profiles: profiles.Catalog(), Seed: seed}, runner.Forgetful{}))
			jobs := must(runner.Run(context.Background(), runner.Config{Jobs: arriving.Jobs, Devices: node.Devices(false), Scheduler: scheduler, Seed: seed}, x, runner.Forgetful{}))
			figures := results.Compute(results.Run{Mode: results.Simulated, Jobs: len(jobs)}, nil, jobs, nil, results.Residence{})
			means, p95s = append(means, *figures.TurnaroundMeanS), append(p95s, *figures.TurnaroundP95S)
		}
		r := queueRow{load: load, jobs: len(m.Jobs), meanWant: 1 / (1 - load), p95Want: math.Log(20) / (1 - load)}
		r.mean, r.meanWithin = q.interval(means)
		r.p95, r.p95Within = q.interval(p95s)
		rows = append(rows, r)
	}
	return rows
}

// interval is the mean of values and half of its 95 % interval by Student's t.
func (q queueRuns) interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, q.t * math.Sqrt(squares/(n-1)/n)
}

func queueTable(q queueRuns) string {
	rows := [][]string{{"load λ ÷ μ", "jobs of a run", "mean, s: M/M/1", "20 runs", "p95, s: M/M/1", "20 runs"}}
	for _, r := range q.queue() {
		rows = append(rows, []string{fmt.Sprintf("%g", r.load), fmt.Sprint(r.jobs), fmt.Sprintf("%.2f", r.meanWant), fmt.Sprintf("%.2f ± %.2f", r.mean, r.meanWithin),
			fmt.Sprintf("%.2f", r.p95Want), fmt.Sprintf("%.2f ± %.2f", r.p95, r.p95Within)})
	}
	return markdown(rows)
}

// checkQueue holds simulated runs to the queue M/M/1.
func checkQueue(t *testing.T, q queueRuns) {
	t.Helper()
	for _, r := range of(t, q.queue) {
		if !r.agrees() {
			t.Errorf("load %g: mean %.3f ± %.3f s, M/M/1 %.3f s; p95 %.3f ± %.3f s, M/M/1 %.3f s", r.load, r.mean, r.meanWithin, r.meanWant, r.p95, r.p95Within, r.p95Want)
		}
	}
}

// One device that serves jobs of exponential length one at a time is the queue M/M/1.
func TestOneDeviceIsAQueue(t *testing.T) { checkQueue(t, queueGate) }
