//go:build python

package external

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// example is the path of a policy in Python.
func example(t testing.TB, name string) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "").Run(); err != nil {
		t.Fatalf("benchmarks/policies/%s needs python3 (apt-get install python3): %v", name, err)
	}
	path, err := filepath.Abs("../../benchmarks/policies/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// BenchmarkDecisionInPython is BenchmarkDecision of the example.
func BenchmarkDecisionInPython(b *testing.B) { benchmarkDecision(b, example(b, "alg3.py")) }

// The example for clusters decides as cluster-rr does, while jobs of one node and of several come and end, and nodes are lost.
func TestTheExampleForClusters(t *testing.T) {
	program, err := StartHead(policies.Program{Path: example(t, "turns.py"), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	nodes := []cluster.Node{{Devices: 1}, {Devices: 2}, {Devices: 3}}
	var heads [2]*cluster.Head
	for i, text := range []string{"cluster-rr", "exec:turns.py"} {
		p, err := cluster.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if p.Program() != nil {
			p = p.By(program)
		}
		if heads[i], err = cluster.New(p, nodes); err != nil {
			t.Fatal(err)
		}
	}
	var calls []func(*cluster.Head) []cluster.Decision
	for i := range 40 {
		calls = append(calls, func(h *cluster.Head) []cluster.Decision {
			return h.Submit(cluster.Job{ID: schedulers.JobID(i), Ranks: 1 + i*i%7, Whole: i%5 == 1})
		}, func(h *cluster.Head) []cluster.Decision { return h.JobEnded(schedulers.JobID(i - 3)) })
		switch i % 4 {
		case 3:
			calls = append(calls, func(h *cluster.Head) []cluster.Decision { return h.NodeDown(i / 4 % 3) })
		case 1:
			calls = append(calls, func(h *cluster.Head) []cluster.Decision { return h.NodeUp((i/4 + 2) % 3) })
		}
	}
	for i, call := range calls {
		if diff := cmp.Diff(call(heads[0]), call(heads[1])); diff != "" {
			t.Errorf("call %d (-cluster-rr +turns.py):\n%s", i, diff)
		}
	}
	if err := errors.Join(program.Err(), program.Close()); err != nil {
		t.Error(err)
	}
}
