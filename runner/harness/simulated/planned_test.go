package simulated

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// events keeps the kinds of a run's events. It implements runner.Recorder.
type events struct {
	watched
	kinds map[results.EventKind]int
}

func (e *events) Task(results.Task)     {}
func (e *events) Event(r results.Event) { e.kinds[r.Kind]++ }

// batch runs jobs on the node under a scheduler. expect changes what is expected of them.
func batch(t *testing.T, node sim.Node, capacity int64, sched string, jobs []mixes.Job, seed uint64, workers int, expect func([]*schedulers.Prediction)) ([]results.Job, map[results.EventKind]int) {
	t.Helper()
	known := profiles.Catalog()
	s, err := policies.Parse(sched, node.Count)
	if err != nil {
		t.Fatal(err)
	}
	predictions := make([]*schedulers.Prediction, len(jobs))
	for i, j := range jobs {
		e, _, err := alone(node, j, known)
		if err != nil {
			t.Fatal(err)
		}
		predictions[i] = history.ForScheduler([]*results.Known{{Expected: e}})[0]
	}
	if expect != nil {
		expect(predictions)
	}
	seen := &events{kinds: map[results.EventKind]int{}}
	x, err := sim.NewExecutor(sim.Config{Node: node, Jobs: jobs, MPS: true, Profiles: known, Seed: seed}, seen)
	if err != nil {
		t.Fatal(err)
	}
	devices := node.Devices(true)
	for i := range devices {
		devices[i].CapacityBytes = min(devices[i].CapacityBytes, capacity)
	}
	out, err := runner.Run(t.Context(), runner.Config{Jobs: jobs, Devices: devices, Scheduler: s, Workers: workers, MPS: true,
		Predictions: predictions, Cores: node.Cores(), Seed: seed}, x, seen)
	if err != nil {
		t.Fatalf("%s: %v", sched, err)
	}
	return out, seen.kinds
}

func ends(jobs []results.Job) (makespan, turnaround float64) {
	for _, j := range jobs {
		makespan, turnaround = max(makespan, *j.EndS), turnaround+*j.EndS-*j.ArrivalS
	}
	return makespan, turnaround / float64(len(jobs))
}

// The evaluation of plan on simulated nodes. Its bounds are those that the scheduler was built for.
func TestPlanAgainstAlg3(t *testing.T) {
	h200, err := sim.ParseNode("sim:4xH200")
	if err != nil {
		t.Fatal(err)
	}
	v100, err := sim.ParseNode("sim:4xV100")
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]struct {
		node     sim.Node
		capacity int64
	}{"4xV100": {v100, math.MaxInt64}, "4xH200 of 16 GiB": {h200, 16<<30 - runner.ServerBytes}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			throughput, turnaround := 0.0, 0.0
			for w := 1; w <= 8; w++ {
				m, err := mixes.Lookup(fmt.Sprint("W", w))
				if err != nil {
					t.Fatal(err)
				}
				alg3, _ := batch(t, n.node, n.capacity, "case-alg3", m.Jobs, 2, 0, nil)
				plan, _ := batch(t, n.node, n.capacity, "plan", m.Jobs, 2, 0, nil)
				last, mean := ends(alg3)
				lastP, meanP := ends(plan)
				t.Logf("%s, %s: makespan %.2f s, Algorithm 3 %.2f; mean turnaround %.2f s, Algorithm 3 %.2f (simulated)", m.Name, name, lastP, last, meanP, mean)
				if last/lastP < 0.999 {
					t.Errorf("%s on %s: %.3f times Algorithm 3's throughput, want 1 or more", m.Name, name, last/lastP)
				}
				throughput += math.Log(last/lastP) / 8
				turnaround += math.Log(mean/meanP) / 8
			}
			if x, y := math.Exp(throughput), math.Exp(turnaround); x < 1.12 || y < 1 {
				t.Errorf("%s: %.3f times the throughput and %.3f times better turnaround than Algorithm 3 in the geometric mean; want 1.12 and 1", name, x, y)
			}
		})
	}
}

// Where a third of the jobs are unknown there is a plan, beyond that there is none, and the run says so.
func TestUnknownJobs(t *testing.T) {
	v100, err := sim.ParseNode("sim:4xV100")
	if err != nil {
		t.Fatal(err)
	}
	m, err := mixes.Lookup("W2")
	if err != nil {
		t.Fatal(err)
	}
	forget := func(n int) func([]*schedulers.Prediction) { return func(p []*schedulers.Prediction) { clear(p[:n]) } }
	for unknown, want := range map[int]int{0: 0, 5: 0, 6: 1, 16: 1} {
		jobs, kinds := batch(t, v100, math.MaxInt64, "plan", m.Jobs, 1, 0, forget(unknown))
		if kinds[results.EventUnplanned] != want {
			t.Errorf("%d of 16 jobs unknown: %d events say that nothing is planned, want %d", unknown, kinds[results.EventUnplanned], want)
		}
		for _, j := range jobs {
			if *j.Outcome != results.OK {
				t.Errorf("%d jobs unknown: %s is %s", unknown, j.Name, *j.Outcome)
			}
		}
	}
}

// Whatever is expected and whoever dies, all jobs end, and nobody is refused whom Algorithm 3 would not refuse.
func TestPlansThatAreWrong(t *testing.T) {
	node, err := sim.ParseNode("sim:2xV100")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, err := mixes.Generate(4+r.IntN(20), mixes.Ratio{Large: 1 + r.IntN(5), Small: 1}, seed)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.Jobs {
			if r.IntN(4) == 0 { // it is killed, in whatever state
				m.Jobs[i].Timeout = time.Duration(1 + r.Int64N(int64(60*time.Second)))
			}
			if r.IntN(8) == 0 { // it is bound as a whole
				m.Jobs[i].Binding = mixes.BindDeclared
			}
		}
		wrong := func(all []*schedulers.Prediction) {
			for _, p := range all {
				wild := func(d time.Duration) time.Duration { return time.Duration(float64(d) * math.Exp(2*r.NormFloat64())) }
				p.Before, p.Held, p.After = wild(p.Before), wild(p.Held), wild(p.After)
				p.Bytes = int64(float64(p.Bytes) * math.Exp(r.NormFloat64()))
			}
		}
		workers := []int{0, 3}[r.IntN(2)]
		jobs, _ := batch(t, node, math.MaxInt64, "plan:search=50", m.Jobs, seed, workers, wrong)
		alg3, _ := batch(t, node, math.MaxInt64, "case-alg3", m.Jobs, seed, workers, nil)
		for i, j := range jobs {
			killed := m.Jobs[i].Timeout > 0
			if *j.Outcome != *alg3[i].Outcome && !(killed && (*j.Outcome == results.OK || *j.Outcome == results.Timeout)) {
				t.Errorf("seed %d: %s is %s (%s), under Algorithm 3 %s", seed, j.Name, *j.Outcome, j.Detail, *alg3[i].Outcome)
			}
		}
	}
}
