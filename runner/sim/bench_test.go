package sim

import (
	"slices"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// BenchmarkBatch measures a simulated batch of 400 jobs, which is mostly the batch and the
// engine: eight or so events of each job.
func BenchmarkBatch(b *testing.B) {
	w1, err := mixes.Lookup("W1")
	if err != nil {
		b.Fatal(err)
	}
	node, err := ParseNode("sim:4xV100")
	if err != nil {
		b.Fatal(err)
	}
	jobs := slices.Repeat(w1.Jobs, 400/len(w1.Jobs))
	for _, scheduler := range []string{"sa", "case-alg2", "case-alg3"} {
		b.Run(scheduler, func(b *testing.B) {
			for b.Loop() {
				trial{node: node, scheduler: scheduler, jobs: jobs, workers: 32}.must(b)
			}
		})
	}
}
