package sim

import (
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
)

// 100,000 jobs on 10,000 nodes with four devices each.
func BenchmarkCluster(b *testing.B) {
	jobs := make([]mixes.Job, 100_000)
	one := catalogJobs(b, "backprop-8388608")[0]
	for i := range jobs {
		jobs[i] = one
		jobs[i].At = time.Duration(i) * time.Millisecond
	}
	for b.Loop() {
		if _, _, err := clustered(b.Context(), "sim:10000x4xV100", "cluster-rr/case-alg3", 1, jobs...); err != nil {
			b.Fatal(err)
		}
	}
}
