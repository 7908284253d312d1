package live

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
)

// BenchmarkTasks measures case_task_begin and case_task_free in C processes against a whole
// run: the probe's server, the batch and the engine. BenchmarkRoundTrip of package probe is
// the same with a server that grants at once.
func BenchmarkTasks(b *testing.B) {
	client := filepath.Join(nativetest.Build(b, "probe", "build/roundtrip"), "build/roundtrip")
	for _, bench := range []struct {
		name    string
		clients int
		pauseUS int
	}{
		{"processes=1", 1, 0},
		{"paced=1", 1, 1000},
		{"processes=48", 48, 0},
		{"paced=48", 48, 10000},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := newRig(b, "case-alg3")
			r.jobs = []mixes.Job{{Name: "roundtrip", Program: client, Args: []string{"-n", strconv.Itoa(max(1, b.N/bench.clients)),
				"-c", strconv.Itoa(bench.clients), "-i", strconv.Itoa(bench.pauseUS)}}}
			jobs, _ := r.mustRun()
			if !slices.Equal(outcomes(jobs), []results.Outcome{results.OK}) {
				b.Fatalf("%s: %s", *jobs[0].Outcome, jobs[0].Detail)
			}
			var p50, p90, p99, worst, rate float64
			out := r.output(0)
			if _, err := fmt.Sscanf(out, "p50 p90 p99 max %f %f %f %f us requests_per_s %f", &p50, &p90, &p99, &worst, &rate); err != nil {
				b.Fatalf("%v in %q", err, out)
			}
			b.ReportMetric(p50, "p50-us")
			b.ReportMetric(p99, "p99-us")
			b.ReportMetric(rate, "req/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
