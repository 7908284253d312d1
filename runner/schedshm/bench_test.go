package schedshm_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkFigure9 measures what schedGPU costs its clients, in stages and in total, with both
// architectures and with a mutex instead of the file lock. It reports the p50 and p99 of 500
// clients that are new processes, in microseconds, beside the paper's totals (Figure 9, without
// the server's start and stop).
func BenchmarkFigure9(b *testing.B) {
	const rounds, capacity = 500, 1 << 30
	for _, bench := range []struct {
		name         string
		architecture string
		program      string
		paperUS      float64
	}{
		{"client-server", "server", "build/lifecycle", 1165.5},
		{"shared-file-lock", "shared", "build/lifecycle", 584.9},
		{"shared-mutex", "shared", "build/lifecycle_mutex", 586.7},
	} {
		b.Run(bench.name, func(b *testing.B) {
			a := architectures[bench.architecture](b, node{capacity: capacity}, "fifo")
			cmd := exec.Command(native(b, bench.program), strconv.Itoa(max(rounds, b.N)), strconv.Itoa(capacity))
			cmd.Env = a.env(0)
			out, err := cmd.Output()
			if err != nil {
				b.Fatalf("%v\n%s", err, err.(*exec.ExitError).Stderr)
			}
			for line := range strings.Lines(string(out)) {
				var stage string
				var p50, p99 float64
				if _, err := fmt.Sscan(line, &stage, &p50, &p99); err != nil {
					b.Fatalf("%q: %v", line, err)
				}
				b.ReportMetric(p50, stage+"-p50-us")
				b.ReportMetric(p99, stage+"-p99-us")
			}
			b.ReportMetric(bench.paperUS, "paper-total-us")
			b.ReportMetric(0, "ns/op") // meaningless, because the number of rounds is fixed
		})
	}
}
