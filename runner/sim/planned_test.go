package sim

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// events keeps the kinds of a run's events.
type events struct {
	watched
	kinds map[results.EventKind]int
}

func (e *events) Task(results.Task)     {}
func (e *events) Event(r results.Event) { e.kinds[r.Kind]++ }

// batch runs jobs on the node under a scheduler. expect changes what is expected of them.
func batch(t *testing.T, node Node, sched string, jobs []mixes.Job, seed uint64, workers int, expect func([]*schedulers.Prediction)) ([]results.Job, map[results.EventKind]int) {
	t.Helper()
	return batchOf(t, node, profiles.Catalog(), sched, jobs, seed, workers, expect)
}

// batchOf is batch with other profiles than the catalog's.
func batchOf(t *testing.T, node Node, known profiles.Set, sched string, jobs []mixes.Job, seed uint64, workers int, expect func([]*schedulers.Prediction)) ([]results.Job, map[results.EventKind]int) {
	t.Helper()
	s, err := policies.Parse(sched, node.Count())
	if err != nil {
		t.Fatal(err)
	}
	predictions := make([]*schedulers.Prediction, len(jobs))
	for i, j := range jobs {
		e, _, err := alone(node, node.Groups[0].Model, j, known)
		if err != nil {
			t.Fatal(err)
		}
		predictions[i] = history.ForScheduler([]*results.Known{{Expected: e}})[0]
	}
	if expect != nil {
		expect(predictions)
	}
	seen := &events{kinds: map[results.EventKind]int{}}
	x, err := NewExecutor(Config{Node: node, Jobs: jobs, MPS: true, Profiles: known, Seed: seed}, seen)
	if err != nil {
		t.Fatal(err)
	}
	devices := node.Devices(true)
	out, err := runner.Run(t.Context(), runner.Config{Jobs: jobs, Devices: devices, Scheduler: s, Workers: workers, MPS: true,
		Predictions: predictions, Cores: node.Host.Cores, Seed: seed}, x, seen)
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

// Large batches, drawn once, with the host's cores outnumbered: all jobs start at once, and most of them wait for a device. Only
// with the age limit off may the shortest go first among so many.
func TestPlanOfLargeBatches(t *testing.T) {
	for _, c := range []struct {
		model                  string
		memory                 int64
		throughput, turnaround float64 // least ratios to Algorithm 3
	}{{"sim:4xV100", math.MaxInt64, 1.2, 1.5}, {"sim:4xH200", 16 << 30, 1, 1.15}} {
		t.Run(c.model, func(t *testing.T) {
			t.Parallel()
			node, err := ParseNode(c.model)
			if err != nil {
				t.Fatal(err)
			}
			node = node.Capped(c.memory)
			r := rand.New(rand.NewPCG(1, 7))
			jobs, all := make([]mixes.Job, 128), mixes.Jobs()
			for i := range jobs {
				jobs[i] = all[r.IntN(len(all))]
			}
			alg3, _ := batch(t, node, "case-alg3", jobs, 1, 0, nil)
			plan, _ := batch(t, node, "plan:search=30", jobs, 1, 0, nil) // a twelfth of the time
			last, mean := ends(alg3)
			lastP, meanP := ends(plan)
			x, y := last/lastP, mean/meanP
			t.Logf("%.3f times the throughput, and %.3f in turnaround", x, y)
			if x < c.throughput || y < c.turnaround {
				t.Errorf("%.3f times the throughput of Algorithm 3, which has %.3f times the turnaround; want %g and %g", x, y, c.throughput, c.turnaround)
			}
		})
	}
}

// Batches in which plan took up to twice as long as Algorithm 3: jobs that ask before the first search has ended, and jobs that
// share their device with nobody.
func TestPlanIsNoWorseThanAlg3(t *testing.T) {
	node, err := ParseNode("sim:2xP100")
	if err != nil {
		t.Fatal(err)
	}
	stated := func(before, host, kernel int) mixes.Profile {
		return mixes.Profile{Before: time.Duration(before) * time.Second,
			Phases: []mixes.Phase{{Host: time.Duration(host) * time.Second, Kernel: time.Duration(kernel) * time.Second}}}
	}
	job := func(count int, p mixes.Profile, bytes int64, blocks uint64, isolate bool) []mixes.Job {
		needs := mixes.Footprint{Bytes: bytes, Blocks: blocks, ThreadsPerBlock: 1024}
		p.Phases[0].Kernels = needs
		return slices.Repeat([]mixes.Job{{Program: "./p", Profile: &p, Isolate: isolate, Footprint: needs}}, count)
	}
	for name, jobs := range map[string][]mixes.Job{
		"two that ask at once": job(2, stated(0, 0, 20), 1<<30, 500_000, false),
		"two that are alone": slices.Concat(job(2, stated(1, 1, 20), 1<<30, 1, true),
			job(6, stated(1, 15, 1), 2<<30, 1, false),
			job(6, stated(1, 4, 4), 3<<30, 1, false)),
	} {
		alg3, _ := batch(t, node, "case-alg3", jobs, 1, 0, nil)
		plan, kinds := batch(t, node, "plan", jobs, 1, 0, nil)
		last, _ := ends(alg3)
		lastP, _ := ends(plan)
		if lastP > 1.001*last || kinds[results.EventUnplanned] > 0 {
			t.Errorf("%s: %.1f s, and %.1f s under Algorithm 3; %d events say that nothing is planned", name, lastP, last, kinds[results.EventUnplanned])
		}
	}
}

// Four jobs of 3 GiB fit on a device of 16 GiB, and cannot all go on when each wants 3 GiB more. Plan knows.
func TestPlanLeavesRoomToGrow(t *testing.T) {
	node, err := ParseNode("sim:1xP100")
	if err != nil {
		t.Fatal(err)
	}
	steps := filepath.Join(t.TempDir(), "grows.jsonl")
	text := `{"step": "host", "seconds": 1}
{"step": "allocate", "object": "a", "bytes": "3GiB"}
{"step": "kernel", "blocks": 10, "threads": 32, "seconds": 1}
{"step": "allocate", "object": "b", "bytes": "3GiB"}
{"step": "kernel", "blocks": 10, "threads": 32, "seconds": 1}
`
	if err := os.WriteFile(steps, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	jobs := slices.Repeat([]mixes.Job{{Name: "grows", Steps: steps}}, 4)
	known, err := profiles.Catalog().WithSteps(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	done := func(sched string) (ok int) {
		out, _ := batchOf(t, node, known, sched, jobs, 1, 0, nil)
		for _, j := range out {
			if *j.Outcome == results.OK {
				ok++
			}
		}
		return ok
	}
	if alg3, plan := done("case-alg3"), done("plan"); plan != len(jobs) || alg3 == len(jobs) {
		t.Errorf("%d jobs end ok under plan and %d under Algorithm 3, which knows nothing of them; want all %d, and fewer", plan, alg3, len(jobs))
	}
}

// A job whose ranks have a task each is planned again for each of them. Else they would go one after the other.
func TestPlanServesAllRanks(t *testing.T) {
	jobs := slices.Repeat([]mixes.Job{ranks(t, "ranks", 5, allocate("a", "1GiB")+host(0.2)+kernel(80, 0.7, "")+free("a"))}, 2)
	expected := &schedulers.Prediction{Before: time.Second, Held: 2 * time.Second, Bytes: 1 << 30}
	lastOf := func(scheduler string) float64 {
		done, _, err := clusteredAs(t.Context(), harness.Options{Node: "sim:1xP100", Seed: 1}, scheduler, nil, []*schedulers.Prediction{expected, expected}, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		last, _ := ends(done)
		return last
	}
	if alg3, plan := lastOf("case-alg3"), lastOf("plan"); plan > alg3+10*searchTime.Seconds() {
		t.Errorf("%.2f s, and %.2f s under Algorithm 3", plan, alg3)
	}
}

// Where a third of the jobs are unknown there is a plan, beyond that there is none, and the run says so.
func TestUnknownJobs(t *testing.T) {
	v100, err := ParseNode("sim:4xV100")
	if err != nil {
		t.Fatal(err)
	}
	m, err := mixes.Lookup("W2")
	if err != nil {
		t.Fatal(err)
	}
	forget := func(n int) func([]*schedulers.Prediction) { return func(p []*schedulers.Prediction) { clear(p[:n]) } }
	for unknown, want := range map[int]int{0: 0, 5: 0, 6: 1, 16: 1} {
		jobs, kinds := batch(t, v100, "plan", m.Jobs, 1, 0, forget(unknown))
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
	node, err := ParseNode("sim:2xV100")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range chance.Seeds(t, 60, 2000) {
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
		jobs, _ := batch(t, node, "plan:search=50", m.Jobs, seed, workers, wrong)
		alg3, _ := batch(t, node, "case-alg3", m.Jobs, seed, workers, nil)
		for i, j := range jobs {
			killed := m.Jobs[i].Timeout > 0
			if *j.Outcome != *alg3[i].Outcome && (!killed || *j.Outcome != results.OK && *j.Outcome != results.Timeout) {
				t.Errorf("seed %d: %s is %s (%s), under Algorithm 3 %s", seed, j.Name, *j.Outcome, j.Detail, *alg3[i].Outcome)
			}
		}
	}
}
