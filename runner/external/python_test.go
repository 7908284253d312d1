//go:build python

package external

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/policies"
)

// example is Alg. 3 in Python.
func example(t testing.TB) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "").Run(); err != nil {
		t.Fatalf("benchmarks/policies/alg3.py needs python3 (apt-get install python3): %v", err)
	}
	path, err := filepath.Abs("../../benchmarks/policies/alg3.py")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tape is everything that a run records, in order.
type tape struct {
	Jobs     []results.Job
	Tasks    []results.Task
	Swaps    []results.Swap
	Kernels  []results.Kernel
	Segments []results.Segment
	Events   []results.Event
}

func (r *tape) Job(j results.Job)         { r.Jobs = append(r.Jobs, j) }
func (r *tape) Task(t results.Task)       { r.Tasks = append(r.Tasks, t) }
func (r *tape) Swap(s results.Swap)       { r.Swaps = append(r.Swaps, s) }
func (r *tape) Kernel(k results.Kernel)   { r.Kernels = append(r.Kernels, k) }
func (r *tape) Segment(s results.Segment) { r.Segments = append(r.Segments, s) }
func (r *tape) Event(e results.Event)     { r.Events = append(r.Events, e) }

// simulate is a run of a mix of the catalog on four V100s.
func simulate(t *testing.T, mix string, s policies.Scheduler) (*tape, error) {
	t.Helper()
	node, err := sim.ParseNode("sim:4xV100")
	if err != nil {
		t.Fatal(err)
	}
	m, err := mixes.Lookup(mix)
	if err != nil {
		t.Fatal(err)
	}
	rec := &tape{}
	x, err := sim.NewExecutor(sim.Config{Node: node, Jobs: m.Jobs, MPS: s.Shares, Profiles: profiles.Catalog()}, rec)
	if err != nil {
		t.Fatal(err)
	}
	_, err = runner.Run(context.Background(), runner.Config{Jobs: m.Jobs, Devices: node.Devices(s.Shares), Scheduler: s, MPS: s.Shares}, x, rec)
	return rec, err
}

// The example decides as case-alg3 does, under each queue order: every record of W1 to W8 is equal.
func TestTheExampleIsAlg3(t *testing.T) {
	path := example(t)
	tasks := 0
	for _, parameters := range []string{"queue=largest-first", "queue=fifo,age-limit=3", "queue=mmu,wait-limit=20s"} {
		for _, mix := range []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"} {
			ours, err := policies.Parse("case-alg3:"+parameters, 4)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := policies.Parse("exec:path="+path+","+parameters, 4)
			if err != nil {
				t.Fatal(err)
			}
			theirs.Program.Timeout = time.Minute
			p, err := Start(*theirs.Program)
			if err != nil {
				t.Fatal(err)
			}
			theirs.Policy = p
			want, err := simulate(t, mix, ours)
			if err != nil {
				t.Fatal(err)
			}
			got, err := simulate(t, mix, theirs)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s under %s (-case-alg3 +alg3.py):\n%s", mix, parameters, diff)
			}
			tasks += len(want.Tasks)
		}
	}
	if tasks == 0 {
		t.Error("no task was placed")
	}
}

// BenchmarkDecisionInPython is BenchmarkDecision of the example.
func BenchmarkDecisionInPython(b *testing.B) { benchmarkDecision(b, example(b)) }
