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

// BenchmarkSteps measures 1,000 jobs of 100 steps each, in five tasks that grow.
func BenchmarkSteps(b *testing.B) {
	var text string
	for range 5 {
		text += allocate("a", "1GiB") + transfer("in", "a", "1GiB")
		for _, more := range []string{"b", "c", "d", "e"} {
			text += kernel(4096, 0.25, "") + host(0.125) + allocate(more, "256MiB")
		}
		text += free("b", "c", "d", "e") + transfer("out", "a", "1GiB") + free("a")
	}
	for _, scheduler := range []string{"sa", "case-alg2", "case-alg3"} {
		b.Run(scheduler, func(b *testing.B) {
			s := stepping(b, mustNode(b, "sim:4xH200"), scheduler, text)
			s.jobs, s.workers = slices.Repeat(s.jobs, 1000), s.node.Threads()
			for b.Loop() {
				s.must(b)
			}
		})
	}
}
