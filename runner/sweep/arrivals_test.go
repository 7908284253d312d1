package sweep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/runner/harness"
)

// Arrivals without a seed are drawn anew in each repetition, and the same for all schedulers.
func TestSchedulersOfARepetitionHaveTheSameArrivals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "open.yaml")
	if err := os.WriteFile(path, []byte("arrivals: {poisson: 1/s}\njobs: [{job: bfs-32M, count: 2}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(t.Context(), harness.Options{Node: "sim:2xV100", Seed: 3, Noise: 0.1}, Options{Mixes: []string{path}, Scheds: []string{"sa", "case-alg3"}, Reps: 3, Jobs: 1}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	of := map[int]uint64{} // by repetition
	seeds := map[uint64]bool{}
	for _, c := range p.Cells() {
		if seed, known := of[c.Repetition]; known && seed != c.Seed {
			t.Errorf("repetition %d has the seeds %d and %d", c.Repetition, seed, c.Seed)
		}
		of[c.Repetition], seeds[c.Seed] = c.Seed, true
	}
	if len(of) != 3 || len(seeds) != 3 {
		t.Errorf("%d seeds of %d repetitions", len(seeds), len(of))
	}
}
