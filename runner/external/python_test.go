//go:build python

package external

import (
	"os/exec"
	"path/filepath"
	"testing"
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

// BenchmarkDecisionInPython is BenchmarkDecision of the example.
func BenchmarkDecisionInPython(b *testing.B) { benchmarkDecision(b, example(b)) }
